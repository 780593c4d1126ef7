"""Tiny copies of the STS data sets under the real names, with records to match, and an embedder that counts."""

import dataclasses
import random
from collections import Counter
from pathlib import Path

import numpy as np

from selfguide.data.digests import Pair, pairs_digest, text_digest
from selfguide.data.records import MULTILINGUAL, SEVEN, SICK_ALL, StsRecord
from selfguide.evaluation import families
from tiny_models import WORDS

PAIRS_PER_FILE = 6


def write_tiny_sts(folder: Path) -> dict[str, tuple[StsRecord, ...]]:
    """Write all files that the records name, with a few made-up pairs each; gives records that fit them."""
    return {
        "SEVEN": tuple(_write(folder, record) for record in SEVEN),
        "SICK_ALL": (_write(folder, SICK_ALL),),
        "MULTILINGUAL": tuple(_write(folder, record) for record in MULTILINGUAL),
    }


def use_tiny_sts(monkeypatch, folder: Path) -> None:
    """Write the tiny data sets, and have the evaluation know them in place of the real ones."""
    records = write_tiny_sts(folder)
    monkeypatch.setattr(families, "SEVEN", records["SEVEN"])
    monkeypatch.setattr(families, "SICK_ALL", records["SICK_ALL"][0])
    monkeypatch.setattr(families, "MULTILINGUAL", records["MULTILINGUAL"])


def _write(folder: Path, record: StsRecord) -> StsRecord:
    texts: dict[str, list[Pair]] = {}
    for text, root in record.roots.items():
        place = folder / root / (record.folder or record.name)
        place.mkdir(parents=True, exist_ok=True)
        for file in record.files:
            pairs = _pairs(f"{record.name} {file}", record.scores, text)
            lines = [f"{pair.score}\t{pair.sentence1}\t{pair.sentence2}\n" for pair in pairs]
            (place / f"{file}.tsv").write_text("".join(lines), encoding="utf-8")
            texts.setdefault(text, []).extend(pairs)
    return dataclasses.replace(
        record,
        files=dict.fromkeys(record.files, PAIRS_PER_FILE),
        pairs_sha256=pairs_digest(texts["raw"]),
        text_sha256={text: text_digest(pairs) for text, pairs in texts.items()},
    )


def _pairs(seed: str, scores: tuple[float, float], text: str) -> list[Pair]:
    draws = random.Random(seed)
    low, high = scores
    pairs = []
    for number in range(PAIRS_PER_FILE):
        first, second = (" ".join(draws.choices(WORDS, k=draws.randint(3, 7))).capitalize() + "." for _ in range(2))
        if text == "senteval":
            first, second = (sentence.lower().replace(".", " .") for sentence in (first, second))
        pairs.append(Pair(low + (high - low) * number / (PAIRS_PER_FILE - 1), first, second))
    return pairs


class BagOfWords:
    """Sums of random vectors of words; counts how often it has seen each sentence."""

    def __init__(self, name="bag", protocol=None, dim=16):
        self.name, self.dim = name, dim
        self.protocol = {"pooling": "sum", "max_length": None, "weights": "0"} if protocol is None else protocol
        self.seen = Counter()

    def encode(self, sentences):
        self.seen.update(sentences)
        return np.stack([sum(self._word(word) for word in sentence.lower().split()) for sentence in sentences])

    def _word(self, word):
        return np.random.default_rng(list(word.encode())).normal(size=self.dim).astype(np.float32)
