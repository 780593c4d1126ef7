"""Where an experiment finds what it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True)
class Places:
    """Data, models and device of an experiment."""

    data: Path | None
    """The folder of data; without one, evaluation sets come from the hub, and training texts are missing."""
    work: Path
    """A folder for texts that are made."""
    device: str = "auto"
    models: Mapping[str, str] = field(default_factory=dict)
    """Model -> folder that holds it, for those that shall not come from the hub."""

    def location(self, model: str) -> str:
        """Folder or hub name of a model."""
        return self.models.get(model, model)
