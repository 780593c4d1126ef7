"""GLUE through ``selfguide evaluate``: rows, the table, and a task whose data is missing."""

import io
import json
import re

import pytest

from selfguide.cli.main import main


def write_rte(folder):
    place = folder / "glue" / "RTE"
    place.mkdir(parents=True)
    rows = [("entailment", "the cat sat", "a cat sat"), ("not_entailment", "the dog ran", "a bird sang")] * 10
    text = "".join("\t".join(row) + "\n" for row in rows)
    (place / "train.tsv").write_text(text, encoding="utf-8")
    (place / "dev.tsv").write_text(text, encoding="utf-8")


def test_a_task_of_glue_is_scored_and_a_missing_one_is_told(tiny_bert, tmp_path, capsys):
    write_rte(tmp_path)
    scores = tmp_path / "scores.jsonl"
    given = ["evaluate", "--model", str(tiny_bert), "--tasks", "RTE,CoLA", "--data", str(tmp_path), "--output", str(scores)]
    assert main(given) == 1
    printed = capsys.readouterr()
    assert "GLUE" in printed.out and "RTE" in printed.out
    assert "CoLA" in printed.err.splitlines()[-1]
    (row,) = (json.loads(line) for line in scores.read_text("utf-8").splitlines())
    assert (row["dataset"], row["metric"], row["split"], row["seed"]) == ("RTE", "accuracy", "validation-last-90%", 1)
    assert 0 <= row["value"] <= 100


def test_known_rows_are_not_trained_again(tiny_bert, tmp_path, monkeypatch, capsys):
    write_rte(tmp_path)
    scores = tmp_path / "scores.jsonl"
    given = ["evaluate", "--model", str(tiny_bert), "--tasks", "RTE", "--data", str(tmp_path), "--output", str(scores)]
    assert main(given) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr("selfguide.evaluation.glue.fine_tune", None)
    assert main(given) == 0
    assert capsys.readouterr().out == first
    assert main([*given, "--recompute"]) == 1


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_how_far_a_training_is(tiny_bert, tmp_path, monkeypatch, is_terminal):
    write_rte(tmp_path)
    screen = io.StringIO()
    screen.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["evaluate", "--model", str(tiny_bert), "--tasks", "RTE", "--data", str(tmp_path)]) == 0
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen.getvalue())  # without colours
    shown = re.search(r"fine-tuning on RTE .* 3/3 steps", plain)  # three epochs of one step
    assert (shown is not None) == is_terminal, plain


def test_no_data_at_all_is_wrong_use(tiny_bert, tmp_path, capsys):
    assert main(["evaluate", "--model", str(tiny_bert), "--tasks", "CoLA", "--data", str(tmp_path)]) == 2
    assert "CoLA" in capsys.readouterr().err.splitlines()[-1]


def test_an_unknown_task_is_refused_with_a_hint(tiny_bert, tmp_path, capsys):
    assert main(["evaluate", "--model", str(tiny_bert), "--tasks", "glue-MRCP", "--data", str(tmp_path)]) == 2
    assert "glue-MRPC" in capsys.readouterr().err.splitlines()[-1]
