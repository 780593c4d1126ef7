"""A score is a row: the one currency of training, evaluation, experiments and reports. Rows live in files of JSON lines."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

from selfguide.errors import InputError
from selfguide.files import write_json_lines


@final
@dataclass(frozen=True)
class ScoreRow:
    """One number, with what it is a number of."""

    embedder: str
    """Such as ``bert-base-uncased/sg-opt``."""
    dataset: str
    revision: str
    """Hub revision, or sha256 of the local file."""
    split: str
    metric: str
    value: float
    """x100, as papers print it."""
    seed: int | None
    run_id: str
    protocol: dict[str, Any] = field(default_factory=dict)
    """Choices that the number depends on, and whether labels selected the checkpoint."""

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return asdict(self)


def read_scores(path: Path) -> list[ScoreRow]:
    """Rows of a file of JSON lines.

    Raises:
        InputError: when the file cannot be read, or a line of it is no score row; the line is named.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the score file '{path}' cannot be read: {error}") from error
    return [_row(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]


def write_scores(path: Path, rows: Iterable[ScoreRow]) -> None:
    """Write a file of JSON lines, in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_lines(path, [row.as_json() for row in rows])


def _row(line: str, where: str) -> ScoreRow:
    names = [field.name for field in fields(ScoreRow)]
    try:
        values = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: broken JSON ({error}); each line holds one score row") from error
    if not isinstance(values, dict) or set(values) != set(names):
        raise InputError(f"{where}: not a score row; a row is an object with: {', '.join(names)}")
    row = ScoreRow(**values)
    is_number = isinstance(row.value, int | float) and not isinstance(row.value, bool)
    if not is_number or not isinstance(row.protocol, dict) or not isinstance(row.seed, int | None):
        raise InputError(f"{where}: not a score row; value is a number, seed a whole number or null, protocol an object")
    return row
