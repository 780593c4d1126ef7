"""``selfguide evaluate``: the table on stdout, everything else on stderr, exit codes."""

import json
import subprocess
import sys

import pytest

from selfguide.cli.main import main
from selfguide.scores import read_scores
from tiny_sts import use_tiny_sts


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A working folder with tiny data sets in ``data``."""
    monkeypatch.chdir(tmp_path)
    use_tiny_sts(monkeypatch, tmp_path / "data")
    return tmp_path


@pytest.fixture
def evaluate(place, tiny_bert, capfd):
    """Runs the command on a tiny encoder; gives stdout and stderr."""

    def run(*arguments, code=0, data="data"):
        given = ["evaluate", "--model", str(tiny_bert), "--device", "cpu", *(["--data", data] if data else []), *arguments]
        assert main(given) == code
        return capfd.readouterr()

    return run


def test_the_table_of_the_seven_sets(evaluate, tiny_bert, place):
    output = evaluate("-o", "scores.jsonl")
    title, header, line, note = output.out.splitlines()
    assert title == "STS: cosine, Spearman x100"
    assert header.split() == ["embedder", "STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16", "Avg"]
    rows = [row for row in read_scores(place / "scores.jsonl") if row.metric == "spearman"]
    assert line.split() == [f"{tiny_bert.name}/cls", *(f"{row.value:.2f}" for row in rows)]
    assert note == "aggregation all; split test; text raw; max length 48"
    assert "7 tasks in" in output.err


def test_vectors_as_they_are_stored(evaluate, tiny_bert):
    output = evaluate("--vectors", "binary", "--truncate-dim", "24").out.splitlines()
    name = f"{tiny_bert.name}/cls (first 24, binary)"
    assert output[2].startswith(name)
    assert output[4] == f"{name}: by Hamming distance"


def test_choices(evaluate):
    protocol = ("--tasks", "STS12,SICK-R", "sts-multilingual", "--aggregation", "wmean", "--sick", "all")
    output = evaluate(*protocol, "--embedder", "mean", "--layer", "2", "--name", "mine")
    assert "aggregation wmean; split all (SICK-R), test (STS12)" in output.out
    assert "Multilingual STS: cosine, Pearson x100" in output.out
    assert "mine" in output.out


@pytest.mark.parametrize(
    ("format", "first"),
    [("markdown", "**STS: cosine, Pearson x100**"), ("csv", "embedder,STS-B"), ("latex", "% STS: cosine, Pearson x100")],
)
def test_formats(evaluate, format, first):
    assert evaluate("--tasks", "STS-B", "--pearson", "--format", format).out.splitlines()[0] == first


def test_the_sweep(evaluate):
    lines = evaluate("--sweep").out.splitlines()
    assert lines[0] == "STS-B: cosine, Spearman x100 of every layer (0: embeddings)"
    assert lines[1].split() == ["layer", "0", "1", "2", "3", "4"]
    assert {line.split()[0] for line in lines[2:5]} == {"cls", "mean", "max"}
    assert next(line for line in lines if line.startswith("cls")).split()[1] == "-"


def test_analyses(evaluate):
    output = evaluate("--tasks", "STS-B", "--analyses").out
    assert "alignment  uniformity  mean cosine  partition isotropy" in output


def test_pairs_of_ones_own(evaluate, place):
    (place / "mine.jsonl").write_text(
        "".join(
            json.dumps({"score": score, "sentence1": first, "sentence2": second}) + "\n"
            for score, first, second in ((1, "the cat", "a dog"), (2, "a man", "a woman"), (3, "the tree", "tree"))
        )
    )
    output = evaluate("--pairs", "mine.jsonl", data=None).out.splitlines()
    assert output[1].split() == ["embedder", "mine.jsonl", "spearman", "mine.jsonl", "pearson"]


def test_known_rows_are_taken_from_the_file(evaluate, place, monkeypatch):
    first = evaluate("-o", "scores.jsonl", "--tasks", "STS-B").out
    monkeypatch.setattr("selfguide.embedders.pooled.PooledEmbedder.encode", None)
    assert evaluate("-o", "scores.jsonl", "--tasks", "STS-B").out == first
    evaluate("-o", "scores.jsonl", "--tasks", "STS-B", "--recompute", code=1)


def test_a_missing_set_is_marked_and_the_others_are_scored(evaluate, place):
    (place / "data" / "sts" / "STS13" / "OnWN.tsv").unlink()
    output = evaluate(code=1)
    _, header, line, _ = output.out.splitlines()
    assert dict(zip(header.split(), line.split(), strict=True))["STS13"] == "missing"
    assert "Avg" not in header
    assert output.err.splitlines()[-1] == (
        "selfguide: done in part; not scored: STS13: no such file; looked for data/sts/STS13/OnWN.tsv"
    )


def test_a_missing_set_of_the_analyses(evaluate, place):
    (place / "data" / "sts" / "STS-B" / "test.tsv").unlink()
    output = evaluate("--tasks", "STS12", "--analyses", code=1)
    assert "STS12" in output.out
    assert "not scored: STS-B: no such file" in output.err


@pytest.mark.parametrize(
    ("arguments", "data", "words"),
    [
        ((), "nowhere", "the data folder 'nowhere' does not exist"),
        ((), ".", "none of the data sets is there: STS-B: no such folder; looked for sts/STS-B and STS-B;"),
        (("--tasks", "STS99"), "data", "task 'STS99'"),
        (("--embedder", "avg"), "data", "embedder 'avg' is not known; choose one of: cls, mean, max"),
        (("--layer", "9"), "data", "layer 9 was asked for; this encoder has layers 0 (embeddings) to 4"),
        (("--text", "x", "--sick", "y"), "data", "--text 'x' is not known; choose one of: raw, senteval; --sick 'y'"),
        (("--format", "html"), "data", "invalid choice: 'html'"),
        (("-o", "data"), "data", "the score file 'data' cannot be read"),
        (("--text", "raw", "--tasks", "STS12"), None, "STS12 on the hub (mteb/sts12-sts) is of the text 'senteval'"),
        (("--tasks", "STS-B"), None, "STS-B: could not be had from the hub"),
        (("--tasks", "SemEval2014-es"), None, "SemEval2014-es: the hub has no copy of it that we know"),
    ],
)
def test_wrong_input(evaluate, arguments, data, words):
    output = evaluate(*arguments, data=data, code=2)
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("selfguide: ")
    assert words in line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("6\tA cat.\tA dog.", "data/sts/STS-B/test.tsv:7: score 6 is out of range; scores here are from 0 to 5"),
        ("3\t\tA dog.", "data/sts/STS-B/test.tsv:7: sentence1 is empty"),
        ("3\tA cat.\tA dog.", "data/sts/STS-B/test.tsv: 7 pairs are there where 6 are expected"),
    ],
)
def test_broken_data(evaluate, place, line, words):
    with (place / "data" / "sts" / "STS-B" / "test.tsv").open("a") as file:
        file.write(line + "\n")
    output = evaluate(code=2)
    assert words in output.err
    assert output.out == ""


def test_vectors_that_have_no_score(evaluate, monkeypatch):
    import numpy as np

    for value, words in ((1.0, "its vectors are constant"), (np.nan, "values that are not finite for: ")):
        monkeypatch.setattr(
            "selfguide.embedders.pooled.PooledEmbedder.encode",
            lambda self, sentences, value=value: np.full((len(sentences), 4), value, np.float32),
        )
        output = evaluate("--tasks", "STS-B", code=2)
        assert words in output.err
        assert output.out == ""


def test_cls_of_the_embeddings_is_named(evaluate):
    assert "its vectors are constant, and no correlation is defined" in evaluate("--layer", "0", code=2).err


def test_help_does_not_wait_for_torch():
    code = "import sys; from selfguide.cli.main import build_parser; build_parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
