"""``selfguide fit``, what it saves, and embedders that learn in ``evaluate`` and ``compare``."""

from importlib.resources import files

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from selfguide.cli.main import main
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.errors import InputError
from tiny_models import MANY, SENTENCES
from tiny_runs import tree
from tiny_sts import use_tiny_sts


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A working folder with sentences, and tiny data sets in ``data``."""
    monkeypatch.chdir(tmp_path)
    use_tiny_sts(monkeypatch, tmp_path / "data")
    (tmp_path / "text.txt").write_text("".join(f"{sentence}\n" for sentence in (*MANY, MANY[0])))
    return tmp_path


@pytest.fixture
def run(place, capfd):
    """Runs a command; gives stdout and stderr."""

    def command(*arguments, code=0):
        assert main([*map(str, arguments), "--device", "cpu"]) == code, capfd.readouterr().err
        return capfd.readouterr()

    return command


def test_whitening_of_the_bundled_encoder_on_bundled_sentences(run, place):
    sentences = (files("selfguide") / "bundled" / "sentences.txt").read_text("utf-8").splitlines()[:120]
    (place / "bundled.txt").write_text("\n".join(sentences))
    flags = ("--pooling", "mean", "--dimensions", "64")
    output = run("fit", "--model", "mini", "--data", "bundled.txt", "-o", "white", "--embedder", "whitening", *flags)
    assert output.out == "mini/whitening: white\n"
    assert output.err.splitlines()[0] == "120 sentences kept of 120 read"
    table = run("evaluate", "--model", "white", "--data", "data", "--tasks", "STS-B").out
    assert table.splitlines()[2].startswith("mini/whitening")
    assert SentenceTransformer("white", device="cpu").encode(["A cat."]).shape == (1, 64)


@pytest.mark.parametrize(("embedder", "flags"), [("whitening", ["--dimensions", "20"]), ("flow", ["--batch-size", "8"])])
def test_fitted_beforehand_or_while_evaluating(run, tiny_bert, embedder, flags):
    given = ("--embedder", embedder, "--max-length", "40")
    output = run("fit", "--model", tiny_bert, "--data", "text.txt", "-o", "fitted", *given, *flags)
    assert f"{len(MANY)} sentences kept of {len(MANY) + 1} read (1 duplicate dropped)" in output.err
    saved = run("evaluate", "--model", "fitted", "--data", "data")
    if embedder == "whitening":  # of the flow, evaluate takes the batch size of the paper
        direct = run("evaluate", "--model", tiny_bert, "--data", "data", "--fit-on", "text.txt", *given, *flags)
        assert direct.out == saved.out
    assert saved.out.splitlines()[2].startswith(f"{tiny_bert.name}/{embedder}")


def test_evaluate_with_a_prompt(run, tiny_bert):
    plain, other = (
        run("evaluate", "--model", tiny_bert, "--embedder", "prompt", "--data", "data", "--tasks", "STS-B", *template).out
        for template in ((), ("--template", "the {sentence} near {mask}"))
    )
    assert plain.splitlines()[2].startswith(f"{tiny_bert.name}/prompt")
    assert plain != other


def test_overwrite(run, tiny_bert, place):
    given = ("fit", "--model", tiny_bert, "--data", "text.txt", "-o", "fitted")
    run(*given)
    before = tree(place / "fitted")
    assert (
        "the output 'fitted' holds an embedder already; choose another folder, or --overwrite it" in run(*given, code=2).err
    )
    assert tree(place / "fitted") == before
    run(*given, "--overwrite", "--dimensions", "3")
    assert selfguide.load("fitted", device="cpu").dimensions == 3


def test_in_python(place, tiny_bert):
    embedder = selfguide.fit(tiny_bert, "text.txt", "fitted", embedder="whitening", dimensions=7, device="cpu")
    assert isinstance(embedder, WhiteningEmbedder)
    np.testing.assert_array_equal(selfguide.load("fitted", device="cpu").encode(SENTENCES), embedder.encode(SENTENCES))
    with pytest.raises(InputError, match=r"unknown setting 'dimension' \(did you mean 'dimensions'\?\)"):
        selfguide.fit(tiny_bert, "text.txt", "other", dimension=7)


WRONG = [
    ([], ["no sentences were given; name a file with --data F", "no output folder was given; name one with --output DIR"]),
    (["--data", "missing.txt", "-o", "out"], ["'missing.txt': no such file or folder"]),
    (
        ["--data", "text.txt", "-o", "data"],
        ["the output 'data' exists already and is no saved embedder, so it is left alone"],
    ),
    (["--data", "text.txt", "-o", "text.txt"], ["the output 'text.txt' exists already"]),
    (["--data", "text.txt", "-o", "text.txt/out"], ["the output 'text.txt/out' cannot be written: "]),
    (["--embedder", "whitning"], ["--embedder 'whitning' is not known; choose one of: flow, whitening, pca"]),
    (["--embedder", "cls"], ["--embedder 'cls' is not known; choose one of: flow, whitening, pca"]),
    (["--dimensions", "many"], ["--dimensions is 'many'; it takes a whole number"]),
    (["--data", "text.txt", "-o", "out", "--dimensions", "33"], ["--dimensions is 33; ", "has 32: give 1 to 32"]),
    (
        ["--data", "text.txt", "-o", "out", "--embedder", "flow", "--dimensions", "3"],
        ["--dimensions does not go with --embedder flow, which takes: --pooling,"],
    ),
    (
        ["--data", "text.txt", "-o", "out", "--epochs", "3"],
        ["--epochs does not go with --embedder whitening, which takes: --pooling, --dimensions"],
    ),
    (["--data", "few.txt", "-o", "out"], ["2 sentences were given to whiten 32 dimensions", "give more than 32"]),
    (["--data", "few.txt", "-o", "out", "--embedder", "flow"], ["2 sentences were given", "32"]),
    (["--data", "text.txt", "-o", "out", "--pooling", "avg"], ["pooling 'avg' is not known"]),
    (["--data", "text.txt", "-o", "out", "--pooling", "mean"], ["vary in 31 of 32 directions", "--dimensions 31"]),
]


@pytest.mark.parametrize(("arguments", "facts"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_input(run, place, tiny_bert, arguments, facts):
    (place / "few.txt").write_text("the cat\na dog\n")
    before = tree(place)
    output = run("fit", "--model", tiny_bert, *arguments, code=2)
    assert output.out == ""
    line = output.err.splitlines()[-1]
    assert line.startswith("selfguide: ") and all(fact in line for fact in facts), line
    assert tree(place) == before


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--embedder", "cls", "--fit-on", "text.txt"], "--fit-on does not go with 'cls', which learns nothing"),
        (["--fit-on", "text.txt"], "--fit-on does not go with 'cls'"),
        (["--embedder", "flow"], "learns from text: give sentences with --fit-on F, or fit it once with 'selfguide fit'"),
        (["--embedder", "whitening"], "learns from text: give sentences with --fit-on F"),
        (["--embedder", "wk", "--pooling", "mean"], "--pooling does not go with --embedder wk"),
        (["--embedder", "mean", "--dimensions", "3"], "--dimensions does not go with 'mean'; it is for --embedder wk, flow"),
        (["--embedder", "prompt", "--template", "{sentence}"], "holds no {mask}"),
        (["--embedder", "whitening", "--layer", "2"], "layer 2 was asked for, but 'whitening' has no layer to choose"),
    ],
    ids=str,
)
def test_wrong_input_of_evaluate(run, tiny_bert, arguments, fact):
    output = run("evaluate", "--model", tiny_bert, "--data", "data", *arguments, code=2)
    assert output.out == ""
    assert fact in output.err.splitlines()[-1]


# Comparing


def test_compare_fits_those_that_learn(run, tiny_folder):
    model = tiny_folder("bert")
    models = [f"{model}:{embedder}" for embedder in ("whitening", "flow", "prompt", "cls")]
    given = ("--data", "data", "--tasks", "STS-B", "--draws", "20")
    output = run("compare", *models, "--fit-on", "text.txt", *given)
    labels = [line.split()[0] for line in output.out.splitlines()[2:6]]
    assert labels == [f"{model.name}/{embedder}" for embedder in ("whitening", "flow", "prompt", "cls")]
    assert f"{model.name}/whitening - {model.name}/cls" in output.out


def test_compare_without_draws(run, tiny_bert):
    models = (f"{tiny_bert}:mean", f"{tiny_bert}:max")
    output = run("compare", *models, "--data", "data", "--draws", "0", code=2)
    assert output.err == "selfguide: --draws is 0; it must be 1 or more\n"


def test_a_model_that_cannot_be_loaded_does_not_stop_the_others(run, tiny_bert):
    models = (f"{tiny_bert}:mean", "no/such-model", f"{tiny_bert}:avg", f"{tiny_bert}:max")
    output = run("compare", *models, "--data", "data", "--tasks", "STS-B", "--draws", "20", code=1)
    assert [line.split()[0].rpartition("/")[2] for line in output.out.splitlines()[2:4]] == ["mean", "max"]
    assert "/mean - " in output.out
    assert "\nno/such-model: not run: the model 'no/such-model' is not a local folder" in output.out
    assert f"\n{tiny_bert}:avg: not run: embedder 'avg' is not known" in output.out
    last = output.err.splitlines()[-1]
    assert last.startswith("selfguide: done in part; not scored: no/such-model: the model 'no/such-model' is not a local")


def test_no_model_that_can_be_loaded(run, tiny_bert):
    output = run("compare", "no/such-model", f"{tiny_bert}:avg", "--data", "data", "--tasks", "STS-B", code=2)
    assert output.out == ""
    assert "none of the models can be scored: the model 'no/such-model'" in output.err.splitlines()[-1]


def test_text_that_none_of_the_models_learns_from(run, tiny_bert):
    output = run("compare", tiny_bert, f"{tiny_bert}:mean", "--fit-on", "text.txt", "--data", "data", code=2)
    assert "--fit-on was given, but none of the models learns from text; give MODEL:flow or MODEL:whitening" in output.err
