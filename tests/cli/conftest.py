"""The tiny text of ``tiny_runs``."""

from tiny_runs import text

__all__ = ["text"]
