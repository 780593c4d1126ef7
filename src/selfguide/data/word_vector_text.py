"""Text files of word vectors, GloVe's and word2vec's, parsed some hundred lines at a time."""

import logging
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from selfguide.data.lines import open_lines
from selfguide.errors import InputError

logger = logging.getLogger(__name__)

Block = tuple[list[str], npt.NDArray[np.float32]]
"""Words, and their vectors ``(words, dim)``."""

_LINES_PER_BLOCK = 256
_UNDECODABLE = "\udcff"
"""What ``open_lines`` puts for bytes that are not UTF-8."""


def read_blocks(path: Path) -> Iterator[Block]:
    """Yield all words with their vectors, in the order of the file; those that come again come again here.

    Raises:
        InputError: The file is missing or broken; the line is named.
    """
    count = undecodable = 0
    with open_lines(path) as lines:
        first = next(lines, "")
        promised, dim = _dimensions(first)
        number = 1 if promised is None else 2
        rest = chain([first] if first and promised is None else [], lines)
        while block := [line.strip("\n ") for line in islice(rest, _LINES_PER_BLOCK)]:
            words, vectors = _parse_quickly(block, dim) or _parse_one_by_one(block, dim, path, number + count)
            count += len(words)
            undecodable += sum(_UNDECODABLE in word for word in words)
            yield [word.replace(_UNDECODABLE, "\ufffd") for word in words], vectors
    if promised is not None and count != promised:
        raise InputError(f"{path}:1: {promised} words were promised, {count} are there; fetch the file again")
    if undecodable:
        logger.warning("%s: %d words are not UTF-8, and no sentence will match them; convert the file", path, undecodable)


def _dimensions(first: str) -> tuple[int | None, int]:
    """The number of words, where word2vec's line of counts tells it, and the length of the vectors."""
    fields = first.strip("\n ").split(" ")
    if len(fields) == 2 and all(field.isdecimal() for field in fields):
        return int(fields[0]), int(fields[1])
    return None, len(fields) - 1


def _parse_quickly(lines: list[str], dim: int) -> Block | None:
    """All lines at once; None where one is not a word without blanks and ``dim`` finite numbers, which is rare."""
    words, _, numbers = zip(*(line.partition(" ") for line in lines), strict=True)
    try:
        fields = pc.split_pattern(pa.array(numbers, pa.string()), " ")
        if pc.any(pc.not_equal(pc.list_value_length(fields), dim)).as_py():
            return None
        vectors = pc.cast(fields.flatten(), pa.float32()).to_numpy().reshape(len(words), dim)
    except ValueError:  # also pyarrow's own, and text that is not UTF-8
        return None
    return (list(words), vectors) if np.isfinite(vectors).all() else None


def _parse_one_by_one(lines: list[str], dim: int, path: Path, number: int) -> Block:
    parsed = [_parse(line.split(" "), dim, f"{path}:{place}") for place, line in enumerate(lines, start=number)]
    words, vectors = zip(*parsed, strict=True)
    return list(words), np.stack(vectors)


def _parse(fields: list[str], dim: int, where: str) -> tuple[str, npt.NDArray[np.float32]]:
    """The word and its vector; a word may hold blanks, the numbers are what stands last."""
    if dim < 1 or len(fields) <= dim:
        raise InputError(f"{where}: a word and {max(dim, 1)} numbers are needed; number of fields is {len(fields)}")
    try:
        vector = np.array(fields[-dim:], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{where}: not a word and {dim} numbers ({error})") from error
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():  # false for nan, too
        raise InputError(f"{where}: a number is not finite")
    return " ".join(fields[:-dim]), vector.astype(np.float32)
