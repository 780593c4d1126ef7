"""Files: atomic writes, JSON and JSON lines, hashes. Nothing here knows about models."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfguide.errors import InputError, StorageError

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What a file system says that has no locks, as some of networks have none."""


def check_can_write(output: Path) -> None:
    """Make sure that an output can be made where it shall be, before any work is done; nothing is written.

    Raises:
        InputError: when the folder that it would lie in, or the nearest one above, does not allow it.
    """
    parent = next(folder for folder in output.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"the output '{output}' cannot be written: '{parent}' is no folder that allows it; choose another")


@contextmanager
def only_one(output: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an output for the length of the block, so that no second run writes there; a process that is killed lets go.

    Args:
        output: What is held.
        wait: Wait for another run to let go.

    Raises:
        InputError: when another run holds it, and is not waited for.
    """
    try:
        import fcntl
    except ImportError:  # Windows has other locks
        yield
        return
    lock = output.with_name(f".{output.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with lock.open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise InputError(
                    f"another run is writing to '{output}'; wait for it to end, or choose another output"
                ) from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if not _is_same_file(lock, file.fileno()):  # who held it has taken it away since it was opened
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _is_same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target`` that takes its place when the block ends without an error.

    Every file is flushed to the disk before the rename, so that after a crash or a power cut ``target`` is either the old
    folder (or absent) or the new one, whole.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield scratch
        _open_up(scratch)
        _flush_tree(scratch)
        _replace_folder(scratch, target)
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if is_disk_full(error):
            raise StorageError(
                f"'{target}' could not be written: the disk is full, or a file reached its size limit; nothing was left"
            ) from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new one, never a part."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.chmod(0o666 & ~_umask())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write a JSON file, indented, keys in the order given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a file of JSON lines in one go."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    # not splitlines: JSON may hold U+2028 and U+0085 as they are
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def sha256_of_file(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that no more can be written; safetensors and torch say it in words of their own."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return True
    text = str(error)
    words = ("(os error 28)", "(os error 27)", "PytorchStreamWriter failed writing", "unexpected pos")
    return any(word in text for word in words)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _open_up(folder: Path) -> None:
    """Give all the permissions of the umask: a temporary folder, and what safetensors writes, are for the owner alone."""
    for path in (*folder.rglob("*"), folder):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())


def _flush_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        flush(path)


def flush(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk; Windows has no such call for a folder."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace_folder(scratch: Path, target: Path) -> None:
    """Rename a folder over another; a folder cannot be replaced in one step, so the old one steps aside first."""
    if not target.exists():
        scratch.rename(target)
    else:
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent)) / "old"
        target.rename(aside)
        try:
            scratch.rename(target)
        except BaseException:  # Ctrl-C, too
            aside.rename(target)
            aside.parent.rmdir()
            raise
        shutil.rmtree(aside.parent)
    flush(target.parent)
