"""A source of sentences to its raw texts: files, folders, standard input, hub datasets, Python objects.

Everything is an iterator. Nothing is cleaned, counted or stored here: ``sentences`` does that.
"""

import logging
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeAlias

from selfguide.data.lines import (
    COMPRESSIONS,
    JSON_LINES,
    TABLES,
    data_suffix,
    decoded,
    expect_fields,
    listed,
    open_bytes,
    open_lines,
    read_json_values,
    read_rows,
    reported,
    text_of,
)
from selfguide.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

Source: TypeAlias = "str | Path | Iterable[str | Path] | Dataset"

SUFFIXES = (".txt", *JSON_LINES, *TABLES, ".parquet")
DEFAULT_COLUMNS = (("sentence",), ("text",), ("sentence1", "sentence2"))

# Any other suffix is read as text, one sentence a line; of these that would be rubbish.
_NOT_SENTENCES = (".json", ".arrow", ".bz2", ".zip", ".7z", ".tar", ".tgz", ".pdf", ".docx", ".xlsx")
_HUB_NAME = re.compile(r"(?P<name>[\w-]+(/[\w-][\w.-]*)?)(:(?P<config>[\w.-]+))?", re.ASCII)
_BATCH_ROWS = 1000


def read_texts(source: Source, *, columns: tuple[str, ...], split: str, revision: str | None) -> Iterator[str]:
    """Yield the raw texts of a source in order; the arguments are those of ``read_sentences``."""
    if isinstance(source, str | Path):
        return _from_name(source, columns, split, revision)
    if _is_dataset(source):
        return _from_dataset(source, columns, "the dataset")
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise InputError(f"a {type(source).__name__} is not a source of sentences; give a path, a list of str or a Dataset")
    return _from_items(source, columns, split, revision)


