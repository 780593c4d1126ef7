"""One thread, and the tiny text of ``tiny_runs``."""

from tiny_runs import one_thread, text

__all__ = ["one_thread", "text"]
