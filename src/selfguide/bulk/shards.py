"""Sentences in shards, and the folder that keeps the vectors of each until all are done."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from selfguide.bulk.formats import Vectors, write_header
from selfguide.bulk.whole_file import whole_file
from selfguide.compact import Scale
from selfguide.errors import InputError
from selfguide.files import read_json, write_json

_JOB, _SCRATCH, _SCALE = "job.json", "scratch", "scale.json"


@final
@dataclass(frozen=True)
class Shard:
    """Sentences that are encoded, then stored, together."""

    number: int
    sentences: list[str]

    @cached_property
    def file_name(self) -> str:
        """Number, count and a hash of the sentences."""
        digest = hashlib.sha256("".join(f"{sentence}\0" for sentence in self.sentences).encode())
        return f"{self.number:06d}-{len(self.sentences)}-{digest.hexdigest()[:32]}.npy"


def in_shards(sentences: Iterable[str], size: int) -> Iterator[Shard]:
    """Sentences in shards of this size; the last one may be smaller."""
    remaining, number = iter(sentences), 0
    while part := list(islice(remaining, size)):
        yield Shard(number, part)
        number += 1


@final
class ShardFolder:
    """Vectors of shards, each whole or not there; used again when model, settings and sentences are the same."""

    def __init__(self, folder: Path, job: Mapping[str, Any], *, replace: bool) -> None:
        """Open a folder, or make it.

        Args:
            folder: Beside the output.
            job: All that the vectors depend on but for the sentences.
            replace: Throw away what was made of something else; without, it is refused.

        Raises:
            InputError: when the folder was made with other settings, or by something else.
        """
        self.folder, self._replace = folder, replace
        wanted: dict[str, Any] = json.loads(json.dumps(job))
        found = _read_job(folder) if folder.is_dir() else wanted
        if found != wanted:
            if not isinstance(found, dict) and any(_JOB not in path.name for path in folder.iterdir()):
                raise InputError(
                    f"'{folder}', where shards are stored, holds something else; move that, or choose another output"
                )
            if not replace:
                raise InputError(
                    f"'{folder}' was begun with another model or other settings{_differences(found, wanted)}; "
                    "use the same to go on, or --overwrite to begin anew"
                )
            shutil.rmtree(folder)
        if not folder.is_dir():
            folder.mkdir(parents=True)
            write_json(folder / _JOB, wanted)
        self._stored = {int(path.name.split("-")[0]): path for path in folder.glob("*-*-*.npy")}

    @property
    def scratch(self) -> Path:
        """Where a file is written before it gets its name."""
        return self.folder / _SCRATCH

    @property
    def scale(self) -> Scale | None:
        """That of stored int8 vectors, once there are some."""
        try:
            return Scale(float(read_json(self.folder / _SCALE)))
        except (OSError, ValueError, TypeError):
            return None

    def set_scale(self, scale: Scale) -> None:
        """Keep the scale of the int8 vectors that will be stored."""
        write_json(self.folder / _SCALE, scale.step)

    def holds(self, shard: Shard) -> bool:
        """Whether the vectors of a shard are there.

        Raises:
            InputError: when those of other sentences are in their place.
        """
        stored = self._stored.get(shard.number)
        if stored is None or stored.name == shard.file_name:
            return stored is not None
        self._discard(stored)
        return False

    def write(self, shard: Shard, vectors: Vectors) -> None:
        """Store the vectors of a shard; when this returns they are there for good, before it, none is."""
        path = self.folder / shard.file_name
        with whole_file(path, self.scratch) as file:
            write_header(file, vectors.dtype, vectors.shape)
            file.write(np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<")).data)
        self._stored[shard.number] = path

    def paths(self, count: int) -> list[Path]:
        """The files of all shards in order, of which there are ``count``.

        Raises:
            InputError: when there are more, as the sentences were others.
        """
        for path in [path for number, path in self._stored.items() if number >= count]:
            self._discard(path)
        return [self._stored[number] for number in range(count)]

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)

    def clear(self) -> None:
        """Drop all vectors, as they are when nothing tells their scale."""
        for path in self._stored.values():
            path.unlink()
        self._stored.clear()

    def _discard(self, path: Path) -> None:
        if not self._replace:
            raise InputError(
                f"the sentences are not those that '{self.folder}' was begun with: '{path.name}' is of others; "
                "give the same to go on, or --overwrite to encode these"
            )
        number = int(path.name.split("-")[0])
        if number:
            self._stored.pop(number).unlink()
        else:  # the first one has set the scale of all
            self.clear()
            (self.folder / _SCALE).unlink(missing_ok=True)


def _read_job(folder: Path) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return read_json(folder / _JOB)
    except (OSError, ValueError):  # killed before it was written
        return None


def _differences(before: Any, job: dict[str, Any]) -> str:  # noqa: ANN401
    if not isinstance(before, dict):
        return ""
    names = sorted(name for name in before.keys() | job.keys() if before.get(name) != job.get(name))
    return f" ({', '.join(names)})"
