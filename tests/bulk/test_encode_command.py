"""``selfguide encode`` from outside: streams, exit codes, Ctrl-C, kill -9, a full disk and memory in real processes."""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from selfguide.cli.main import main
from selfguide.embedders.loading import load
from tiny_runs import SENTENCES, tree

CLI = (sys.executable, "-c", "from selfguide.cli.main import entry_point; entry_point()")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    return tmp_path


def write_many(path, count):
    with path.open("w") as file:
        file.writelines(f"{SENTENCES[number % 40]} {number}\n" for number in range(count))


def stop_after(arguments, shards, count, number):
    """Starts a process and sends it a signal as soon as some shards are stored."""
    process = subprocess.Popen([*CLI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while len(list(shards.glob("*.npy"))) < count and process.poll() is None:
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.005)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def test_streams_and_summary(place, tiny_bert, capsys):
    assert main(["encode", "--model", str(tiny_bert), "--data", "sentences.txt", "-o", "vectors.npy"]) == 0
    captured = capsys.readouterr()
    first, second = captured.out.splitlines()
    assert first == "40 float32 vectors of 32 dimensions: vectors.npy"
    assert second.startswith("40 encoded now, ") and second.endswith(" a second")
    assert captured.err == ""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)], ids=["kill -9", "Ctrl-C"]
)
def test_a_process_that_was_ended_goes_on_in_another(place, tiny_bert, capsys, number, code):
    write_many(place / "many.txt", 60_000)
    arguments = ["encode", "--model", str(tiny_bert), "--data", "many.txt", "--shard-size", "500", "-o", "vectors.npy"]
    found, output, errors = stop_after(arguments, place / "vectors.npy.shards", 3, number)
    assert (found, output) == (code, ""), errors
    if number == signal.SIGINT:
        assert errors.splitlines()[-1].startswith("selfguide: interrupted; ")
        assert errors.endswith("sentences were encoded and stored, and the same command goes on from there\n")
        assert "Traceback" not in errors
    stored = {path: path.stat().st_mtime_ns for path in (place / "vectors.npy.shards").glob("*.npy")}
    assert 3 <= len(stored) < 120 and not (place / "vectors.npy").exists()
    keep = place / "kept"  # links, as the folder goes when all is done
    keep.mkdir()
    for path in stored:
        os.link(path, keep / path.name)
    assert main(arguments) == 0
    assert f"{60_000 - 500 * len(stored):,} encoded now" in capsys.readouterr().out
    assert {path: (keep / path.name).stat().st_mtime_ns for path in stored} == stored
    vectors = np.load(place / "vectors.npy", mmap_mode="r")
    assert vectors.shape == (60_000, 32) and not (place / "vectors.npy.shards").exists()
    lines = (place / "many.txt").read_text().splitlines()
    for part in (slice(0, 50), slice(59_950, 60_000)):
        np.testing.assert_allclose(vectors[part], load(tiny_bert).encode(lines[part]), atol=1e-5)


def test_the_disk_is_full(place, tiny_bert):
    """For real, in the last step; afterwards, when there is room again, nothing is encoded twice."""
    write_many(place / "many.txt", 1000)
    arguments = ["encode", "--model", str(tiny_bert), "--data", "many.txt", "--shard-size", "100", "-o", "vectors.npy"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))  # noqa: E731
    done = subprocess.run([*CLI, *arguments], capture_output=True, text=True, timeout=300, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "'vectors.npy' could not be written: the disk is full" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and not (place / "vectors.npy").exists()
    assert len(list((place / "vectors.npy.shards").iterdir())) == 11  # the shards and the settings, no scratch
    again = subprocess.run([*CLI, *arguments], capture_output=True, text=True, timeout=300)
    assert "0 encoded now" in again.stdout and "1,000 had been before" in again.stdout, again.stderr


def test_sentences_from_standard_input(place, tiny_bert):
    arguments = [*CLI, "encode", "--model", str(tiny_bert), "--data", "-", "-o", "vectors.npy"]
    text = "the cat\n\nthe old tree ünï\n"
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=300, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    wanted = load(tiny_bert).encode(["the cat", "", "the old tree ünï"])
    np.testing.assert_allclose(np.load(place / "vectors.npy"), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "no sentences were given; name a file with --data F"),
        (["--data", "sentences.txt", "-o", "locked/a.npy"], "'locked' is no folder that allows it; choose another"),
        (["--data", "sentences.txt", "-o", "a.npz"], "ends in none of .npy, .parquet, .jsonl"),
        (["--data", "sentences.txt", "--model", "nowhere"], "'nowhere'"),
    ],
    ids=str,
)
def test_wrong_input(place, tiny_bert, capfd, arguments, fact):
    if "locked/a.npy" in arguments and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (place / "locked").mkdir(mode=0o500)
    before = tree(place)
    assert main(["encode", "--model", str(tiny_bert), "--output", "out.npy", *arguments]) == 2
    captured = capfd.readouterr()
    line = captured.err.splitlines()[-1]
    assert captured.out == "" and line.startswith("selfguide: ") and fact in line
    assert tree(place) == before


def test_memory_does_not_grow_with_the_input(place, tiny_bert):
    peaks = []
    for count in (10_000, 100_000):
        write_many(place / "many.txt", count)
        flags = ["--data", "many.txt", "--shard-size", "5000", "-o", f"{count}.npy"]
        process = subprocess.Popen([*CLI, "encode", "--model", str(tiny_bert), *flags], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks.append(usage.ru_maxrss)
    assert peaks[1] <= 1.1 * peaks[0], peaks
