"""Work beside the model: what comes next is prepared ahead of it, and what it made is stored behind it."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


def one_ahead(items: Iterable[Item], prepare: Callable[[Item], Prepared]) -> Iterator[tuple[Item, Prepared]]:
    """Each item prepared, while the next one is being prepared in a thread; items come here, where Ctrl-C comes, too."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting: list[tuple[Item, Future[Prepared]]] = []
        for item in items:
            waiting.append((item, worker.submit(prepare, item)))
            if len(waiting) > 1:
                ready, future = waiting.pop(0)
                yield ready, future.result()
        for ready, future in waiting:
            yield ready, future.result()


@contextmanager
def one_behind() -> Iterator[Callable[..., None]]:
    """Yield a function that calls another in a thread, after the call before it, whose error it raises.

    When the block ends, all calls have ended.
    """
    last: Future[Any] | None = None

    def later(function: Callable[..., Any], *arguments: Any) -> None:  # noqa: ANN401 - whatever the function takes
        nonlocal last
        if last is not None:
            last.result()
        last = worker.submit(function, *arguments)

    with ThreadPoolExecutor(max_workers=1) as worker:
        yield later
        if last is not None:
            last.result()
