"""Hashes of files, and those that tell whether scored pairs are the ones a protocol is about, from whatever source.

The lines of pairs are sorted before they are hashed: sources keep pairs in different orders, and no score depends on it.
"""

import hashlib
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from selfguide.data.lines import reported


class Pair(NamedTuple):
    """Two sentences with their score."""

    score: float
    sentence1: str
    sentence2: str


def files_digest(files: Iterable[Path]) -> str:
    """Hash of the bytes of files, one after the other.

    Raises:
        InputError: when one cannot be read.
    """
    digest = hashlib.sha256()
    for file in files:
        with reported(file):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def text_digest(pairs: Iterable[Pair]) -> str:
    """Hash of the pairs' text, of which only the blanks are made uniform: it tells the raw text from a tokenised one."""
    return _sha256(_line(pair.score, *(" ".join(text.split()) for text in pair[1:])) for pair in pairs)


def pairs_digest(pairs: Iterable[Pair]) -> str:
    """Hash of what all copies of a data set share: scores, letters and digits, in lower case.

    Copies differ in blanks, tokenisation and case, and the odd byte got lost in some: the same pairs all the same.
    """
    return _sha256(map(letters_line, pairs))


def letters_line(pair: Pair) -> str:
    """The line that :func:`pairs_digest` has of a pair."""
    return _line(pair.score, *(_letters(text) for text in pair[1:]))


def _line(score: float, sentence1: str, sentence2: str) -> str:
    return f"{score:.3f}\t{sentence1}\t{sentence2}\n"  # some copies hold the scores in single precision


def _letters(text: str) -> str:
    return "".join(character for character in unicodedata.normalize("NFKC", text).casefold() if character.isalnum())


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
