"""The yardsticks of ``selfguide benchmark``, under the name by which they are known here."""

from selfguide.benchmark.yardstick import Yardstick, matmul_precision

__all__ = ["Yardstick", "matmul_precision"]
