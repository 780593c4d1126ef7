"""A file of score rows that grows: what it already holds need not be computed again."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

from selfguide.files import check_can_write, only_one
from selfguide.scores import ScoreRow, read_scores, write_scores


class RowKey(NamedTuple):
    """What tells a number from others, before it is known; the protocol's choices are in the run id."""

    embedder: str
    dataset: str
    revision: str
    metric: str
    seed: int | None
    run_id: str


@final
class ScoreFile:
    """Rows of a file of JSON lines, and those that are added; with no path, nothing is known and nothing is written."""

    def __init__(self, path: Path | None) -> None:
        """Read what is there.

        Raises:
            InputError: when the file is there and holds something else than score rows, or cannot be written.
        """
        self.path = path.expanduser() if path is not None else None
        if self.path is not None:
            check_can_write(self.path)
        self._rows = _read(self.path) if self.path is not None else {}

    def rows(self) -> list[ScoreRow]:
        """All rows."""
        return list(self._rows.values())

    def known(self, keys: Sequence[RowKey]) -> list[ScoreRow]:
        """The rows of these keys; none unless the file holds all of them."""
        return [self._rows[key] for key in keys] if all(key in self._rows for key in keys) else []

    def add(self, rows: Sequence[ScoreRow]) -> None:
        """Add rows, each in the place of an older one of the same key, to those of the file, which others write to, too."""
        new = {_key(row): row for row in rows}
        if self.path is None:
            self._rows.update(new)
            return
        with only_one(self.path, wait=True):
            self._rows = {**_read(self.path), **new}
            write_scores(self.path, self._rows.values())


def _read(path: Path) -> dict[RowKey, ScoreRow]:
    return {_key(row): row for row in read_scores(path)} if path.exists() else {}


def _key(row: ScoreRow) -> RowKey:
    return RowKey(row.embedder, row.dataset, row.revision, row.metric, row.seed, row.run_id)
