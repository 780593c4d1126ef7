"""GLUE by fine-tuning: trained on train, the learning rate chosen on the first 10% of validation, scored on the last 90%."""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from selfguide.data.glue import GlueData, read_glue
from selfguide.devices import choose_device
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.template import without_template
from selfguide.errors import InputError
from selfguide.evaluation.finetuning import HEAD, ClassNumbers, EncodedTexts, FineTuning, fine_tune, predict
from selfguide.scores import ScoreRow

logger = logging.getLogger(__name__)

SPLIT = "validation-last-90%"
LEARNING_RATES = (2e-5, 5e-5)

Progress = Callable[[str, int, int], None]
"""Told what is being trained, the steps done and all steps."""


def accuracy(predicted: ClassNumbers, gold: ClassNumbers) -> float:
    """Share of right classes, x100."""
    return 100 * float((predicted == gold).mean())


def matthews(predicted: ClassNumbers, gold: ClassNumbers) -> float:
    """Matthews' correlation of two classes, x100; 0 when either side is of one class only."""
    (tn, fn), (fp, tp) = _confusion(predicted, gold)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return float(100 * (tp * tn - fp * fn) / product**0.5) if product else 0.0


def f1(predicted: ClassNumbers, gold: ClassNumbers) -> float:
    """F1 of class 1, x100; 0 when it is neither predicted nor there."""
    (_, fn), (fp, tp) = _confusion(predicted, gold)
    return 200 * tp / (2 * tp + fp + fn) if tp else 0.0


METRICS: dict[str, Callable[[ClassNumbers, ClassNumbers], float]] = {"accuracy": accuracy, "matthews": matthews, "f1": f1}
TASK_METRICS = {
    "QNLI": ("accuracy",),
    "SST-2": ("accuracy",),
    "CoLA": ("matthews",),
    "MRPC": ("f1", "accuracy"),
    "RTE": ("accuracy",),
}
"""The metrics of each task, each a row; the first one selects the learning rate."""
TASK_EPOCHS = {"QNLI": 3, "SST-2": 1, "CoLA": 3, "MRPC": 3, "RTE": 3}


def glue_scores(
    encoder_name_or_path: str | Path,
    tasks: Sequence[str],
    *,
    data: Path | None,
    seeds: Sequence[int],
    device: str = "auto",
    learning_rates: Sequence[float] = LEARNING_RATES,
    epochs: int | None = None,
    batch_size: int = 32,
    max_length: int = 128,
    revision: str | None = None,
    trust_remote_code: bool = False,
    embedder: str | None = None,
    known: Sequence[ScoreRow] = (),
    progress: Progress = lambda what, step, steps: None,
) -> list[ScoreRow]:
    """Fine-tune an encoder on tasks of GLUE and score it.

    For each task and seed the encoder is trained once with each learning rate. The one that does best on the first 10% of
    the validation set (the first of those that do) is scored on the last 90%. That is all that is selected: always the last
    epoch is scored. The head is a fresh dense layer with tanh, dropout and linear layer on the last state of the first
    token; a pretrained pooler is not used, as the encoders that we train are defined by that state. All data is read before
    the first training, and every setting is in the rows' protocol.

    Args:
        encoder_name_or_path: ``mini``, a local folder or a hub name.
        tasks: Names such as ``CoLA``; see ``selfguide.data.glue.TASKS``.
        data: Folder that holds ``glue/TASK/train.tsv`` and ``dev.tsv``; None for the hub's copy.
        seeds: Each gives rows of its own.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``; on CUDA training is in mixed precision (bf16).
        learning_rates: What to choose from.
        epochs: Instead of each task's own number (3; SST-2: 1).
        batch_size: Examples in a step.
        max_length: Tokens kept of an input.
        revision: Commit, tag or branch of a hub model.
        trust_remote_code: Run code that comes with the model.
        embedder: Name in the rows; by default the encoder's last path part and ``/fine-tuned``.
        known: Rows of earlier runs; a task and seed whose rows are among them, by the same settings, is not trained again.
        progress: Called after each step.

    Returns:
        For each task and seed one row a metric.

    Raises:
        InputError: A task, the device or the encoder is not known, or data is missing or broken.
        SelfguideError: A training gave values that are not finite.
    """
    if not (tasks and seeds and learning_rates):
        raise InputError("GLUE needs at least one task, one seed and one learning rate")
    place = choose_device(device)
    parts = [read_glue(task, data) for task in tasks]
    # a template is for embeddings; fine-tuning reads plain sentences and pairs
    encoder = without_template(load_encoder(encoder_name_or_path, revision=revision, trust_remote_code=trust_remote_code))
    is_mixed = place.type == "cuda" and torch.cuda.is_bf16_supported()
    settings = FineTuning(
        batch_size=batch_size,
        max_length=min(max_length, encoder.positions),
        precision="bf16" if is_mixed else "float32",
    )
    name = embedder or f"{Path(encoder_name_or_path).name}/fine-tuned"
    rows: list[ScoreRow] = []
    for part in parts:
        own = replace(settings, epochs=TASK_EPOCHS[part.task.name] if epochs is None else epochs)
        run = _TaskRun(encoder, part, own, place, progress)
        for seed in seeds:
            rows += run.rows(name, seed, learning_rates, known)
    return rows


