"""Where an experiment finds what it needs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from selfguide.data.records import SEVEN
from selfguide.data.sts import load_from_hub
from selfguide.files import write_text

_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
"""Splits of the hub's STS-B -> names of our files."""


@final
@dataclass(frozen=True)
class Places:
    """Data, models and device of an experiment."""

    data: Path | None
    """The folder of data; without one, STS-B and the evaluation sets come from the hub, and other texts are missing."""
    work: Path
    """A folder for texts that are made or fetched."""
    device: str = "auto"
    models: Mapping[str, str] = field(default_factory=dict)
    """Model -> folder that holds it, for those that shall not come from the hub."""

    def location(self, model: str) -> str:
        """Folder or hub name of a model."""
        return self.models.get(model, model)

    def text_folder(self) -> Path:
        """The folder that holds ``sts/STS-B/train.tsv`` and the others: that of the data, else one with the hub's copy.

        Raises:
            MissingDataError: when the hub cannot be reached.
        """
        if self.data is not None:
            return self.data
        folder = self.work / "sts" / "STS-B"
        folder.mkdir(parents=True, exist_ok=True)
        for split, name in _SPLITS.items():
            if not (folder / f"{name}.tsv").is_file():
                write_text(folder / f"{name}.tsv", _hub_pairs(split))
        return self.work


def _hub_pairs(split: str) -> str:
    """The lines of a file: score and two sentences, of the revision that the evaluation has, too."""
    record = next(record for record in SEVEN if record.name == "STS-B")
    assert record.hub is not None
    rows = load_from_hub("STS-B", dataclasses.replace(record.hub, split=split))
    return "".join(f"{row['score']}\t{_clean(row['sentence1'])}\t{_clean(row['sentence2'])}\n" for row in rows)


def _clean(sentence: str) -> str:
    return " ".join(sentence.split())
