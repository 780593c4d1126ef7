"""SentEval's transfer tasks: a small classifier on fixed vectors, by the toolkit's protocol.

A task without an official division is scored by ten-fold cross-validation, and in each fold another one, inside of its
training part, chooses the L2 value. With train and test parts there is the inner one alone; with a dev part, that chooses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]
from torch import Tensor

from selfguide.data.senteval import LAYOUTS, LabelledSentences, read_transfer_task
from selfguide.errors import InputError
from selfguide.evaluation.classifiers import Examples, Fitted, Recipe, Split, fit
from selfguide.evaluation.task import Score, Task
from selfguide.evaluation.vectors import Vectors

L2_GRID = (1e-5, 1e-4, 1e-3, 1e-2)
FOLDS = 10
FOLD_SEED = 1111
"""Seed of every division into folds, that of the toolkit; the seed of a score draws weights and orders alone."""
HELD_OUT = 0.05
"""Share of the training part that decides when the last classifier stops."""


@final
@dataclass(frozen=True)
class TransferTask:
    """A task of SentEval."""

    name: str
    parts: dict[str, LabelledSentences]
    """``all``, or ``train`` and ``test``, or also ``dev``."""
    recipe: Recipe
    device: str = "cpu"
    sst_train: str | None = None
    """What SST2 is trained on."""

    def __post_init__(self) -> None:
        if "dev" not in self.parts:
            _check_label_counts(next(iter(self.parts.values())))

    @property
    def revision(self) -> str:
        """Hashes of the files, in the order of the parts."""
        return "+".join(part.sha256 for part in self.parts.values())

    def sentences(self) -> Iterable[str]:
        """Every sentence of every part."""
        return chain.from_iterable(column for part in self.parts.values() for column in part.columns)

    def score(self, vectors: Vectors, *, seed: int) -> list[Score]:
        """Accuracy: on the test part, or the mean over the folds.

        Raises:
            InputError: The vectors are all equal.
        """
        generator = torch.Generator().manual_seed(seed)
        value, penalties = _Trial(self._examples(vectors), self.recipe, generator).run(self._rows())
        return [
            Score(
                dataset=self.name,
                split="cv" if "all" in self.parts else "test",
                metric="accuracy",
                value=100 * value,
                revision=self.revision,
                protocol=self._protocol(penalties),
            )
        ]

    def _examples(self, vectors: Vectors) -> Examples:
        """Features and labels of all parts, one below the other."""
        features = torch.cat([_features(vectors, part) for part in self.parts.values()])
        if bool((features == features[0]).all()):
            raise InputError(
                f"'{vectors.embedder}' gives the same vector for all {len(features)} examples of {self.name}: "
                "its vectors are constant, and no classifier can tell them apart"
            )
        labels = torch.tensor([label for part in self.parts.values() for label in part.labels])
        return Examples(features.to(self.device), labels.to(self.device), int(labels.max()) + 1)

    def _rows(self) -> dict[str, Tensor]:
        """Row numbers of each part."""
        sizes = [len(part) for part in self.parts.values()]
        return dict(zip(self.parts, torch.split(torch.arange(sum(sizes)), sizes), strict=True))

    def _protocol(self, penalties: list[float]) -> dict[str, Any]:
        return {
            "hidden": self.recipe.hidden,
            "folds": None if "dev" in self.parts else FOLDS,
            "nested": "all" in self.parts,
            "l2_grid": list(L2_GRID),
            "l2": penalties,
            "tenacity": self.recipe.tenacity,
            "epoch_size": self.recipe.epoch_size,
            "batch": self.recipe.batch,
            **({"train": self.sst_train} if self.sst_train else {}),
        }


def senteval_tasks(
    data_dir: Path,
    names: Sequence[str] = (),
    *,
    hidden: int = 50,
    device: str = "cpu",
    sst_train: Literal["phrases", "sentences"] = "phrases",
) -> list[Task]:
    """Read tasks of SentEval.

    Args:
        data_dir: The folder that holds ``senteval/MR/all.tsv`` and the others.
        names: Tasks wanted; all seven by default. Asked for one at a time, a missing file does not hinder the others.
        hidden: Units of the classifier's hidden layer; 0 is logistic regression.
        device: Where the classifiers are trained.
        sst_train: What SST2 is trained on: the 67,349 phrases, as in SentEval, or whole sentences only.

    Raises:
        MissingDataError: A file is missing.
        InputError: A name is not known, or a file is broken.
    """
    if hidden < 0:
        raise InputError(f"the hidden layer has {hidden} units; give a number of units, or 0 for logistic regression")
    recipe = Recipe(hidden=hidden)
    return [
        TransferTask(
            name,
            read_transfer_task(data_dir, name, sst_train=sst_train),
            recipe,
            device,
            sst_train if name == "SST2" else None,
        )
        for name in names or LAYOUTS
    ]


@final
@dataclass(frozen=True)
class _Trial:
    """One scoring: data, rules, and where chance comes from."""

    examples: Examples
    recipe: Recipe
    generator: torch.Generator

    def run(self, parts: dict[str, Tensor]) -> tuple[float, list[float]]:
        """Accuracy, and the L2 values chosen: one, or one a fold."""
        match parts:
            case {"train": train, "dev": dev, "test": test}:
                return self._with_dev(train, dev, test)
            case {"train": train, "test": test}:
                return self._cross_validated([(train, test)])
            case {"all": everything}:
                return self._cross_validated(self._folds(everything))
        raise AssertionError(f"no protocol for parts {sorted(parts)}")

    def _with_dev(self, train: Tensor, dev: Tensor, test: Tensor) -> tuple[float, list[float]]:
        fitted = self._fit([Split(train, dev)], torch.tensor([L2_GRID]))
        best = int(fitted.accuracy[0].argmax())
        return float(fitted.score(self.examples, [test])[0, best]), [L2_GRID[best]]

    def _cross_validated(self, divisions: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, list[float]]:
        """Mean accuracy over divisions into train and test; for each, ten folds of its train part choose the L2 value."""
        splits = [Split(*fold) for train, _ in divisions for fold in self._folds(train)]
        accuracies = self._fit(splits, torch.tensor([L2_GRID] * len(splits))).accuracy
        best = accuracies.view(len(divisions), FOLDS, len(L2_GRID)).mean(dim=1).argmax(dim=1)
        penalties = torch.tensor(L2_GRID)[best].unsqueeze(1)
        fitted = self._fit([self._hold_out(train) for train, _ in divisions], penalties)
        value = float(fitted.score(self.examples, [test for _, test in divisions]).mean())
        return value, [L2_GRID[choice] for choice in best.tolist()]

    def _fit(self, splits: Sequence[Split], penalties: Tensor) -> Fitted:
        return fit(self.examples, splits, penalties, recipe=self.recipe, generator=self.generator)

    def _folds(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Train and test rows of each fold."""
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=FOLD_SEED)
        labels = self.examples.labels.cpu()[rows]
        divisions = folds.split(np.zeros(len(rows)), labels.numpy())
        return [(rows[torch.from_numpy(train)], rows[torch.from_numpy(test)]) for train, test in divisions]

    def _hold_out(self, rows: Tensor) -> Split:
        shuffled = rows[torch.randperm(len(rows), generator=self.generator)]
        count = max(1, int(HELD_OUT * len(rows)))
        return Split(train=shuffled[count:], validation=shuffled[:count])


def _features(vectors: Vectors, part: LabelledSentences) -> Tensor:
    """The vector of a sentence; of a pair, how its two vectors differ and agree: ``|u - v|`` and ``u * v``."""
    columns = [torch.from_numpy(vectors.of(column)) for column in part.columns]
    if len(columns) == 1:
        return columns[0]
    first, second = columns
    return torch.cat([(first - second).abs(), first * second], dim=1)


def _check_label_counts(part: LabelledSentences) -> None:
    fewest = min(part.labels.count(label) for label in set(part.labels))
    if fewest < 2 * FOLDS:
        raise InputError(
            f"{part.source}: a label occurs {fewest} times; for folds inside folds each is needed {2 * FOLDS} times"
        )
