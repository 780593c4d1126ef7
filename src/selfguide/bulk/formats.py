"""Shards of vectors to one file: a memory-mappable ``.npy``, parquet or JSON lines; one shard in memory at a time."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32] | npt.NDArray[np.int8] | npt.NDArray[np.uint8]
"""As they are stored: numbers, codes of int8, or bits, eight in a byte."""

_ROWS_AT_ONCE = 512
_BYTES_AT_ONCE = 2**20


def shape_of(shards: Sequence[Path]) -> tuple[int, int]:
    """Vectors in all shards, and the numbers that each is stored as."""
    shapes = [np.load(path, mmap_mode="r").shape for path in shards]
    return sum(shape[0] for shape in shapes), shapes[0][1]


def write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """What a ``.npy`` file begins with."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype.newbyteorder("<")), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _write_npy(file: BinaryIO, shards: Sequence[Path]) -> None:
    # not open_memmap: all that is written through a map counts as memory of the process
    write_header(file, _dtype_of(shards), shape_of(shards))
    for path in shards:
        with path.open("rb") as shard:
            np.lib.format.read_magic(shard)
            np.lib.format.read_array_header_1_0(shard)
            shutil.copyfileobj(shard, file, _BYTES_AT_ONCE)


def _write_parquet(file: BinaryIO, shards: Sequence[Path]) -> None:
    import pyarrow
    import pyarrow.parquet

    _, dim = shape_of(shards)
    schema = pyarrow.schema([("vector", pyarrow.list_(pyarrow.from_numpy_dtype(_dtype_of(shards)), dim))])
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for vectors in map(np.load, shards):
            column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), dim)
            writer.write_table(pyarrow.table([column], schema))


def _write_json_lines(file: BinaryIO, shards: Sequence[Path]) -> None:
    for vectors in map(np.load, shards):
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            file.write("".join(_json_rows(vectors[start : start + _ROWS_AT_ONCE])).encode())


def _json_rows(vectors: Vectors) -> Iterator[str]:
    for row in vectors.astype("U32"):  # as text, numpy gives the fewest digits that lead back to the same number
        yield f'{{"vector": [{", ".join(row)}]}}\n'


def _dtype_of(shards: Sequence[Path]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.load(shards[0], mmap_mode="r").dtype
    return dtype


WRITERS: dict[str, Callable[[BinaryIO, Sequence[Path]], None]] = {
    "npy": _write_npy,
    "parquet": _write_parquet,
    "jsonl": _write_json_lines,
}
"""What writes each of ``config.FORMATS``."""
