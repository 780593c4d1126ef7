"""What a folder that ``selfguide train`` wrote says about how it came about."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.errors import InputError
from selfguide.files import read_json

_NOT_OF_THE_RECIPE = ("seed", "output", "device", "view_cache_mb", "checkpoint_every", "checkpoint_minutes", "tracker")


@final
@dataclass(frozen=True)
class TrainingRecord:
    """The part of a run's record that score rows repeat."""

    name: str
    """Such as ``bert-base-uncased/sg-opt``, or ``bert-base-uncased/sg-opt-128d`` where dimensions were cut."""
    seed: int
    selected_by_labels: bool
    recipe: str
    """All settings that the weights depend on, but for the seed; the same for the seeds of one system."""

    @property
    def protocol(self) -> dict[str, Any]:
        """The entries for score rows."""
        recipe = hashlib.sha256(self.recipe.encode()).hexdigest()[:12]
        return {"training_seed": self.seed, "training_recipe": recipe, "selected_by_labels": self.selected_by_labels}


def read_training_record(folder: Path) -> TrainingRecord | None:
    """The record of a trained folder, or None for a folder that ``selfguide train`` did not write.

    Raises:
        InputError: when there is a record, but it is broken.
    """
    path = folder / "selfguide" / "config.json"
    if not path.is_file():
        return None
    try:
        config = read_json(path)
        dimensions = config.get("dimensions")
        return TrainingRecord(
            name=f"{Path(config['model']).name}/{config['objective']}" + (f"-{dimensions}d" if dimensions else ""),
            seed=int(config["seed"]),
            selected_by_labels=config["dev"] is not None or _has_dev_score(folder),
            recipe=json.dumps({name: value for name, value in sorted(config.items()) if name not in _NOT_OF_THE_RECIPE}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the record of a training run ({type(error).__name__} {error})") from error


def _has_dev_score(folder: Path) -> bool:
    """Whether something scored the steps, which for a score function only the summary tells."""
    summary = folder / "selfguide" / "summary.json"
    return summary.is_file() and read_json(summary).get("after") is not None
