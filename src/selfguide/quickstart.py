"""``selfguide quickstart``: the main job on what ships with the package, the gain measured on pairs that nothing saw."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from selfguide import bundled
from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.data.sentences import read_sentences
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import BUNDLED, load_encoder
from selfguide.files import write_json
from selfguide.report.run import write_run_page
from selfguide.scores import ScoreRow, write_scores
from selfguide.similarity import bootstrap_interval, paired_cosines, spearman
from selfguide.training.artefacts import Artefacts, nearest, unit
from selfguide.training.card import RunSummary
from selfguide.training.progress import Progress
from selfguide.training.train import run_training

logger = logging.getLogger(__name__)

STEPS = 100
"""One pass over the bundled sentences: on the dev pairs better than two or three, which is what 300 steps would be here."""

SHOWN = (
    "Is it ever right to lie to protect someone's feelings?",
    "A linen shirt looks good only for the first ten minutes.",
    "A board game with a four-hour rulebook is not my idea of fun.",
)
"""Bundled sentences whose neighbours are shown."""


@final
@dataclass(frozen=True)
class Measured:
    """Scores of one embedder on the test pairs."""

    cosines: npt.NDArray[np.float64]
    score: float
    interval: tuple[float, float]


@final
@dataclass(frozen=True)
class Outcome:
    """What the quickstart found."""

    output: Path
    before: Measured
    after: Measured
    gain: float
    gain_interval: tuple[float, float]
    neighbours: dict[str, tuple[list[str], list[str]]]
    """Sentence -> nearest bundled sentences before and after."""


def quickstart(output: Path, *, seed: int, device: str, progress: Progress) -> Outcome:
    """Train the bundled encoder on the bundled sentences, without labels, and measure it before and after."""
    pairs = read_pairs(bundled.TEST_PAIRS)
    sentences = list(read_sentences(bundled.SENTENCES))
    untuned = PooledEmbedder(load_encoder(BUNDLED))
    before, near_before = measure(untuned, pairs), neighbours(untuned, sentences)
    artefacts = Artefacts(untuned, sentences, pairs)
    summary = run_training(
        {
            "model": BUNDLED,
            "data": (str(bundled.SENTENCES),),
            "output": str(output),
            "steps": STEPS,
            "preset": "prompted",
            "seed": seed,
            "device": device,
        },
        progress=progress,
    )
    trained = PooledEmbedder(load_encoder(output))
    after, near_after = measure(trained, pairs), neighbours(trained, sentences)
    outcome = Outcome(
        output=output,
        before=before,
        after=after,
        gain=after.score - before.score,
        gain_interval=bootstrap_interval(after.cosines, pairs.scores, other=before.cosines),
        neighbours={sentence: (near_before[sentence], near_after[sentence]) for sentence in SHOWN},
    )
    artefacts.write(output / "selfguide", trained)
    _add_to_record(outcome, summary, pairs)
    return outcome


def measure(embedder: PooledEmbedder, pairs: ScoredPairs) -> Measured:
    """Cosine Spearman x100 on graded pairs, with a 95% interval over pairs."""
    cosines = paired_cosines(embedder.encode(pairs.sentences1), embedder.encode(pairs.sentences2))
    return Measured(cosines, spearman(cosines, pairs.scores), bootstrap_interval(cosines, pairs.scores))


def neighbours(embedder: PooledEmbedder, sentences: list[str], *, count: int = 2) -> dict[str, list[str]]:
    """The sentences nearest to each of ``SHOWN``, itself left out."""
    found = nearest(unit(embedder.encode(sentences)), [sentences.index(sentence) for sentence in SHOWN], count)
    return {sentence: [sentences[n] for n in near] for sentence, near in zip(SHOWN, found, strict=True)}


def _add_to_record(outcome: Outcome, summary: RunSummary, pairs: ScoredPairs) -> None:
    """Put the scores on the test pairs and the neighbours into the record of the run, and onto its page."""
    record = outcome.output / "selfguide"
    sides = (
        ("cls", outcome.before, None, 0),
        (summary.config.objective, outcome.after, summary.config.seed, summary.kept_step),
    )
    rows = [
        ScoreRow(
            embedder=f"{BUNDLED}/{label}",
            dataset=Path(pairs.source).stem,
            revision=pairs.sha256,
            split="test",
            metric="spearman",
            value=measured.score,
            seed=seed,
            run_id="quickstart",
            protocol={"interval": list(measured.interval), "selected_by_labels": False, "step": step},
        )
        for label, measured, seed, step in sides
    ]
    write_scores(record / "scores.jsonl", rows)
    near = {text: dict(zip(("before", "after"), found, strict=True)) for text, found in outcome.neighbours.items()}
    write_json(record / "neighbours.json", near)
    write_run_page(record)


def fresh_folder(name: str) -> Path:
    """``name``, or ``name-2``, ``name-3``, ... when that is taken."""
    folder, number = Path(name), 1
    while folder.exists() or folder.with_name(folder.name + ".checkpoints").exists():
        number += 1
        folder = Path(f"{name}-{number}")
    return folder
