"""A large file that is there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from selfguide.errors import StorageError
from selfguide.files import flush, is_disk_full


@contextmanager
def whole_file(target: Path, scratch: Path) -> Iterator[BinaryIO]:
    """Yield a file at ``scratch``, on the same disk, that takes the place of ``target`` when all of it is on the disk.

    Raises:
        StorageError: when there is no room.
    """
    try:
        with scratch.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
        flush(target.parent)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        if is_disk_full(error):
            raise StorageError(
                f"'{target}' could not be written: the disk is full, or a file reached its size limit; "
                "what was stored before is kept, and the same command goes on from there"
            ) from error
        raise
