"""The spec files against the paper's own figures, and what a wrong spec is told."""

import json

import pytest

from selfguide.errors import InputError
from selfguide.experiments.specs import SEEDS, encoders, methods, parse_spec, read_spec, spec_names, texts
from selfguide.training.config import resolve

NAMES = [f"table{n}" for n in (1, 2, 3, 4, 5, 6, 7, 10, 11)] + [f"figure{n}" for n in (1, 4, 5, 6)] + ["extra"]

METHODS = {
    "No tuning": {"CLS": "cls", "Mean": "mean", "WK": "wk", None: "cls"},
    "CLS": "cls",
    "Mean": "mean",
    "Mean pooling": "mean",
    "WK": "wk",
    "WK pooling": "wk",
    "Flow": "flow",
    "GloVe": "glove",
    "USE": "use",
    "Contrastive (BT)": "bt",
    "Contrastive (SG)": "sg",
    "Contrastive (SG-OPT)": "sg-opt",
    "Contrastive (BT + SG-OPT)": "bt+sg-opt",
    "SG-OPT": {"table4": "sg-opt-senteval", "table10": "sg-opt"},
    "SG-OPT (Lopt3)": "sg-opt",
    "BERT-base + SG-OPT (tau=0.01, lambda=0.1)": "sg-opt",
    "Lopt2": "opt2",
    "Lopt1": "opt1",
    "SG (Lbase)": "sg",
    "tau=0.1": "tau=0.1",
    "tau=0.001": "tau=0.001",
    "lambda=0.0": "lambda=0",
    "lambda=1.0": "lambda=1",
    "- Projection head (f)": "no-projection",
}
"""The paper's words -> ours; where they are used in two ways, by pooling or by table."""

COLUMNS = {
    "Avg.": "Avg",
    "STS Avg.": "Avg",
    "Spanish": "SemEval2014-es",
    "Arabic (track 1)": "SemEval2017-ar-ar",
    "Spanish (track 3)": "SemEval2017-es-es",
    "English (track 5)": "SemEval2017-en-en",
    "Training (sec.)": "training",
    "Inference (sec.)": "inference",
}
COLUMNS_OF_GLUE = {"SST2": "SST-2", "COLA": "CoLA"}


def our_name(figure):
    name = METHODS.get(figure["method"], figure["method"])
    return name if isinstance(name, str) else name.get(figure["pooling"]) or name[figure["table"]]


def our_column(figure):
    of_glue = COLUMNS_OF_GLUE if figure["table"] == "table10" else {}
    return of_glue.get(figure["column"]) or COLUMNS.get(figure["column"], figure["column"])


def test_every_table_and_figure_has_a_spec():
    assert spec_names() == NAMES


def test_every_figure_of_the_paper_is_in_its_spec(shared):
    figures = json.loads((shared / "paper" / "results.json").read_text())["rows"]
    theirs = {
        (figure["table"], figure["encoder"] or "", our_name(figure), our_column(figure)): (figure["value"], figure["std"])
        for figure in figures
    }
    ours = {
        (name, row.encoder, row.method, column): (printed.value, printed.spread)
        for name in NAMES
        for row in read_spec(name).rows
        for column, printed in row.paper.items()
    }
    assert len(theirs) > 300
    assert ours == theirs


def test_the_published_systems_are_quoted():
    quoted = [row.label for name in NAMES for row in read_spec(name).rows if row.is_quoted]
    assert quoted == ["UMCC-DLSI-run2 (Rank #1)", "Cosine baseline", "ENCU (Rank #1)"]


@pytest.mark.parametrize("name", [name for name, method in methods().items() if method.train is not None])
def test_every_training_is_one_that_train_takes(name):
    method = methods()[name]
    given = {"preset": "paper", "output": "x", **method.train}
    given["paraphrases" if method.text.startswith("back-translation") and "bt" in name else "data"] = "x"
    given["data"] = (given["data"],) if "data" in given else ()
    assert resolve(given).seed == 1


def test_presets_are_tables_8_and_9(shared):
    printed = json.loads((shared / "paper" / "results.json").read_text())["hyperparameters"]["table8"]
    paper = resolve({"preset": "paper"})
    assert tuple(int(seed) for seed in printed["Random seed"].split(",")) == SEEDS
    assert (paper.score_every, paper.batch_size) == (int(printed["Evaluation step"]), int(printed["Batch size"]))
    assert printed["Optimizer"] == f"AdamW (beta1, beta2 = {paper.beta1}, {paper.beta2})"
    assert paper.learning_rate == float(printed["Learning rate"])
    assert paper.patience == int(printed["Early stopping endurance"])
    assert (paper.temperature, paper.distance_weight) == (float(printed["tau"]), float(printed["lambda"]))


def test_senteval_is_table_9(shared):
    from selfguide.evaluation.classifiers import Recipe
    from selfguide.evaluation.senteval import FOLDS

    printed = json.loads((shared / "paper" / "results.json").read_text())["hyperparameters"]["table9"]
    recipe = Recipe()
    assert (recipe.hidden, recipe.batch) == (int(printed["Classifier (hidden dimension)"]), int(printed["Batch size"]))
    assert (recipe.tenacity, recipe.epoch_size) == (int(printed["Tenacity"]), int(printed["Epoch"]))
    assert int(printed["K-fold"]) == FOLDS
    assert printed["Optimizer"] == "Adam"


def test_figures_that_carry_verdicts_have_the_paper_s_seeds():
    seeds = {(row.encoder, row.method): row.seeds for row in read_spec("table1").rows}
    for method in ("sg", "sg-opt", "prompted"):
        assert seeds["BERT-base", method] == SEEDS
    assert seeds["BERT-base", "cls"] == ()
    assert seeds["BERT-base", "flow"] == SEEDS[:3]
    assert {row.method: len(row.seeds) for row in read_spec("table4").rows}["mean"] == 3


def test_shared_files_are_used():
    used = {row.method for name in NAMES for row in read_spec(name).rows}
    assert set(methods()) == used - {"UMCC-DLSI-run2 (Rank #1)", "Cosine baseline", "ENCU (Rank #1)"}
    assert {row.encoder for name in NAMES for row in read_spec(name).rows} - {""} == set(encoders())
    assert {method.text for method in methods().values()} - {None} == set(texts())


SMALL = {
    "title": "A table",
    "measure": "sts",
    "columns": ["STS-B"],
    "metric": "spearman",
    "note": "",
    "rows": {"BERT-base": ["sg-opt"]},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": {"BERT-base": ["sg-op"]}}, "did you mean 'sg-opt'"),
        ({"rows": {"BERT-bas": ["sg-opt"]}}, "did you mean 'BERT-base'"),
        ({"measure": "st"}, "measure is one of"),
        ({"columns": ["STS-B", "Avg"], "paper": {"BERT-base": {"sg-opt": [1.0]}}}, "1 figures for 2 columns"),
        ({"paper": {"BERT-base": {"sg": [1.0]}}}, "without a row: BERT-base/sg"),
        ({"seeds": {"sg": 3}}, "without a row: sg"),
        ({"colums": []}, "not known: ['colums']"),
    ],
)
def test_a_wrong_spec(change, words):
    with pytest.raises(InputError) as caught:
        parse_spec("small", {**SMALL, **change})
    assert words in str(caught.value)


def test_a_name_that_is_not_there():
    with pytest.raises(InputError, match="did you mean 'table1'"):
        read_spec("tabel1")
