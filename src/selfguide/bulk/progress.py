"""What a user sees while sentences are encoded: a counter on a terminal, plain lines elsewhere; always on stderr."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

logger = logging.getLogger(__name__)

SECONDS_BETWEEN = 10.0


@contextmanager
def progress_on(stream: TextIO, *, enabled: bool = True) -> Iterator[Callable[[int], None]]:
    """A callback that is told how many more sentences are encoded; how many there will be nobody knows."""
    if not enabled:
        yield lambda more: None
        return
    if not stream.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = "{task.completed:,.0f} sentences, {task.speed:,.0f} a second"
    waiting = "encoding"
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(file=stream), transient=True
    ) as bar:
        task = bar.add_task(waiting, total=None)

        def tell(more: int) -> None:
            bar.advance(task, more)
            state = bar.tasks[0]
            bar.update(task, description=text.format(task=state) if state.speed else waiting)

        yield tell


def _plain_lines() -> Callable[[int], None]:
    """A line when the last one is some seconds old, with the rate since the start."""
    began = last = time.monotonic()
    done = 0

    def tell(more: int) -> None:
        nonlocal last, done
        done += more
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN:
            last = now
            logger.info("%s sentences encoded, %s a second", f"{done:,}", f"{done / (now - began):,.0f}")

    return tell
