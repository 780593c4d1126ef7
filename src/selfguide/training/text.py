"""What a run is trained on: sentences from wherever they come, or sentences with paraphrases."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.data.pairs import read_paraphrases
from selfguide.data.sentences import read_sentences
from selfguide.data.texts import Texts
from selfguide.errors import InputError
from selfguide.training.config import TrainingConfig


@final
@dataclass(frozen=True)
class TrainingText:
    """What is trained on: sentences, for some objectives a paraphrase of each, and a line that tells about them."""

    sentences: Texts
    paraphrases: tuple[str, ...] | None
    has_duplicates: bool
    fingerprint: str
    summary: str


def read_text(config: TrainingConfig, source: Any = None) -> TrainingText:  # noqa: ANN401 - whatever read_sentences takes
    """Read the training text of a run: ``source`` where it was given in Python, else what the configuration names.

    Raises:
        InputError: when there is none, or too little of it.
    """
    if config.paraphrases:
        if source is not None:
            raise InputError("data and paraphrases were both given; the sentences of paraphrases are the training data")
        pairs = read_paraphrases(config.paraphrases)
        _check_enough(len(pairs), config)
        joined = "\0".join([*pairs.sentences, *pairs.paraphrases])
        return TrainingText(
            sentences=pairs.sentences,
            paraphrases=pairs.paraphrases,
            has_duplicates=len(set(pairs.sentences)) < len(pairs),
            fingerprint=hashlib.sha256(joined.encode()).hexdigest(),
            summary=f"{len(pairs):,} sentences with a paraphrase ({pairs.dropped:,} dropped)",
        )
    if source is None and not config.data:
        raise InputError("no training sentences were given; name a file with --data F")
    paths = [Path(name) for name in config.data]
    # a single path as it is: the messages of the reader name it
    given = source if source is not None else paths[0] if len(paths) == 1 else paths
    found = read_sentences(given, columns=config.column, deduplicate=config.deduplicate, split=config.split)
    _check_enough(len(found), config)
    return TrainingText(
        sentences=found,
        paraphrases=None,
        has_duplicates=not config.deduplicate and found.counts.duplicates > 0,
        fingerprint=found.fingerprint,
        summary=found.counts.summary(),
    )


def _check_enough(sentences: int, config: TrainingConfig) -> None:
    if sentences < 2:
        raise InputError("the training data holds one sentence only; contrastive training needs two or more to tell apart")
    if sentences < config.batch_size:
        raise InputError(
            f"--batch-size is {config.batch_size}, but the training data holds {sentences} sentences; "
            f"use --batch-size {sentences} or less, or give more sentences"
        )
