"""Scored pairs of a data set: from a data folder, the hub, or a file of the user's own; checked by their hashes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.data.digests import Pair, files_digest, pairs_digest, text_digest
from selfguide.data.lines import listed
from selfguide.data.pairs import checked_score, checked_sentence, read_pairs
from selfguide.data.records import HubCopy, StsRecord
from selfguide.data.sick import chosen_pairs
from selfguide.errors import InputError, MissingDataError

logger = logging.getLogger(__name__)

OTHER_TEXT = "other"
"""Text variant of a hub copy whose words are right, but whose punctuation, case or blanks are of no known variant."""


@final
@dataclass(frozen=True)
class StsData:
    """The pairs of a data set."""

    name: str
    split: str
    subsets: tuple[tuple[Pair, ...], ...]
    """The pairs of each subset; a single one where there are none, or the source does not tell them apart."""
    revision: str
    """The hub's revision, or the sha256 of the files' bytes, one after the other."""
    source: str
    """The hub's path, or ``files``."""
    text: str
    """Text variant."""

    @property
    def pairs(self) -> list[Pair]:
        """The pairs of all subsets."""
        return [pair for subset in self.subsets for pair in subset]


def read_sts(record: StsRecord, data: Path | None, *, text: str | None = None) -> StsData:
    """Read a data set and make sure that it is the one that the record is about.

    Args:
        record: What to read.
        data: Folder that holds ``sts``, ``sts-senteval-tok`` and ``sts-multilingual``, or one of these itself; None for
            the copy on the Hugging Face hub.
        text: ``raw`` or ``senteval``; by default raw, and from the hub whichever its copy is.

    Raises:
        MissingDataError: The data set is not there, or the hub cannot be reached.
        InputError: The source does not have this text variant, or its pairs are not those of the record.
    """
    if data is None:
        return _from_hub(record, text)
    return _from_files(record, data, text or "raw")


def read_private_pairs(path: Path, *, name: str | None = None) -> StsData:
    """Read a file of scored pairs that no record is about; see :func:`selfguide.data.pairs.read_pairs` for the formats.

    The data set is called by the file's name with its suffix, unless one is given, so that no file can pass for ``STS-B``.

    Raises:
        InputError: The file is missing or broken; the line is named.
    """
    pairs = read_pairs(path)
    subset = tuple(map(Pair, pairs.scores, pairs.sentences1, pairs.sentences2))
    return StsData(name or path.name, split="all", subsets=(subset,), revision=pairs.sha256, source="files", text="as given")


def _from_files(record: StsRecord, data: Path, text: str) -> StsData:
    files = _find_files(record, data, text)
    subsets = []
    for path, expected in zip(files, record.files.values(), strict=True):
        found = read_pairs(path, score_range=record.scores)
        if len(found) != expected:
            raise InputError(f"{path}: {len(found)} pairs are there where {expected} are expected; fetch the file again")
        subsets.append(tuple(map(Pair, found.scores, found.sentences1, found.sentences2)))
    where = str(files[0].parent)
    found_text = _check_pairs(record, [pair for subset in subsets for pair in subset], where)
    if found_text != text:
        is_known = found_text != OTHER_TEXT
        raise InputError(
            f"{record.name} in {where}: scores and words are right, but punctuation, case or blanks are not those of the "
            f"text '{text}'" + (f"; this is the text '{found_text}' (--text {found_text})" if is_known else "")
        )
    parts = tuple(subsets) if record.has_subsets else (tuple(pair for subset in subsets for pair in subset),)
    return StsData(record.name, record.split, parts, revision=files_digest(files), source="files", text=text)


def _find_files(record: StsRecord, data: Path, text: str) -> list[Path]:
    """The files of a data set, in the record's order."""
    if text not in record.roots:
        raise InputError(f"{record.name} is there as {' or '.join(record.roots)} text, not as '{text}'")
    inner = record.folder or record.name
    folders = [data / record.roots[text] / inner, data / inner]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise MissingDataError(f"{record.name}: no such folder; looked for {folders[0]} and {folders[1]}")
    files = [folder / f"{name}.tsv" for name in record.files]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise MissingDataError(f"{record.name}: no such file; looked for {', '.join(map(str, missing))}")
    return files


def _from_hub(record: StsRecord, text: str | None) -> StsData:
    copy = record.hub
    if copy is None:
        raise MissingDataError(f"{record.name}: the hub has no copy of it that we know; give a data folder (--data)")
    if text not in (None, copy.text):
        raise InputError(
            f"{record.name} on the hub ({copy.path}) is of the text '{copy.text}', not '{text}'; give a data folder "
            "(--data), or leave --text out"
        )
    where = f"{copy.path} at {copy.revision[:12]}"
    pairs: Sequence[Pair] = _hub_pairs(record, copy, where)
    if copy.chosen is not None:
        pairs = chosen_pairs(pairs, copy.chosen) or pairs
    found_text = _check_pairs(record, pairs, where)
    if found_text != copy.text:
        logger.warning("%s in %s: punctuation, case or blanks are not those of '%s'", record.name, where, copy.text)
    return StsData(record.name, record.split, (tuple(pairs),), copy.revision, source=copy.path, text=found_text)


def _hub_pairs(record: StsRecord, copy: HubCopy, where: str) -> list[Pair]:
    table = load_from_hub(record.name, copy)
    if not set(copy.columns) <= set(table.column_names):
        raise InputError(f"{where}: columns {listed(copy.columns)} are needed; there are: {listed(table.column_names)}")
    rows = zip(*(table[column] for column in copy.columns), strict=True)
    return [
        Pair(
            checked_score(score, f"{where} row {number}", record.scores),
            checked_sentence(sentence1, copy.columns[1], f"{where} row {number}"),
            checked_sentence(sentence2, copy.columns[2], f"{where} row {number}"),
        )
        for number, (score, sentence1, sentence2) in enumerate(rows)
    ]


def load_from_hub(name: str, copy: HubCopy) -> Any:  # noqa: ANN401 - a datasets.Dataset, which is imported late
    """The rows of a copy on the hub, or in its local cache.

    Raises:
        MissingDataError: when it cannot be had.
    """
    import datasets

    try:
        return datasets.load_dataset(copy.path, copy.config, split=copy.split, revision=copy.revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).partition("\n")[0]
        raise MissingDataError(
            f"{name}: could not be had from the hub ({copy.path}: {reason}); check the network, or give a data folder "
            "(--data)"
        ) from error


def _check_pairs(record: StsRecord, pairs: Sequence[Pair], where: str) -> str:
    """Refuse pairs that are not the record's; gives the text variant that they are of."""
    expected = sum(record.files.values())
    if len(pairs) != expected:
        raise InputError(f"{record.name} in {where}: {len(pairs)} pairs are there where {expected} are expected")
    digest = text_digest(pairs)
    for text, known in record.text_sha256.items():
        if digest == known:
            return text
    if pairs_digest(pairs) != record.pairs_sha256:
        raise InputError(
            f"{record.name} in {where}: the number of pairs is right ({expected}), but a score or the words of a sentence "
            "differ from the data set that scores are published for; give it as pairs of your own (--pairs) if that is meant"
        )
    return OTHER_TEXT
