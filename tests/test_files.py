"""Files: writes that happen whole or not at all, permissions, and round trips."""

import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from selfguide import InputError, files
from selfguide.files import (
    atomic_folder,
    only_one,
    read_json,
    read_json_lines,
    sha256_of_file,
    write_json,
    write_json_lines,
    write_text,
)

UMASKS = [0o022, 0o027, 0o077, 0o000]


@pytest.fixture
def umask():
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def mode(path):
    return path.stat().st_mode & 0o777


def fail(*_):
    raise OSError("no space left on device")


# Folders


def test_folder_appears_whole(tmp_path):
    target = tmp_path / "deep" / "model"
    with atomic_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_text("new")
        assert folder.parent == target.parent
        assert not target.exists()
    assert names(tmp_path) == ["deep", "deep/model", "deep/model/inner", "deep/model/inner/weights"]
    assert (target / "inner" / "weights").read_text() == "new"


def test_folder_takes_the_place_of_another(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old")
    with atomic_folder(target) as folder:
        (folder / "new").write_text("new")
        assert names(target) == ["old"]
    assert names(tmp_path) == ["model", "model/new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_folder_stays_when_the_block_raises(tmp_path, error):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    with pytest.raises(error), atomic_folder(target) as folder:
        (folder / "weights").write_text("new")
        raise error
    assert names(tmp_path) == ["model", "model/weights"]
    assert (target / "weights").read_text() == "old"


def test_folder_stays_absent_when_the_block_raises(tmp_path):
    with pytest.raises(ValueError, match="broken"), atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("new")
        raise ValueError("broken")
    assert names(tmp_path) == []


def test_folder_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"), atomic_folder(target) as folder:
        (folder / "weights").write_text("new")
    assert names(tmp_path) == ["model", "model/weights"]
    assert (target / "weights").read_text() == "old"


def test_folder_can_be_written_twice_in_a_row(tmp_path):
    for content in ("one", "two"):
        with atomic_folder(tmp_path / "model") as folder:
            write_text(folder / "weights", content)
    assert names(tmp_path) == ["model", "model/weights"]
    assert (tmp_path / "model" / "weights").read_text() == "two"


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_folder_permissions_follow_the_umask(tmp_path, umask, mask):
    umask(mask)
    with atomic_folder(tmp_path / "model") as folder:
        write_text(folder / "config", "text")
        (folder / "weights").write_text("text")
        (folder / "inner").mkdir()
    assert mode(tmp_path / "model") == mode(tmp_path / "model" / "inner") == 0o777 & ~mask
    assert mode(tmp_path / "model" / "config") == mode(tmp_path / "model" / "weights") == 0o666 & ~mask


# Files


@pytest.mark.parametrize("text", ["", "one line\n", "größer 中文 😀\n", "a\r\nb\rc\n\u2028"])
def test_text_is_written_byte_for_byte(tmp_path, text):
    write_text(tmp_path / "notes", text)
    assert (tmp_path / "notes").read_bytes() == text.encode()
    assert names(tmp_path) == ["notes"]


def test_text_takes_the_place_of_the_old_one(tmp_path):
    write_text(tmp_path / "notes", "a long old text")
    write_text(tmp_path / "notes", "new")
    assert (tmp_path / "notes").read_text() == "new"
    assert names(tmp_path) == ["notes"]


def test_a_reader_of_the_old_text_keeps_it(tmp_path):
    write_text(tmp_path / "notes", "old")
    with (tmp_path / "notes").open() as reader:
        write_text(tmp_path / "notes", "new")
        assert reader.read() == "old"


def test_text_stays_when_it_cannot_be_encoded(tmp_path):
    write_text(tmp_path / "notes", "old")
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        write_text(tmp_path / "notes", "new \ud800")
    assert (tmp_path / "notes").read_text() == "old"
    assert names(tmp_path) == ["notes"]


def test_text_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    write_text(tmp_path / "notes", "old")
    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        write_text(tmp_path / "notes", "new")
    assert (tmp_path / "notes").read_text() == "old"
    assert names(tmp_path) == ["notes"]


def test_text_over_a_folder_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(IsADirectoryError, match="notes"):
        write_text(tmp_path / "notes", "new")
    assert names(tmp_path) == ["notes"]


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_file_permissions_follow_the_umask_and_leave_it(tmp_path, umask, mask):
    umask(mask)
    write_text(tmp_path / "notes", "text")
    assert mode(tmp_path / "notes") == 0o666 & ~mask
    assert umask(mask) == mask


# JSON and hashes


ROWS = [{"text": 'a "quoted" line\nand another', "score": 0.1}, {"größe": None, "中文": ["😀", -1, True]}, {}]


def test_json_round_trip_keeps_values_and_order(tmp_path):
    value = {"z": ROWS, "a": {"nested": 1e-300}}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value
    assert list(read_json(tmp_path / "value.json")) == ["z", "a"]
    assert (tmp_path / "value.json").read_text(encoding="utf-8").endswith("}\n")
    assert "größe" in (tmp_path / "value.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("rows", [ROWS, []], ids=["rows", "none"])
def test_json_lines_round_trip(tmp_path, rows):
    write_json_lines(tmp_path / "rows.jsonl", rows)
    assert read_json_lines(tmp_path / "rows.jsonl") == rows
    assert (tmp_path / "rows.jsonl").read_bytes().count(b"\n") == len(rows)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85"], ids=ascii)
def test_json_lines_round_trip_of_unicode_line_separators(tmp_path, character):
    rows = [{"text": f"one{character}two"}, {"text": "three"}]
    write_json_lines(tmp_path / "rows.jsonl", rows)
    assert read_json_lines(tmp_path / "rows.jsonl") == rows


def test_json_lines_that_cannot_be_written_leave_the_old_ones(tmp_path):
    write_json_lines(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        write_json_lines(tmp_path / "rows.jsonl", [{"fine": 1}, {"not": {1, 2}}])
    assert read_json_lines(tmp_path / "rows.jsonl") == ROWS
    assert names(tmp_path) == ["rows.jsonl"]


def test_json_lines_may_have_blank_lines_and_no_last_newline(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n\n{"a": 2}')
    assert read_json_lines(tmp_path / "rows.jsonl") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("size", [0, 3, 3_000_000])
def test_hash_is_that_of_the_bytes(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "blob").write_bytes(content)
    assert sha256_of_file(tmp_path / "blob") == hashlib.sha256(content).hexdigest()


def test_an_output_has_one_writer(tmp_path):
    output = tmp_path / "new" / "encoder"
    with only_one(output):
        with pytest.raises(InputError, match="another run is writing"), only_one(output):
            pass
        with only_one(tmp_path / "other"):
            pass
    with only_one(output):
        pass
    assert list(output.parent.iterdir()) == []


def test_a_lock_that_was_taken_away_since_it_was_opened_is_no_lock(tmp_path, monkeypatch):
    """Whoever held it took it away; a third one may have made it anew."""
    flock, tries = fcntl.flock, []

    def after_its_holder(file, operation):
        tries.append(file.name)
        if len(tries) == 1:
            Path(file.name).unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", after_its_holder)
    with only_one(tmp_path / "encoder"):
        monkeypatch.setattr(fcntl, "flock", flock)
        with pytest.raises(InputError, match="another run is writing"), only_one(tmp_path / "encoder"):
            pass
    assert len(tries) == 2


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_used_all_the_same(tmp_path, monkeypatch, number):
    def refuse(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="error") if number == errno.EIO else nullcontext(), only_one(tmp_path / "encoder"):
        pass
    assert number == errno.EIO or list(tmp_path.iterdir()) == []


def test_ctrl_c_between_two_renames_leaves_the_old_folder(tmp_path, monkeypatch):
    target = tmp_path / "encoder"
    target.mkdir()
    (target / "old.txt").write_text("old")
    rename = Path.rename

    def interrupted(path, other):
        if Path(other) == target and path.name != "old":
            raise KeyboardInterrupt
        return rename(path, other)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(target) as folder:
        (folder / "new.txt").write_text("new")
    assert [path.name for path in target.iterdir()] == ["old.txt"] and len(list(tmp_path.iterdir())) == 1


def test_a_killed_writer_holds_nothing(tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from selfguide.files import only_one
with only_one(Path({str(tmp_path / "encoder")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with only_one(tmp_path / "encoder"):
        pass
