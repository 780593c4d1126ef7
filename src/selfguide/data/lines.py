"""Files to lines, rows and JSON values: compression, decoding, line ends. What a sentence is, others decide."""

import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from selfguide.errors import InputError

COMPRESSIONS = (".gz", ".xz", ".zst")
TABLES = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson")

_SURROGATE = re.compile("[\ud800-\udfff]")

# An undecodable byte becomes a lone surrogate, which no valid text decodes to: so ``clean`` can tell it from a U+FFFD that
# stood in the file. The built-in "surrogateescape" does the same, but not for UTF-16.
codecs.register_error("selfguide.mark", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


def data_suffix(path: Path) -> str:
    """Suffix that tells the format, in lower case and without the compression: ``.csv`` for ``a.CSV.gz``."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return inner.suffix.lower()


def clean(text: str) -> tuple[str, bool]:
    """Remove NULs and surrounding white space, put U+FFFD for lone surrogates; also say whether there were any."""
    text = text.replace("\0", "").strip()
    repaired, replacements = _SURROGATE.subn("\ufffd", text)
    return repaired, replacements > 0


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Turn what can go wrong with a file or folder into an ``InputError`` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file or folder") from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a whole {path.suffix} file ({error}); fetch or compress it again") from error
    except OSError as error:
        raise InputError(f"{error.filename or path}: cannot be read ({error.strerror or error})") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed by its suffix; a failure while it is open is reported too."""
    with reported(path), _opened(path) as stream:
        yield stream


@contextmanager
def decoded(stream: BinaryIO, newline: str | None = None) -> Iterator[Iterator[str]]:
    r"""Decode a stream of UTF-8 (or UTF-16 with a byte order mark) into lines without NULs.

    Lines end at ``\n``, ``\r\n`` and ``\r`` only, and each arrives with a single ``\n``; with ``newline=""`` the ends stay
    as they are. The stream is left open.
    """
    buffered = io.BufferedReader(cast(io.RawIOBase, stream))
    is_utf16 = buffered.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if is_utf16 else "utf-8-sig"
    text = io.TextIOWrapper(buffered, encoding, errors="selfguide.mark", newline=newline)
    try:
        yield (line.replace("\0", "") for line in text)
    finally:
        text.detach().detach()  # else its garbage collection closes the stream


@contextmanager
def open_lines(path: Path, newline: str | None = None) -> Iterator[Iterator[str]]:
    """Open a file, compressed or not, as decoded lines; see ``decoded``."""
    with open_bytes(path) as stream, decoded(stream, newline) as lines:
        yield lines


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a csv or tsv file, each with the number of the line where it starts; blank lines are skipped.

    A csv file may quote fields, with line ends inside; in a tsv file a quotation mark is a character like any other.
    """
    rows = _csv_rows(path) if data_suffix(path) == ".csv" else _tsv_rows(path)
    return ((number, row) for number, row in rows if row)


def read_json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the values of a file of JSON lines, each with its line number; blank lines are skipped."""
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}:{number}: broken JSON ({error}); each line holds one whole value") from error
            yield number, value


def expect_fields(row: list[str], width: int, where: str) -> None:
    """Raise an ``InputError`` unless a row has ``width`` fields."""
    if len(row) != width:
        raise InputError(f"{where}: number of fields is {len(row)} where {width} are needed; is a separator inside a field?")


def listed(names: Iterable[str]) -> str:
    """Join column names for a message; in a file without header they are whole sentences, so each is shortened."""
    return ", ".join(name if len(name) <= 40 else f"{name[:37]}..." for name in names) or "none"


def text_of(value: object, column: str, where: str) -> str:
    """Return a value read from a column as text; a missing one (None) is blank, any other type an ``InputError``."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: column {column!r} holds {type(value).__name__}, not text; choose a column of text")
    return value


def _opened(path: Path) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        case ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        case ".zst":
            import pyarrow

            # The reader of the zstandard package takes a truncated file for a whole one; this one does not.
            return cast(BinaryIO, pyarrow.input_stream(path, compression="zstd"))
    return path.open("rb")


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            text = line.removesuffix("\n")
            yield number, text.split("\t") if text else []


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open_lines(path, newline="") as lines:
        rows = csv.reader(lines, strict=True)
        while True:
            start = rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise InputError(f"{path}:{start}: broken CSV ({error}); is a quotation mark left open?") from error
            if row is None:
                return
            yield start, row
