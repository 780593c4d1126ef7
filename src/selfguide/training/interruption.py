"""Ctrl-C and a polite kill: finish the step, so that a checkpoint can be written, instead of dying inside it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether the user has asked to stop."""

    asked = False


@contextmanager
def deferred_interruption() -> Iterator[Interruption]:
    """Within the block the first SIGINT or SIGTERM only sets a flag; a second one interrupts at once."""
    state = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield state
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if state.asked:
            raise KeyboardInterrupt
        state.asked = True

    earlier = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield state
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
