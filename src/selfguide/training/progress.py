"""What a user sees while a run goes on: a bar on a terminal, plain lines elsewhere; always on stderr."""

import sys
import time
from typing import Any, Protocol, final


class Progress(Protocol):
    """Receives what happens in a run."""

    def start(self, step: int, steps: int) -> None:
        """Training begins, or goes on after ``step`` of ``steps``."""

    def update(self, step: int, loss: float, sentences: int) -> None:
        """A step is done; ``sentences`` were read since the start."""

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        """The encoder was scored on the dev pairs."""

    def stop(self) -> None:
        """Training is over, one way or another."""


@final
class Silent:
    """Shows nothing."""

    def start(self, step: int, steps: int) -> None:
        """Nothing."""

    def update(self, step: int, loss: float, sentences: int) -> None:
        """Nothing."""

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


@final
class PlainLines:
    """A line every few seconds and for each score, for logs and pipes."""

    def __init__(self, seconds_between: float = 5.0) -> None:
        self.seconds_between = seconds_between
        self._began = self._last = time.monotonic()
        self._first = self._steps = 0
        self._score = ""

    def start(self, step: int, steps: int) -> None:
        """Note where the run begins."""
        self._began, self._first, self._steps = time.monotonic(), step, steps

    def update(self, step: int, loss: float, sentences: int) -> None:
        """Write a line when the last one is some seconds old, and at the end."""
        now = time.monotonic()
        if now - self._last < self.seconds_between and step < self._steps:
            return
        self._last = now
        seconds = max(now - self._began, 1e-9)
        left = seconds / max(1, step - self._first) * (self._steps - step)
        _line(
            f"step {step}/{self._steps}  loss {loss:.4f}{self._score}  "
            f"{sentences / seconds:.0f} sentences/s  {_clock(left)} left"
        )

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        """Write the score."""
        self._score = f"  dev {score:.2f}"
        _line(f"step {step}  dev {score:.2f}{' (best so far)' if is_best else ''}")

    def stop(self) -> None:
        """Nothing to clean up."""


@final
class Bar:
    """A progress bar with loss, score, sentences a second and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[score]}"),
            TextColumn("{task.fields[rate]} sentences/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(stderr=True),
        )
        self._task: Any = None
        self._began = time.monotonic()

    def start(self, step: int, steps: int) -> None:
        """Show the bar."""
        self._began = time.monotonic()
        self._task = self._bar.add_task("", total=steps, completed=step, loss="-", score="", rate="-")
        self._bar.start()

    def update(self, step: int, loss: float, sentences: int) -> None:
        """Move the bar."""
        rate = sentences / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, completed=step, loss=f"{loss:.4f}", rate=f"{rate:.0f}")

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        """Show the score."""
        self._bar.update(self._task, score=f"dev {score:.2f}{'*' if is_best else ''}")

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def progress_for(stream: Any) -> Progress:  # noqa: ANN401 - any text stream
    """A bar when the stream is a terminal, plain lines otherwise."""
    return Bar() if stream.isatty() else PlainLines()


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds_left:02d}" if hours else f"{minutes}:{seconds_left:02d}"
