"""Where sentences stay: in a list while they are few, beyond that in a memory-mapped Arrow file."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import cast, final

_CHUNK_TEXTS = 10_000


def store(texts: Iterable[str], limit_in_memory: int) -> "list[str] | MappedTexts":
    """Keep texts in a list, or on the disk when there are more than ``limit_in_memory``."""
    remaining = iter(texts)
    head = list(islice(remaining, limit_in_memory))
    following = list(islice(remaining, 1))
    return MappedTexts(chain(head, following, remaining)) if following else head


@final
class MappedTexts:
    """Texts in an Arrow file in a temporary folder, which goes when this object does, or at the latest at exit."""

    def __init__(self, texts: Iterable[str]) -> None:
        import pyarrow

        folder = Path(tempfile.mkdtemp(prefix="selfguide-sentences-"))
        weakref.finalize(self, _remove, folder, os.getpid())
        path = folder / "texts.arrow"
        _write(texts, path)
        self._column = pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all().column(0)

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> str:
        return cast(str, self._column[index].as_py())

    def __iter__(self) -> Iterator[str]:
        return (text for chunk in self._column.chunks for text in chunk.to_pylist())


def _write(texts: Iterable[str], path: Path) -> None:
    import pyarrow

    schema = pyarrow.schema([("text", pyarrow.string())])
    remaining = iter(texts)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, schema) as writer:
        while chunk := list(islice(remaining, _CHUNK_TEXTS)):
            writer.write_batch(pyarrow.record_batch([pyarrow.array(chunk, pyarrow.string())], schema))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker that ends must not take the file from the others
        shutil.rmtree(folder, ignore_errors=True)