@final
class _TaskRun:
    """One task, encoded once, to be trained with several seeds and learning rates."""

    def __init__(
        self, encoder: Encoder, data: GlueData, settings: FineTuning, device: torch.device, progress: Progress
    ) -> None:
        self.encoder, self.data, self.settings, self.progress = encoder, data, settings, progress
        self.weights = weights_sha256(encoder.model)
        self.train, self.selection, self.test = (
            EncodedTexts(encoder, examples.texts, max_length=settings.max_length, device=device)
            for examples in (data.train, data.selection, data.test)
        )

    def rows(self, embedder: str, seed: int, learning_rates: Sequence[float], known: Sequence[ScoreRow]) -> list[ScoreRow]:
        """Train with each learning rate, choose, score; unless the rows are known."""
        task, metrics = self.data.task.name, TASK_METRICS[self.data.task.name]
        planned = {**self._protocol(), "learning_rates": list(learning_rates), "selected_by_labels": len(learning_rates) > 1}
        run_id = _digest([task, self.data.revision, seed, planned])
        found = [row for row in known if (row.embedder, row.run_id) == (embedder, run_id)]
        if len(found) == len(metrics):
            return found
        gold_selection, gold = (np.asarray(part.labels) for part in (self.data.selection, self.data.test))
        predictions: dict[float, ClassNumbers] = {}
        selection: dict[float, float] = {}
        for rate in learning_rates:
            on_selection, predictions[rate] = self._predictions(seed, rate)
            selection[rate] = METRICS[metrics[0]](on_selection, gold_selection)
            logger.info("%s seed %d learning rate %g: %.2f on the selection part", task, seed, rate, selection[rate])
        chosen = max(selection, key=lambda rate: selection[rate])  # of equals the first
        scores = {f"{rate:g}": score for rate, score in selection.items()}
        return [
            ScoreRow(
                embedder=embedder,
                dataset=task,
                revision=self.data.revision,
                split=SPLIT,
                metric=metric,
                value=METRICS[metric](predictions[chosen], gold),
                seed=seed,
                run_id=run_id,
                protocol={**planned, "learning_rate": chosen, "selection_scores": scores},
            )
            for metric in metrics
        ]

    def _predictions(self, seed: int, rate: float) -> tuple[ClassNumbers, ClassNumbers]:
        """Predictions on the selection part and the test part."""
        what = f"{self.data.task.name} seed {seed} learning rate {rate:g}"
        classifier = fine_tune(
            self.encoder,
            self.train,
            self.data.train.labels,
            classes=len(self.data.task.labels),
            learning_rate=rate,
            settings=self.settings,
            seed=seed,
            progress=lambda step, steps: self.progress(what, step, steps),
        )
        return predict(classifier, self.selection), predict(classifier, self.test)

    def _protocol(self) -> dict[str, Any]:
        return {
            "method": "fine-tuning",
            "weights": self.weights,
            "head": f"{HEAD}, fresh, on the last state of the first token; pooler not used",
            "optimizer": "AdamW",
            "schedule": "linear",
            **asdict(self.settings),
            "examples": {"train": len(self.train), "selection": len(self.selection), "test": len(self.test)},
            "selection": "learning rate, by the first 10% of the validation set; always the last epoch",
        }


def _confusion(predicted: ClassNumbers, gold: ClassNumbers) -> list[list[int]]:
    """How often class ``i`` was predicted where ``j`` is right, at ``[i][j]``."""
    return [[int(((predicted == i) & (gold == j)).sum()) for j in (0, 1)] for i in (0, 1)]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
