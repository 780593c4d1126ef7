"""Raw sentences in, cleaned sentences out: counted, without duplicates, fingerprinted, and bounded in memory."""

import hashlib
import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from selfguide.data.lines import clean
from selfguide.data.sources import Source, read_texts
from selfguide.data.storage import MappedTexts, store
from selfguide.errors import InputError

MAX_CHARACTERS = 5_000
"""A longer sentence is cut here: no encoder reads that far."""


@dataclass(frozen=True)
class Counts:
    """What became of the sentences of a source.

    Attributes:
        read: Sentences found, blank ones included.
        kept: Sentences that remain.
        blank: Sentences dropped as there was nothing but white space.
        duplicates: Repeats of an earlier sentence, dropped or kept as asked for.
        cut: Sentences cut at ``MAX_CHARACTERS``.
        repaired: Sentences in which undecodable bytes were replaced by U+FFFD.
    """

    read: int
    kept: int
    blank: int = 0
    duplicates: int = 0
    cut: int = 0
    repaired: int = 0

    def summary(self) -> str:
        """Say it in one line, with what is not zero."""
        fate = "kept" if self.kept + self.blank == self.read else "dropped"
        parts = (
            (self.blank, "blank"),
            (self.duplicates, f"duplicate{_plural(self.duplicates)} {fate}"),
            (self.cut, f"cut at {MAX_CHARACTERS:,} characters"),
            (self.repaired, "with undecodable bytes"),
        )
        details = ", ".join(f"{count:,} {what}" for count, what in parts if count)
        line = f"{self.kept:,} sentence{_plural(self.kept)} kept of {self.read:,} read"
        return f"{line} ({details})" if details else line


@final
class Sentences:
    """Cleaned sentences, as a read-only sequence of str; made by ``read_sentences``.

    Attributes:
        counts: What was read, kept, dropped and changed.
        fingerprint: SHA-256, in hexadecimal, of the kept sentences in order: each as UTF-8 with a NUL behind it.
    """

    def __init__(self, texts: list[str] | MappedTexts, counts: Counts, fingerprint: str) -> None:
        self._texts = texts
        self.counts = counts
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> str:
        return self._texts[operator.index(index)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


def read_sentences(
    source: Source,
    *,
    columns: tuple[str, ...] = (),
    deduplicate: bool = True,
    split: str = "train",
    revision: str | None = None,
    limit_in_memory: int = 1_000_000,
) -> Sentences:
    """Read and clean the sentences of a source.

    Args:
        source: A file (text with a sentence a line, jsonl, csv, tsv, parquet; each also .gz, .xz, .zst), a folder of such
            files, ``-`` for standard input, the name of a hub dataset (``user/name`` or ``user/name:config``), a
            ``datasets.Dataset``, or an iterable, in which a str is a sentence and a ``Path`` is any of the named sources.
        columns: Names of the columns of text, each of which gives a sentence per row. Default: ``sentence``, else
            ``text``, else ``sentence1`` and ``sentence2``, else the only column of a csv or tsv file. Numbers ("2", counted
            from 1) are positions in a csv or tsv file without header. Missing values (null) count as blank.
        deduplicate: Whether to drop a sentence that was there before.
        split: Which split of a hub dataset.
        revision: Which revision of a hub dataset; None is its newest.
        limit_in_memory: More sentences than this go to a temporary file, memory-mapped.

    Returns:
        The sentences, in the order of the source.

    Raises:
        InputError: The source is missing, unreadable or broken, lacks a column, or holds no sentence.
    """
    tally: Counter[str] = Counter()
    fingerprint = hashlib.sha256()

    def fingerprinted() -> Iterator[str]:
        texts = read_texts(source, columns=columns, split=split, revision=revision)
        for sentence in _kept(texts, deduplicate, tally):
            fingerprint.update(sentence.encode() + b"\0")
            yield sentence

    stored = store(fingerprinted(), limit_in_memory)
    counts = Counts(kept=len(stored), **tally)
    if not stored:
        name = str(source) if isinstance(source, str | Path) else "the source"
        raise InputError(f"{name} holds no sentences: {counts.summary()}; give text with at least one line")
    return Sentences(stored, counts, fingerprint.hexdigest())


def _kept(texts: Iterable[str], deduplicate: bool, tally: Counter[str]) -> Iterator[str]:
    """Yield the sentences to keep, and count into ``tally`` what became of each text."""
    seen: set[bytes] = set()  # digests: 16 bytes stand for any sentence
    tally["read"] = 0
    for text in texts:
        sentence, is_repaired = clean(text)
        tally["read"] += 1
        tally["repaired"] += is_repaired
        if not sentence:
            tally["blank"] += 1
            continue
        if len(sentence) > MAX_CHARACTERS:
            sentence = sentence[:MAX_CHARACTERS].rstrip()
            tally["cut"] += 1
        digest = hashlib.blake2b(sentence.encode(), digest_size=16).digest()
        is_repeat = digest in seen
        tally["duplicates"] += is_repeat
        seen.add(digest)
        if not (is_repeat and deduplicate):
            yield sentence


def _plural(count: int) -> str:
    return "" if count == 1 else "s"
