"""``selfguide report``: finds out what it is given, writes beside it or where it is told, and says what it cannot read."""

import subprocess
import sys

import pytest
from made_results import write_run, write_score_file, write_values

from selfguide.cli.main import main


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with one of each."""
    write_values(tmp_path / "results", "table2", "MBERT", "cls", (12.6,))
    write_run(tmp_path / "my-encoder")
    write_score_file(tmp_path / "scores.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "written", "words"),
    [
        ("results", "results.html", "the paper&#x27;s tables and figures, and ours"),
        ("my-encoder", "my-encoder.html", "mini, trained by sg-opt"),
        ("scores.jsonl", "scores.html", "Scores: scores.jsonl"),
        ("results/", "results.html", "Table 11"),
    ],
)
def test_each_kind(place, capsys, path, written, words):
    assert main(["report", path]) == 0
    assert capsys.readouterr().out == f"report: {written}\n"
    assert words in (place / written).read_text("utf-8")


def test_the_folder_that_one_is_in(place, monkeypatch, capsys):
    monkeypatch.chdir(place / "my-encoder")
    assert main(["report", "."]) == 0
    assert capsys.readouterr().out == f"report: {place / 'my-encoder.html'}\n"


def test_output(place, capsys):
    assert main(["report", "scores.jsonl", "-o", "new/page.html"]) == 0
    assert capsys.readouterr().out == "report: new/page.html\n"
    assert (place / "new" / "page.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "'nowhere' does not exist; give a folder of results, a trained encoder or a score file"),
        (["."], "'.' holds neither results of 'selfguide reproduce' nor an encoder of 'selfguide train'; give one of these"),
        (["words.txt"], "words.txt:1: broken JSON"),
        (["scores.jsonl", "-o", "results"], "the output 'results' is a folder; give the name of a file"),
    ],
)
def test_wrong_input(place, capsys, arguments, said):
    (place / "words.txt").write_text("words\n")
    assert main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"selfguide: {said}") and captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_page_needs_no_model(place):
    script = """
import sys
from selfguide.cli.main import main
assert all(main(["report", path]) == 0 for path in ("results", "my-encoder", "scores.jsonl"))
heavy = {"torch", "transformers", "sentence_transformers", "datasets"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
