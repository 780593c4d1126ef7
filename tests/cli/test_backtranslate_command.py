"""``selfguide backtranslate`` from outside: streams, exit codes, Ctrl-C and kill -9 in real processes."""

import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import selfguide
from selfguide import InputError
from selfguide.cli.main import main
from selfguide.data.pairs import read_paraphrases
from selfguide.translation.cache import FILE
from tiny_runs import SENTENCES, tree
from tiny_translators import save_fsmt, save_marian

CLI = (sys.executable, "-c", "from selfguide.cli.main import entry_point; entry_point()")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_marian(folder / "there")
    save_fsmt(folder / "back")
    small = ["--beam", "2", "--max-length", "12", "--batch-size", "1", "--device", "cpu"]
    return ["--forward", str(folder / "there"), "--backward", str(folder / "back"), *small]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    return tmp_path


def stored(cache):
    """Number of translations in a cache that another process writes to."""
    if not (cache / FILE).exists():
        return 0
    database = sqlite3.connect(cache / FILE, timeout=60)
    try:
        return database.execute("SELECT count(*) FROM paraphrases").fetchone()[0]
    except sqlite3.OperationalError:  # the tables are not there yet
        return 0
    finally:
        database.close()


def stop_after(arguments, cache, sentences, number):
    """Starts a process and sends it a signal as soon as some sentences are stored."""
    process = subprocess.Popen([*CLI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while stored(cache) < sentences and process.poll() is None:
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.02)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def test_streams_and_summary(models, place, capsys):
    arguments = ["backtranslate", "--data", "sentences.txt", *models]
    assert main([*arguments, "-o", "out.tsv"]) == 0
    captured = capsys.readouterr()
    first, second, last = captured.out.splitlines()
    assert first.startswith("40 sentences with a paraphrase: ") and "mean word overlap 0." in first
    assert second == "0 were in the cache, 0 dropped as nothing came back"
    assert last == "paraphrases: out.tsv"
    assert captured.err.splitlines()[0] == "40 sentences kept of 40 read"
    assert read_paraphrases("out.tsv").sentences == SENTENCES
    assert main([*arguments, "-o", "out.tsv", "--overwrite"]) == 0
    assert "40 were in the cache" in capsys.readouterr().out


def test_a_killed_process_goes_on_in_another(models, place, capsys):
    arguments = ["backtranslate", "--data", "sentences.txt", *models]
    assert main([*arguments, "-o", "whole.tsv"]) == 0
    code, output, _ = stop_after([*arguments, "-o", "parts.tsv"], place / "parts.tsv.cache", 5, signal.SIGKILL)
    assert (code, output) == (-signal.SIGKILL, "")
    assert not (place / "parts.tsv").exists()
    known = stored(place / "parts.tsv.cache")
    assert 5 <= known < 40
    capsys.readouterr()
    assert main([*arguments, "-o", "parts.tsv"]) == 0
    assert f"{known} were in the cache" in capsys.readouterr().out
    assert (place / "parts.tsv").read_bytes() == (place / "whole.tsv").read_bytes()


def test_ctrl_c_ends_a_process_in_order(apertium, place, capsys):
    (place / "many.txt").write_text("".join(f"The cat {number} sits on the mat.\n" for number in range(20_000)))
    arguments = ["backtranslate", "--data", "many.txt", "--engine", "apertium", "--batch-size", "50", "-o", "out.tsv"]
    code, output, errors = stop_after(arguments, place / "out.tsv.cache", 50, signal.SIGINT)
    assert (code, output) == (130, ""), errors
    assert "Traceback" not in errors
    known = stored(place / "out.tsv.cache")
    line = f"selfguide: interrupted after {known} of 20000 sentences; the same command goes on from there"
    assert errors.splitlines()[-1] == line
    (place / "many.txt").write_text("".join((place / "many.txt").read_text().splitlines(keepends=True)[-200:]))
    assert main(arguments) == 0
    assert [sentence.split()[2] for sentence in read_paraphrases("out.tsv").sentences] == [
        str(number) for number in range(19_800, 20_000)
    ]


def test_the_disk_is_full(apertium, place):
    """For real; afterwards, when there is room again, the job goes on."""
    (place / "many.txt").write_text("".join(f"The cat {number} sits on the mat.\n" for number in range(1000)))
    arguments = ["backtranslate", "--data", "many.txt", "--engine", "apertium", "--batch-size", "300", "-o", "out.tsv"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))  # noqa: E731
    done = subprocess.run([*CLI, *arguments], capture_output=True, text=True, timeout=300, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "translations.sqlite' could not be written: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and not (place / "out.tsv").exists()
    assert 300 <= stored(place / "out.tsv.cache") < 1000
    assert main(arguments) == 0
    assert len(read_paraphrases("out.tsv")) == 1000


def test_apertium_does_not_wait_for_torch(apertium, place):
    script = """
import sys
from selfguide.cli.main import main
code = main(["backtranslate", "--data", "sentences.txt", "--engine", "apertium", "-o", "out.tsv"])
assert "torch" not in sys.modules
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_sentences_from_standard_input_and_columns(apertium, place):
    arguments = [*CLI, "backtranslate", "--engine", "apertium"]
    done = subprocess.run([*arguments, "--data", "-", "-o", "in.tsv"], input="A dog runs.\nA cat.\n", text=True, timeout=300)
    assert done.returncode == 0
    assert read_paraphrases("in.tsv").sentences == ("A dog runs.", "A cat.")
    (place / "table.csv").write_text("left,right\nA dog runs.,A cat.\n")
    flags = ["--data", "table.csv", "--column", "left,right", "--engine", "apertium", "-o", "table.tsv"]
    assert main(["backtranslate", *flags]) == 0
    assert (place / "table.tsv").read_text() == (place / "in.tsv").read_text()


def test_a_file_in_a_list_is_not_overwritten_either(place):
    (place / "there.tsv").write_text("a\tb\n")
    with pytest.raises(InputError, match="would be lost"):
        selfguide.backtranslate([Path("there.tsv")], "there.tsv", overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ([], ["no sentences were given; name a file with --data F"]),
        (["--data", "missing.txt"], ["'missing.txt': no such file or folder"]),
        (["--data", "blank.txt"], ["blank.txt holds no sentences", "1 read (1 blank)"]),
        (["--data", "sentences.txt", "-o", "sentences.txt"], ["ends in '.txt'", ".tsv or .jsonl"]),
        (["--data", "sentences.txt", "-o", "there.tsv"], ["'there.tsv' exists already", "--overwrite"]),
        (["--data", "there.tsv", "-o", "there.tsv", "--overwrite"], ["'there.tsv' is the file of --data", "would be lost"]),
        (["--data", "sentences.txt", "-o", "."], ["no output file was given"]),
        (["--data", "sentences.txt", "-o", "folder.tsv"], ["'folder.tsv' is a folder"]),
        (["--data", "sentences.txt", "--forward", "x"], ["--forward and --backward go together"]),
        (["--data", "sentences.txt", "--beam", "x", "--engine", "y"], ["--beam is 'x'", "--engine 'y' is not known"]),
        (["--data", "sentences.txt"], ["'facebook/wmt19-en-de' is not a local folder", "check the name and the network"]),
    ],
    ids=str,
)
def test_wrong_input(place, capfd, arguments, facts):
    (place / "blank.txt").write_text(" \n")
    (place / "there.tsv").write_text("a cat\tone cat\n")
    (place / "folder.tsv").mkdir()
    before = tree(place)
    assert main(["backtranslate", "--output", "out.tsv", *arguments]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    line = captured.err.splitlines()[-1]
    assert line.startswith("selfguide: ") and all(fact in line for fact in facts), captured.err
    assert tree(place) == before


def test_models_that_do_not_translate(place, capfd, tiny_bert):
    arguments = ["backtranslate", "--data", "sentences.txt", "-o", "out.tsv"]
    before = tree(place)
    assert main([*arguments, "--forward", str(tiny_bert), "--backward", str(tiny_bert)]) == 2
    assert "a model of type 'bert', which is no translation model" in capfd.readouterr().err.splitlines()[-1]
    assert tree(place) == before
