"""A progress bar on a terminal; nothing elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from selfguide.evaluation.vectors import OnProgress


@contextmanager
def progress_on(stream: TextIO, *, enabled: bool = True) -> Iterator[OnProgress]:
    """A callback that moves a bar on this stream, if it is a terminal; the bar goes when the block ends."""
    if not (enabled and stream.isatty()):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TextColumn("sentences"), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
