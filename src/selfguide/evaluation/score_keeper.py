"""From the scores of tasks to the rows of one embedder under one protocol, kept in a file."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from selfguide.embedders.protocol import Embedder
from selfguide.environment import package_versions
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import AVERAGE, FAMILIES, Family, PlannedTask
from selfguide.evaluation.score_file import RowKey, ScoreFile
from selfguide.evaluation.task import Score
from selfguide.evaluation.vectors import Vectors
from selfguide.scores import ScoreRow


@final
class ScoreKeeper:
    """Scores one embedder, makes rows of the scores, and knows those that are in the file already."""

    def __init__(self, embedder: Embedder, config: EvaluationConfig) -> None:
        """Read the file of the rows.

        Raises:
            InputError: when it holds something else.
        """
        self.embedder, self.config = embedder, config
        self.name = config.name or embedder.name
        self.file = ScoreFile(Path(config.output) if config.output else None)

    @cached_property
    def embedder_protocol(self) -> dict[str, Any]:
        """What the vectors depend on."""
        return {"selected_by_labels": False, **self.embedder.protocol}

    @cached_property
    def run_id(self) -> str:
        """Hash of the embedder and of the choices that apply to all tasks."""
        identity = [self.name, self.embedder_protocol, self.config.protocol_choices]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]

    def known(self, planned: PlannedTask) -> list[ScoreRow]:
        """Rows of a task that are in the file; none where nothing tells whether the embedder is still the same."""
        if self.config.recompute or "weights" not in self.embedder_protocol:
            return []
        task, seed = planned.task, self._seed(planned)
        return self.file.known(
            [RowKey(self.name, task.name, task.revision, metric, seed, self.run_id) for metric in planned.metrics]
        )

    def score(self, planned: PlannedTask, vectors: Vectors) -> list[ScoreRow]:
        """Score a task; its rows are in the file at once.

        Raises:
            InputError: when the vectors are such that a score is not defined.
        """
        rows = [self._row(score, planned) for score in planned.task.score(vectors, seed=self.config.seed)]
        self.file.add(rows)
        return rows

    def averages(self, rows: Sequence[ScoreRow]) -> list[ScoreRow]:
        """The mean over the data sets of a family, for each of its metrics, where all of them were scored."""
        averages = []
        for family in FAMILIES:
            for metric in family.averaged:
                parts = [row for row in rows if row.metric == metric and row.dataset in family.datasets]
                if len(parts) == len(family.datasets):
                    averages.append(self._average(family, parts))
        self.file.add(averages)
        return averages

    def _average(self, family: Family, parts: Sequence[ScoreRow]) -> ScoreRow:
        first = parts[0].protocol
        shared = {key: value for key, value in first.items() if all(row.protocol.get(key) == value for row in parts)}
        revisions = "\n".join(row.revision for row in parts)
        return ScoreRow(
            embedder=self.name,
            dataset=AVERAGE,
            revision=hashlib.sha256(revisions.encode()).hexdigest(),
            split=parts[0].split if len({row.split for row in parts}) == 1 else "mixed",
            metric=parts[0].metric,
            value=float(np.mean([row.value for row in parts])),
            seed=parts[0].seed,
            run_id=self.run_id,
            protocol={**shared, "mean_of": list(family.datasets)},
        )

    def _row(self, score: Score, planned: PlannedTask) -> ScoreRow:
        drawn = {"evaluation_seed": self.config.seed} if planned.is_seeded else {}
        return ScoreRow(
            embedder=self.name,
            dataset=score.dataset,
            revision=score.revision,
            split=score.split,
            metric=score.metric,
            value=score.value,
            seed=self._seed(planned),
            run_id=self.run_id,
            protocol={**score.protocol, **drawn, **self.embedder_protocol, "versions": package_versions()},
        )

    def _seed(self, planned: PlannedTask) -> int | None:
        """The seed that made the embedder, else the one of the evaluation where a task depends on it."""
        trained_with: int | None = self.embedder_protocol.get("training_seed")
        if trained_with is not None:
            return trained_with
        return self.config.seed if planned.is_seeded else None
