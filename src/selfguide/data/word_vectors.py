"""Word vectors from a file: GloVe or word2vec text, or a matrix of numpy with its vocabulary beside it.

No more than a small file is held in memory: a matrix is memory-mapped, and a big text file becomes one once, in a cache.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import numpy.typing as npt

from selfguide.data.lines import data_suffix, open_lines, reported
from selfguide.data.word_vector_text import Block, read_blocks
from selfguide.errors import InputError
from selfguide.files import atomic_folder, read_json, sha256_of_file, write_json

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "SELFGUIDE_CACHE"
"""Environment variable with the folder for the matrices of big text files, in place of ``~/.cache/selfguide``."""
IN_MEMORY_BYTES = 64 * 2**20
"""A text file above this size is read by way of the cache."""

_MATRIX, _VOCABULARY, _RECORD = "word_vectors.npy", "word_vectors.vocab", "word_vectors.json"
_ROWS_PER_BLOCK = 4096

Matrix = npt.NDArray[np.floating[Any]]


@final
@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each word."""

    rows: dict[str, int]
    """Word -> row of the matrix."""
    matrix: Matrix
    """``(words, dim)``, perhaps on the disk; its values are those of single precision, whatever its type."""
    sha256: str
    """Hash of the file with the vectors, as it lay on the disk when it was first read."""


def read_word_vectors(path: Path) -> WordVectors:
    """Read word vectors.

    Args:
        path: A text file (also .gz, .xz, .zst) with a word and its numbers a line, separated by blanks, perhaps after
            word2vec's line of counts; a matrix ``NAME.npy`` with the words, one a line, in ``NAME.vocab`` beside it, or in
            ``vocab.txt``; or a folder that :func:`save_word_vectors` wrote. A word that comes again keeps its first vector.

    Raises:
        InputError: The file is missing or broken; the line is named.
    """
    with reported(path):
        size = path.stat().st_size
        if path.is_dir():
            return _read_saved(path)
        if path.suffix == ".npy":
            return _read_matrix(path)
        if data_suffix(path) == ".bin":
            raise InputError(f"{path}: binary word vectors are not read; save them as text, or as NAME.npy with NAME.vocab")
        return _read_cached(path) if size > IN_MEMORY_BYTES else _read_text(path)


def is_word_vector_folder(path: Path) -> bool:
    """Whether a folder was written by :func:`save_word_vectors`."""
    return (path / _RECORD).is_file()


def save_word_vectors(vectors: WordVectors, target: Path, *, name: str) -> None:
    """Write a folder with the matrix, the words and a name; all or nothing.

    Raises:
        InputError: A word holds the end of a line.
    """
    with atomic_folder(target) as folder:
        _write_blocks(_blocks_of(vectors), folder)
        digest = sha256_of_file(folder / _MATRIX)
        write_json(folder / _RECORD, {"name": name, "sha256": vectors.sha256, "matrix_sha256": digest})


def saved_name(folder: Path) -> str:
    """The name that word vectors were saved with."""
    return str(_read_record(folder, "name", "sha256", "matrix_sha256")["name"])


def _read_text(path: Path) -> WordVectors:
    words: list[str] = []
    matrices: list[npt.NDArray[np.float32]] = []
    for block_words, matrix in read_blocks(path):
        words += block_words
        matrices.append(matrix)
    if not words:
        raise InputError(f"{path} holds no word vectors")
    return WordVectors(_first_rows(words), np.concatenate(matrices), sha256_of_file(path))


def _read_matrix(path: Path) -> WordVectors:
    vectors = _open_matrix(path, _vocabulary_of(path), sha256_of_file(path))
    for start in range(0, len(vectors.matrix), _ROWS_PER_BLOCK):
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(vectors.matrix[start : start + _ROWS_PER_BLOCK].astype(np.float32)).all(axis=1)
        if not is_finite.all():
            bad = start + int(np.flatnonzero(~is_finite)[0])
            raise InputError(f"{path}: row {bad + 1} holds a number that is not finite")
    return vectors


