"""What a user sees while a run goes on."""

import io

import pytest

from selfguide.training import progress
from selfguide.training.progress import Bar, PlainLines, Silent, progress_for


class Clock:
    """Time that only goes on when told to."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal_and_lines_elsewhere():
    assert isinstance(progress_for(Terminal()), Bar)
    assert isinstance(progress_for(io.StringIO()), PlainLines)


def test_a_line_every_few_seconds_and_at_the_end(clock, capsys):
    lines = PlainLines(seconds_between=5)
    lines.start(0, 10)
    for step in range(1, 11):
        clock.now += 2
        lines.update(step, 1 / step, 16 * step)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "step 3/10  loss 0.3333  8 sentences/s  0:14 left",
        "step 6/10  loss 0.1667  8 sentences/s  0:08 left",
        "step 9/10  loss 0.1111  8 sentences/s  0:02 left",
        "step 10/10  loss 0.1000  8 sentences/s  0:00 left",
    ]


def test_after_a_resume_the_time_left_counts_the_new_steps_only(clock, capsys):
    lines = PlainLines(seconds_between=5)
    lines.start(1000, 2000)
    clock.now += 10
    lines.update(1010, 2.0, 160)
    assert capsys.readouterr().err == "step 1010/2000  loss 2.0000  16 sentences/s  16:30 left\n"


def test_hours_are_told(clock, capsys):
    lines = PlainLines(seconds_between=0)
    lines.start(0, 3601)
    clock.now += 2
    lines.update(1, 2.0, 16)
    assert "2:00:00 left" in capsys.readouterr().err


def test_a_score_has_its_own_line_and_stays_in_the_others(clock, capsys):
    lines = PlainLines(seconds_between=5)
    lines.start(0, 2)
    lines.scored(1, 55.123, is_best=True)
    lines.scored(2, 54.0, is_best=False)
    clock.now += 1
    lines.update(2, 1.0, 32)
    lines.stop()
    assert capsys.readouterr().err.splitlines() == [
        "step 1  dev 55.12 (best so far)",
        "step 2  dev 54.00",
        "step 2/2  loss 1.0000  dev 54.00  32 sentences/s  0:00 left",
    ]


def test_the_bar_shows_step_loss_score_and_rate_on_stderr(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    bar = Bar()
    bar.start(3, 10)
    bar.update(4, 1.25, 64)
    bar.scored(4, 60.5, is_best=True)
    bar.stop()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(part in captured.err for part in ("training", "4/10", "loss 1.2500", "dev 60.50*", "sentences/s"))


def test_a_bar_that_never_began_can_be_stopped():
    Bar().stop()


def test_silence(capsys):
    silent = Silent()
    silent.start(0, 1)
    silent.update(1, 1.0, 1)
    silent.scored(1, 1.0, is_best=True)
    silent.stop()
    assert capsys.readouterr() == ("", "")
