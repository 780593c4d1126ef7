"""Labelled text for measuring only: pairs of sentences with a score, and sentences with a paraphrase."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import final

from selfguide.data.lines import (
    COMPRESSIONS,
    JSON_LINES,
    TABLES,
    clean,
    data_suffix,
    expect_fields,
    listed,
    read_json_values,
    read_rows,
    reported,
    text_of,
)
from selfguide.errors import InputError
from selfguide.files import sha256_of_file

SUFFIXES = (*TABLES, *JSON_LINES)
PAIR_COLUMNS = (
    ("score", "similarity_score", "similarity", "label"),
    ("sentence1", "text1", "sentence_1"),
    ("sentence2", "text2", "sentence_2"),
)


@final
@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences with how alike people found them.

    Attributes:
        sentences1: The first sentence of each pair.
        sentences2: The second sentence of each pair.
        scores: The score of each pair; higher is more alike, on any scale.
        source: The file they came from.
        sha256: Hash of that file's bytes, as they lie on the disk.
    """

    sentences1: tuple[str, ...]
    sentences2: tuple[str, ...]
    scores: tuple[float, ...]
    source: str
    sha256: str

    def __len__(self) -> int:
        return len(self.scores)


@final
@dataclass(frozen=True)
class Paraphrases:
    """Sentences, each with another wording of it.

    Attributes:
        sentences: The sentences.
        paraphrases: The other wording of each.
        dropped: Number of rows left out as one side was empty.
    """

    sentences: tuple[str, ...]
    paraphrases: tuple[str, ...]
    dropped: int

    def __len__(self) -> int:
        return len(self.sentences)


def read_pairs(
    path: str | Path,
    *,
    columns: tuple[str, str, str] | None = None,
    score_range: tuple[float, float] = (-math.inf, math.inf),
) -> ScoredPairs:
    """Read scored pairs of sentences from a tsv (no quoting), csv or jsonl file, each also .gz, .xz or .zst.

    Args:
        path: The file. A tsv or csv file whose first field is a number has no header, and the fields score, sentence1,
            sentence2; any other has a header. The names looked for there, or as keys in jsonl, are ``PAIR_COLUMNS``.
        columns: Names of the columns of the score and the two sentences, instead of those; then there is a header.
        score_range: Lowest and highest score allowed.

    Returns:
        The pairs, in the order of the file.

    Raises:
        InputError: The file is missing or broken, a row is wrong (its line is named), there are fewer than two pairs, or
            all scores are equal, so that no correlation is defined.
    """
    path = Path(path)
    scores: list[float] = []
    sentences1: list[str] = []
    sentences2: list[str] = []
    for where, (score, sentence1, sentence2) in _pair_records(path, columns):
        scores.append(checked_score(score, where, score_range))
        sentences1.append(checked_sentence(sentence1, "sentence1", where))
        sentences2.append(checked_sentence(sentence2, "sentence2", where))
    if len(scores) < 2:
        raise InputError(f"{path}: number of pairs is {len(scores)}; a correlation needs at least 2")
    if len(set(scores)) == 1:
        raise InputError(f"{path}: all {len(scores)} scores equal {scores[0]:g}; a correlation needs different scores")
    with reported(path):
        sha256 = sha256_of_file(path)
    return ScoredPairs(tuple(sentences1), tuple(sentences2), tuple(scores), str(path), sha256)


def read_paraphrases(path: str | Path) -> Paraphrases:
    """Read sentences with a paraphrase each from a tsv (no quoting), csv or jsonl file, each also .gz, .xz or .zst.

    Args:
        path: The file; tsv and csv have two fields and no header, jsonl the keys ``sentence`` and ``paraphrase``.

    Returns:
        The sentences and paraphrases, in the order of the file, without rows in which a side is empty.

    Raises:
        InputError: The file is missing or broken, a row is wrong (its line is named), or no row is left.
    """
    path = Path(path)
    kept: list[tuple[str, str]] = []
    dropped = 0
    for where, values in _paraphrase_records(path):
        sentence, paraphrase = (clean(text_of(value, "sentence or paraphrase", where))[0] for value in values)
        if sentence and paraphrase:
            kept.append((sentence, paraphrase))
        else:
            dropped += 1
    if not kept:
        raise InputError(f"{path} holds no paraphrases: {dropped} rows read, each with an empty side")
    sentences, paraphrases = zip(*kept, strict=True)
    return Paraphrases(sentences, paraphrases, dropped)


def checked_score(value: object, where: str, score_range: tuple[float, float]) -> float:
    """A score as a number; raises an ``InputError`` that names ``where`` when it is none, or out of range."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            score = float(value)
        except (ValueError, OverflowError):
            score = math.nan
        if math.isfinite(score):
            low, high = score_range
            if not low <= score <= high:
                raise InputError(f"{where}: score {score:g} is out of range; scores here are from {low:g} to {high:g}")
            return score
    raise InputError(f"{where}: score {value!r} is not a finite number")


def checked_sentence(value: object, column: str, where: str) -> str:
    """A sentence, cleaned; raises an ``InputError`` that names ``where`` when nothing is left of it."""
    sentence, _ = clean(text_of(value, column, where))
    if not sentence:
        raise InputError(f"{where}: {column} is empty; a pair needs two sentences")
    return sentence


def _pair_records(path: Path, columns: tuple[str, str, str] | None) -> Iterator[tuple[str, list[object]]]:
    """Yield file:line and (score, sentence1, sentence2) as they stand in the file."""
    candidates = tuple((column,) for column in columns) if columns else PAIR_COLUMNS
    if _is_json(path):
        yield from _json_records(path, candidates)
        return
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        return
    number, header = first
    if columns is None and _is_number(header[0]):
        rows, positions, width = chain([first], rows), [0, 1, 2], 3
    else:
        names = [name.strip() for name in header]
        positions = [names.index(name) for name in _pick(names, candidates, f"{path}:{number}")]
        width = len(names)
    for number, row in rows:
        expect_fields(row, width, f"{path}:{number}")
        yield f"{path}:{number}", [row[position] for position in positions]


def _paraphrase_records(path: Path) -> Iterator[tuple[str, list[object]]]:
    if _is_json(path):
        yield from _json_records(path, (("sentence",), ("paraphrase",)))
        return
    for number, row in read_rows(path):
        expect_fields(row, 2, f"{path}:{number}")
        yield f"{path}:{number}", list(row)


def _json_records(path: Path, candidates: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, list[object]]]:
    for number, value in read_json_values(path):
        where = f"{path}:{number}"
        if not isinstance(value, dict):
            raise InputError(f"{where}: a line holds a JSON object, not {type(value).__name__}")
        yield where, [value[name] for name in _pick(value, candidates, where)]


def _is_json(path: Path) -> bool:
    suffix = data_suffix(path)
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: suffix {suffix!r} is not known here; allowed are {', '.join(SUFFIXES)}, "
            f"each also with {', '.join(COMPRESSIONS)}"
        )
    return suffix in JSON_LINES


def _pick(found: Collection[str], candidates: tuple[tuple[str, ...], ...], where: str) -> list[str]:
    """For each wanted column the first of its candidate names that was found."""
    picked = [next((name for name in names if name in found), None) for names in candidates]
    for name, names in zip(picked, candidates, strict=True):
        if name is None:
            raise InputError(f"{where}: no column {' or '.join(names)}; the columns are: {listed(found)}")
    return [name for name in picked if name is not None]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
