"""What a user sees while sentences are translated: a bar on a terminal, plain lines elsewhere; always on stderr."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

logger = logging.getLogger(__name__)

OnProgress = Callable[[int, int], None]
"""Called with how many sentences are done, and of how many."""

SECONDS_BETWEEN = 10.0


@contextmanager
def progress_on(stream: TextIO, *, enabled: bool = True) -> Iterator[OnProgress]:
    """A callback that shows how far the work is; a bar goes when the block ends."""
    if not enabled:
        yield lambda done, total: None
        return
    if not stream.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TextColumn("sentences"), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_lines() -> OnProgress:
    """A line when the last one is some seconds old, with the rate since the start."""
    began = last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN:
            last = now
            logger.info("%d of %d sentences translated, %.1f a second", done, total, done / (now - began))

    return tell
