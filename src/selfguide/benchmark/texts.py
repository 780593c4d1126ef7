"""The sentences that are measured with: short ones as they are, and a mix of lengths made of their words."""

import random
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from selfguide.bundled import DEV_PAIRS, SENTENCES
from selfguide.data.pairs import read_pairs
from selfguide.errors import InputError

LONGEST = 110
"""Words of the longest text of a mix: 128 tokens or so."""


def short_texts(data: str | None) -> list[str]:
    """Sentences of STS-B (train, dev, test) in a data folder, or the bundled ones.

    Raises:
        InputError: when the folder has no STS-B.
    """
    if data is None:
        return SENTENCES.read_text(encoding="utf-8").splitlines()
    folder = _stsb(data)
    pairs = [read_pairs(folder / f"{split}.tsv") for split in ("train", "dev", "test")]
    return [text for each in pairs for sentences in (each.sentences1, each.sentences2) for text in sentences]


def dev_file(data: str | None) -> Path:
    """Scored pairs to select by: those of STS-B dev in a data folder, or the bundled ones."""
    return DEV_PAIRS if data is None else _stsb(data) / "dev.tsv"


def repeated(texts: Sequence[str], count: int) -> list[str]:
    """So many texts: the same again from the start when there are not enough."""
    return list(islice(cycle(texts), count))


def mixed_texts(texts: Sequence[str], count: int, *, seed: int = 1) -> list[str]:
    """So many texts of 2 to 110 words, every length alike often, made of the words of ``texts`` in their order."""
    generator = random.Random(seed)
    words = cycle(word for text in texts for word in text.split())
    return [" ".join(islice(words, generator.randint(2, LONGEST))) for _ in range(count)]


def _stsb(data: str) -> Path:
    """The folder of STS-B in a data folder.

    Raises:
        InputError: when there is none.
    """
    folder = Path(data).expanduser() / "sts" / "STS-B"
    if not (folder / "train.tsv").is_file():
        raise InputError(
            f"'{folder}' holds no train.tsv, dev.tsv and test.tsv of STS-B; name a folder that does with --data"
        )
    return folder
