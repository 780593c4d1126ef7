"""What a folder that ``selfguide train`` wrote says about how it came about."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.errors import InputError
from selfguide.files import read_json


@final
@dataclass(frozen=True)
class TrainingRecord:
    """The part of a run's record that score rows repeat."""

    name: str
    """Such as ``bert-base-uncased/sg-opt``, or ``bert-base-uncased/sg-opt-128d`` where dimensions were cut."""
    seed: int
    selected_by_labels: bool

    @property
    def protocol(self) -> dict[str, Any]:
        """The entries for score rows."""
        return {"training_seed": self.seed, "selected_by_labels": self.selected_by_labels}


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
            selected_by_labels=config["dev"] is not None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the record of a training run ({type(error).__name__} {error})") from error
