"""The trial of a precision: made once in a process of its own, and remembered."""

import subprocess

import pytest

from selfguide.embedders import trial


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Gives a way to say how the process ends; and the calls that were made."""
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path / "cache"))
    calls = []

    def ends_with(code):
        def run(command, **options):
            calls.append(command)
            if isinstance(code, BaseException):
                raise code
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(trial.subprocess, "run", run)
        return calls

    return ends_with


def test_the_answer_is_remembered(child):
    calls = child(0)
    assert trial.cpu_computes("bf16") and trial.cpu_computes("bf16")
    assert len(calls) == 1 and calls[0][-1] == "bf16"
    child(-4)  # an illegal instruction
    assert not trial.cpu_computes("fp16")
    assert trial.cpu_computes("bf16")
    child(0)
    assert not trial.cpu_computes("fp16")


def test_no_end_is_a_breakdown(child):
    child(subprocess.TimeoutExpired("python", 1))
    assert not trial.cpu_computes("bf16")


def test_a_cache_that_cannot_be_used_costs_time_only(child, tmp_path):
    (tmp_path / "cache").write_text("a file")
    calls = child(0)
    assert trial.cpu_computes("bf16") and trial.cpu_computes("bf16")
    assert len(calls) == 2
