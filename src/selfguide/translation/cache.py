"""Translations on the disk, so that nothing is translated twice: a batch is there whole, or not at all."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from selfguide.errors import InputError, StorageError

FILE = "translations.sqlite"

_TABLES = """
CREATE TABLE IF NOT EXISTS setups (id INTEGER PRIMARY KEY, description TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS paraphrases (
    setup INTEGER NOT NULL, sentence TEXT NOT NULL, paraphrase TEXT NOT NULL, PRIMARY KEY (setup, sentence)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unfinished (output TEXT PRIMARY KEY);
"""


@final
class Cache:
    """Paraphrases of sentences by one setup: an engine with its models and settings. Others may lie in the same file."""

    def __init__(self, folder: Path, setup: Mapping[str, Any]) -> None:
        """Open a cache, or make it.

        Raises:
            InputError: when the folder cannot be written to, or holds something else.
        """
        self._path = folder / FILE
        description = json.dumps(setup, sort_keys=True)
        with self._reported():
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, timeout=60, isolation_level=None)
            self._database.executescript(_TABLES)
            self._database.execute("INSERT OR IGNORE INTO setups (description) VALUES (?)", (description,))
            query = "SELECT id FROM setups WHERE description = ?"
            (self._setup,) = self._database.execute(query, (description,)).fetchone()

    def get(self, sentence: str) -> str | None:
        """The paraphrase of a sentence, or None; an empty text where nothing came back."""
        with self._reported():
            query = "SELECT paraphrase FROM paraphrases WHERE setup = ? AND sentence = ?"
            found = self._database.execute(query, (self._setup, sentence)).fetchone()
        return None if found is None else str(found[0])

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Store sentences with their paraphrases; when this returns they are there for good, before it, none is."""
        rows = [(self._setup, sentence, paraphrase) for sentence, paraphrase in pairs]
        with self._reported(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO paraphrases VALUES (?, ?, ?)", rows)

    def begin(self, output: Path) -> None:
        """Note that an output is being made."""
        with self._reported():
            self._database.execute("INSERT OR IGNORE INTO unfinished VALUES (?)", (str(output.absolute()),))

    def finish(self, output: Path) -> None:
        """Note that it is done."""
        with self._reported():
            self._database.execute("DELETE FROM unfinished WHERE output = ?", (str(output.absolute()),))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.close()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if "disk is full" in str(error) or "disk I/O" in str(error):
                raise StorageError(f"'{self._path}' could not be written: {error}; what was there before is kept") from error
            raise InputError(
                f"the cache '{self._path}' cannot be used ({error}); delete it, or choose another folder with --cache DIR"
            ) from error


def is_unfinished(folder: Path, output: Path) -> bool:
    """Whether a cache knows of an output that was begun and not finished; nothing is written."""
    if not (folder / FILE).is_file():
        return False
    database = sqlite3.connect(f"{(folder / FILE).absolute().as_uri()}?mode=ro", uri=True)
    try:
        query = "SELECT 1 FROM unfinished WHERE output = ?"
        return database.execute(query, (str(output.absolute()),)).fetchone() is not None
    except sqlite3.Error:  # no cache of ours; opening it will tell
        return False
    finally:
        database.close()
