"""A job: one system, made with one seed, and measured in one way. Tables share jobs; each is run once."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.experiments.specs import Row, Spec, methods, texts


@final
@dataclass(frozen=True)
class Job:
    """What is made and measured."""

    encoder: str
    model: str
    method: str
    measure: str
    seed: int | None

    @property
    def path(self) -> Path:
        """Of its result file, inside the folder of results."""
        name = self.method if self.seed is None else f"{self.method}.{self.seed}"
        return Path(self.measure) / (self.encoder or "none").lower() / f"{name}.json"

    @property
    def recipe(self) -> dict[str, Any]:
        """What the spec says about it; a result of another recipe is stale. Where models and data lie is not part of it."""
        method = methods()[self.method]
        return {
            "model": self.model,
            "method": self.method,
            "embedder": dict(method.embedder),
            "train": None if method.train is None else dict(method.train),
            "text": None if method.text is None else {"name": method.text, **texts()[method.text]},
            "measure": self.measure,
            "seed": self.seed,
        }

    @property
    def fingerprint(self) -> str:
        """Hash of the recipe."""
        return hashlib.sha256(json.dumps(self.recipe, sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.encoder or self.model}, {self.method}: {self.measure}{seed}"


def jobs_of(row: Row, measure: str, seeds: Collection[int] | None = None) -> list[Job]:
    """The jobs of a line, one a seed; of a quoted system none.

    Args:
        row: The line.
        measure: Of its table.
        seeds: These in the place of the spec's.
    """
    if row.model is None:
        return []
    chosen: Sequence[int | None] = list(seeds or row.seeds) if row.seeds else [None]
    return [Job(row.encoder, row.model, row.method, measure, seed) for seed in chosen]


def jobs_of_specs(
    specs: Sequence[Spec],
    *,
    encoders: Collection[str] = (),
    models: Collection[str] = (),
    methods: Collection[str] = (),
    seeds: Collection[int] | None = None,
) -> list[Job]:
    """The jobs of tables, each once, in the order of the tables.

    Args:
        specs: The tables.
        encoders: Only the lines of these, or of ``models``, where either is given.
        models: Models of encoders, or of systems that have none.
        methods: Only the lines of these, where given.
        seeds: These in the place of the specs'.
    """
    found: dict[Job, None] = {}
    for spec in specs:
        for row in spec.rows:
            is_chosen = not (encoders or models) or row.encoder in encoders or row.model in models
            if is_chosen and (not methods or row.method in methods):
                found.update(dict.fromkeys(jobs_of(row, spec.measure, seeds)))
    return list(found)
