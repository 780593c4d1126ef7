"""How far the work is: a bar on a terminal, elsewhere plain lines or nothing; always on stderr."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

logger = logging.getLogger(__name__)

OnProgress = Callable[[int, int], None]
"""Called with how much is done, such as sentences, and of how much."""

SECONDS_BETWEEN = 10.0
"""Between plain lines."""


@contextmanager
def progress_on(
    stream: TextIO, doing: str, *, unit: str = "sentences", enabled: bool = True, lines: bool = False
) -> Iterator[OnProgress]:
    """A callback that shows how far the work is; a bar goes when the block ends.

    Args:
        stream: Where a bar is drawn, if it is a terminal.
        doing: What is done, such as ``embedding``.
        unit: What is counted.
        enabled: Show anything at all.
        lines: Log a line now and then where there is no terminal.
    """
    if not enabled or not (lines or stream.isatty()):
        yield lambda done, total: None
        return
    if not stream.isatty():
        yield _plain_lines(doing, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_lines(doing: str, unit: str) -> OnProgress:
    """A line when the last one is some seconds old, with the rate since the start."""
    began = last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN:
            last = now
            logger.info("%s: %d of %d %s, %.1f a second", doing, done, total, unit, done / (now - began))

    return tell