def choose_columns(found: Collection[str], wanted: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the wanted columns, or the default ones when none is wanted.

    Raises:
        InputError: A wanted column, or every default, is missing.
    """
    there = listed(found)
    for column in wanted:
        if column not in found:
            raise InputError(f"{where}: no column {column!r}; the columns are: {there}")
    if wanted:
        return wanted
    for names in DEFAULT_COLUMNS:
        if all(name in found for name in names):
            return names
    raise InputError(
        f"{where}: no column sentence, text, or sentence1 with sentence2; the columns are: {there}; choose with "
        "--column NAME, or --column 2 for a csv or tsv file without header"
    )


def _from_items(items: Iterable[str | Path], columns: tuple[str, ...], split: str, revision: str | None) -> Iterator[str]:
    """Read an iterable: a str is a sentence, a Path a source."""
    for index, item in enumerate(items):
        if isinstance(item, Path):
            yield from _from_name(item, columns, split, revision)
        elif not isinstance(item, str):
            raise InputError(f"sentence at index {index} is of type {type(item).__name__}; only str is a sentence")
        elif index == 0 and _names_a_file(item):
            raise InputError(f"{item!r} in a list is a sentence, but a file has this name; give files as pathlib.Path")
        else:
            yield item


def _from_name(source: str | Path, columns: tuple[str, ...], split: str, revision: str | None) -> Iterator[str]:
    name = source.as_posix() if isinstance(source, Path) else source
    path = Path(name)
    if name == "-":
        return _from_stdin()
    with reported(path):
        exists = name != "" and path.exists()
    if exists:
        return _from_folder(path, columns) if path.is_dir() else _from_file(path, columns)
    match = _HUB_NAME.fullmatch(name)
    if match is None or data_suffix(path) in SUFFIXES or path.suffix in COMPRESSIONS:
        raise InputError(f"{name!r}: no such file or folder")
    return _from_dataset(_load_from_hub(name, match["name"], match["config"], split, revision), columns, name)


def _from_folder(folder: Path, columns: tuple[str, ...]) -> Iterator[str]:
    files = _visible_files(folder)
    if {folder / "state.json", folder / "dataset_info.json"} <= set(files):  # made by Dataset.save_to_disk
        import datasets

        return _from_dataset(datasets.load_from_disk(folder), columns, str(folder))
    data = sorted(path for path in files if _is_data(path))
    if not data:
        raise InputError(f"{folder}: the folder holds no file to read; allowed are {_allowed()}")
    return (text for path in data for text in _from_file(path, columns))


def _from_file(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    suffix = data_suffix(path)
    if suffix in _NOT_SENTENCES:
        raise InputError(f"{path}: {suffix} files are not read; allowed are {_allowed()}, or text of any other suffix")
    if suffix in JSON_LINES:
        return _from_json_lines(path, columns)
    if suffix in TABLES:
        return _from_table(path, columns)
    if suffix == ".parquet":
        return _from_parquet(path, columns)
    return _from_text(path)


def _from_text(path: Path) -> Iterator[str]:
    with open_lines(path) as lines:
        yield from lines


def _from_stdin() -> Iterator[str]:
    with decoded(sys.stdin.buffer) as lines:
        yield from lines


def _from_json_lines(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    for number, value in read_json_values(path):
        where = f"{path}:{number}"
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            columns = choose_columns(value, columns, where)  # the first object chooses, the others are held to it
            yield from (text_of(value[column], column, where) for column in columns)
        else:
            raise InputError(f"{where}: a line holds a JSON object or string, not {type(value).__name__}")


def _from_table(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    rows = read_rows(path)
    if columns and all(column.isascii() and column.isdecimal() for column in columns):
        positions, width = [int(column) - 1 for column in columns], 0
    else:
        _, header = next(rows, (1, []))
        if not header:
            return
        names = [name.strip() for name in header]
        single = tuple(names) if len(names) == 1 else ()
        if single and not columns:
            logger.info("%s: its first line, '%s', is taken as a header; --column 1 reads it as text", path, names[0])
        chosen = choose_columns(names, columns or single, str(path))
        positions, width = [names.index(name) for name in chosen], len(names)
    if min(positions) < 0:
        raise InputError(f"{path}: no column '0'; columns are counted from 1")
    for number, row in rows:
        # Without a header any number of fields will do that has the columns asked for.
        expect_fields(row, width or max(len(row), *(position + 1 for position in positions)), f"{path}:{number}")
        yield from (row[position] for position in positions)


def _from_parquet(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    with open_bytes(path) as stream, tempfile.TemporaryFile() as scratch:
        try:
            file = pyarrow.parquet.ParquetFile(_seekable(path, stream, scratch))
            chosen = choose_columns(file.schema_arrow.names, columns, str(path))
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(chosen)):
                yield from _row_by_row([batch.column(name).to_pylist() for name in chosen], chosen, str(path))
        except pyarrow.ArrowException as error:
            raise InputError(f"{path}: not a whole parquet file ({error})") from error


def _from_dataset(dataset: Any, columns: tuple[str, ...], where: str) -> Iterator[str]:  # noqa: ANN401 - imported late
    chosen = choose_columns(dataset.column_names, columns, where)
    for batch in dataset.with_format(None).select_columns(list(chosen)).iter(_BATCH_ROWS):
        yield from _row_by_row([batch[name] for name in chosen], chosen, where)


def _row_by_row(values: list[list[object]], columns: tuple[str, ...], where: str) -> Iterator[str]:
    for row in zip(*values, strict=True):
        yield from (text_of(value, column, where) for value, column in zip(row, columns, strict=True))


def _load_from_hub(source: str, name: str, config: str | None, split: str, revision: str | None) -> Any:  # noqa: ANN401
    import datasets

    # load_dataset("text") would not look on the hub: it reads every text file below the working folder.
    if "/" not in name and find_spec(f"datasets.packaged_modules.{name}"):
        raise InputError(f"{source!r}: no such file or folder")
    try:
        return datasets.load_dataset(name, config, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{source!r}: no such file or folder, and not reachable as a hub dataset, split {split!r} ({reason}); "
            "check the name and the network, or give the path of a file"
        ) from error


def _visible_files(folder: Path) -> list[Path]:
    """Files in a folder and below it; hidden files and folders are left out."""
    files: list[Path] = []
    with reported(folder):
        for root, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            files += [Path(root, name) for name in names if not name.startswith(".")]
    return files


def _is_data(path: Path) -> bool:
    suffix = data_suffix(path)
    return suffix in SUFFIXES or (path.suffix.lower() in COMPRESSIONS and suffix not in _NOT_SENTENCES)


def _allowed() -> str:
    return f"{', '.join(SUFFIXES)}, each also with {', '.join(COMPRESSIONS)}"


def _seekable(path: Path, stream: BinaryIO, scratch: IO[bytes]) -> IO[bytes]:
    """Parquet is read from its end, which a compressed stream cannot reach: that one is unpacked to the disk first."""
    if path.suffix.lower() not in COMPRESSIONS:
        return stream
    copyfileobj(stream, scratch)
    scratch.seek(0)
    return scratch


def _is_dataset(source: object) -> bool:
    datasets = sys.modules.get("datasets")  # what is not imported cannot have made the object
    return datasets is not None and isinstance(source, datasets.Dataset)


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # such as: too long for a name
        return False


def _raise(error: OSError) -> NoReturn:
    raise error