def _read_saved(folder: Path) -> WordVectors:
    if not is_word_vector_folder(folder):
        raise InputError(f"{folder} cannot be read: a folder without {_RECORD}; give the file that holds the word vectors")
    record = _read_record(folder, "name", "sha256", "matrix_sha256")
    if sha256_of_file(folder / _MATRIX) != record["matrix_sha256"]:
        raise InputError(f"{folder / _MATRIX} is not what was saved there: its hash differs; save the word vectors again")
    return _open_matrix(folder / _MATRIX, folder / _VOCABULARY, record["sha256"])


def _read_cached(path: Path) -> WordVectors:
    """Go by way of a matrix in the cache, made when the file is first seen, and again when it has changed."""
    source = path.resolve()
    status = source.stat()
    stamp = {"source": str(source), "size": status.st_size, "modified_ns": status.st_mtime_ns}
    folder = cache_folder() / hashlib.sha256(os.fsencode(source)).hexdigest()[:32]
    try:
        record = _read_record(folder, *stamp, "sha256")
    except InputError:  # none yet, or of another version
        record = {}
    if {name: record.get(name) for name in stamp} != stamp:
        logger.info("%s is made a matrix in '%s' (once; %s moves it)", path, folder, CACHE_VARIABLE)
        record = stamp | {"sha256": sha256_of_file(path)}
        _check_writable(folder.parent)
        with atomic_folder(folder) as scratch:
            _write_blocks(read_blocks(path), scratch)
            write_json(scratch / _RECORD, record)
    return _open_matrix(folder / _MATRIX, folder / _VOCABULARY, record["sha256"])


def cache_folder() -> Path:
    """Where the matrices of big text files lie."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/selfguide").expanduser() / "word_vectors"


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the cache '{folder}' cannot be made ({error.strerror}); name another folder with {CACHE_VARIABLE}"
        ) from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"the cache '{folder}' cannot be written to; name another folder with {CACHE_VARIABLE}")


def _open_matrix(path: Path, vocabulary: Path, sha256: str) -> WordVectors:
    """The words, and the matrix left on the disk."""
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise InputError(f"{path}: not a whole .npy file ({error})") from error
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        raise InputError(f"{path}: shape {matrix.shape} of {matrix.dtype}; a matrix (words, dim) of floats is needed")
    with open_lines(vocabulary) as lines:
        words = [line.removesuffix("\n") for line in lines]
    if len(matrix) != len(words):
        raise InputError(f"{path} has {len(matrix)} rows, and {vocabulary} {len(words)} words; each word needs its row")
    if not matrix.size:
        raise InputError(f"{path} holds no word vectors")
    return WordVectors(_first_rows(words), matrix, sha256)


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


def _blocks_of(vectors: WordVectors) -> Iterator[Block]:
    pairs = iter(vectors.rows.items())
    while block := list(islice(pairs, _ROWS_PER_BLOCK)):
        words, rows = zip(*block, strict=True)
        broken = next((word for word in words if "\n" in word or "\r" in word), None)
        if broken is not None:
            raise InputError(f"the word {broken!r} holds the end of a line, and cannot be saved in a file of words")
        yield list(words), vectors.matrix[list(rows)].astype(np.float32)


def _write_blocks(blocks: Iterable[Block], folder: Path) -> None:
    count = dim = 0
    with (
        (folder / _VOCABULARY).open("w", encoding="utf-8", newline="\n") as words_file,
        (folder / _MATRIX).open("wb") as matrix_file,
    ):
        for words, vectors in blocks:
            if not count:
                dim = vectors.shape[1]
                _write_header(matrix_file, (0, dim))
            words_file.writelines(f"{word}\n" for word in words)
            matrix_file.write(vectors.astype("<f4").tobytes())
            count += len(words)
        _write_header(matrix_file, (count, dim))


def _write_header(file: BinaryIO, shape: tuple[int, int]) -> None:
    """Write the header of a matrix of rows; numpy leaves room in it for their number to grow."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def _read_record(folder: Path, *names: str) -> dict[str, Any]:
    path = folder / _RECORD
    try:
        record = read_json(path)
        return {name: record[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not the record of word vectors ({type(error).__name__} {error}); save them again"
        ) from error
