"""Word vectors from a file: GloVe or word2vec text, or a matrix of numpy with its vocabulary beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide.data.lines import open_lines, reported
from selfguide.errors import InputError
from selfguide.files import sha256_of_file


@final
@dataclass(frozen=True)
class WordVectors:
    """A vector for each word."""

    rows: dict[str, int]
    """Word -> row of the matrix."""
    matrix: npt.NDArray[np.float32]
    """``(words, dim)``."""
    sha256: str
    """Hash of the file with the vectors, as it lies on the disk."""


def read_word_vectors(path: Path) -> WordVectors:
    """Read word vectors.

    Args:
        path: A text file (also .gz, .xz, .zst) with a word and its numbers a line, separated by blanks, perhaps after
            word2vec's line of counts; or a matrix ``NAME.npy`` with the words, one a line, in ``NAME.vocab`` beside it, or
            in ``vocab.txt``. A word that comes again keeps its first vector.

    Raises:
        InputError: The file is missing or broken; the line is named.
    """
    rows, matrix = _read_matrix(path) if path.suffix == ".npy" else _read_text(path)
    if not rows:
        raise InputError(f"{path} holds no word vectors")
    with reported(path):
        return WordVectors(rows, matrix, sha256_of_file(path))


def _read_text(path: Path) -> tuple[dict[str, int], npt.NDArray[np.float32]]:
    words: list[str] = []
    vectors: list[npt.NDArray[np.float32]] = []
    counts: list[int] = []
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.strip("\n ").split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
                counts = [int(field) for field in fields]
                continue
            dim = counts[1] if counts else len(vectors[0]) if vectors else len(fields) - 1
            word, vector = _parse(fields, dim, f"{path}:{number}")
            words.append(word)
            vectors.append(vector)
    if counts and len(words) != counts[0]:
        raise InputError(f"{path}:1: {counts[0]} words were promised, {len(words)} are there; fetch the file again")
    return _first_rows(words), np.stack(vectors) if vectors else np.empty((0, 0), np.float32)


def _parse(fields: list[str], dim: int, where: str) -> tuple[str, npt.NDArray[np.float32]]:
    """The word and its vector; a word may hold blanks, the numbers are what stands last."""
    if dim < 1 or len(fields) <= dim:
        raise InputError(f"{where}: a word and {max(dim, 1)} numbers are needed; number of fields is {len(fields)}")
    try:
        vector = np.array(fields[-dim:], dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{where}: not a word and {dim} numbers ({error})") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{where}: a number is not finite")
    return " ".join(fields[:-dim]), vector


def _read_matrix(path: Path) -> tuple[dict[str, int], npt.NDArray[np.float32]]:
    vocabulary = _vocabulary_of(path)
    with open_lines(vocabulary) as lines:
        words = [line.removesuffix("\n") for line in lines]
    try:
        with reported(path):
            matrix = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path}: not a whole .npy file ({error})") from error
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        raise InputError(f"{path}: shape {matrix.shape} of {matrix.dtype}; a matrix (words, dim) of floats is needed")
    if len(matrix) != len(words):
        raise InputError(f"{path} has {len(matrix)} rows, and {vocabulary} {len(words)} words; each word needs its row")
    if not np.isfinite(matrix).all():
        bad = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise InputError(f"{path}: row {bad + 1} holds a number that is not finite")
    return _first_rows(words), matrix.astype(np.float32)


def _vocabulary_of(path: Path) -> Path:
    candidates = (path.with_suffix(".vocab"), path.with_name("vocab.txt"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise InputError(f"{path}: the words of its rows are missing; looked for {' and '.join(map(str, candidates))}")


def _first_rows(words: Iterable[str]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(word, row)
    return rows
