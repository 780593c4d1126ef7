"""Processes that train together, each on batches of its own: what the main one has found out, told to all."""

from typing import Any, TypeVar

Value = TypeVar("Value")


def from_main(accelerator: Any, value: Value) -> Value:  # noqa: ANN401 - accelerate is untyped
    """The value that the main process has, in every process; all of them must ask at the same place.

    What depends on a clock, a signal or a score goes through here: processes that decide differently would wait for each
    other forever.
    """
    if accelerator.num_processes == 1:
        return value
    from accelerate.utils import broadcast_object_list

    told: Value = broadcast_object_list([value])[0]
    return told
