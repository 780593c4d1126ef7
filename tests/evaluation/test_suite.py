import dataclasses
import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.evaluation import families
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import AVERAGE, FAMILIES, Family, PlannedTask, choose_datasets
from selfguide.evaluation.score_file import ScoreFile
from selfguide.evaluation.suite import plan_tasks, run_suite
from selfguide.evaluation.task import Score
from selfguide.scores import read_scores
from tiny_sts import BagOfWords

SEVEN = ["STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16"]
FIELDS = ["embedder", "dataset", "revision", "split", "metric", "value", "seed", "run_id", "protocol"]


@pytest.fixture
def evaluate(tiny_sts):
    """Scores an embedder that counts; gives the rows."""

    def run(embedder=None, **settings):
        config = EvaluationConfig(**{"data": str(tiny_sts), **settings})
        return run_suite(embedder or BagOfWords(), plan_tasks(config)[0], config)

    return run


def test_all_of_sts_in_the_order_of_the_paper_with_the_average(evaluate):
    rows = evaluate()
    values = {row.dataset: row.value for row in rows if row.metric == "spearman"}
    assert list(values) == [*SEVEN, AVERAGE]
    assert values[AVERAGE] == pytest.approx(np.mean([values[name] for name in SEVEN]))
    assert [row.dataset for row in rows if row.metric == "pearson"] == [*SEVEN, AVERAGE]


def test_no_average_over_a_part(evaluate):
    assert [row.dataset for row in evaluate(tasks=("STS16,STS-B",)) if row.metric == "spearman"] == ["STS-B", "STS16"]


def test_rows_are_as_the_product_has_them(evaluate, tmp_path):
    output = tmp_path / "new" / "scores.jsonl"
    rows = evaluate(tasks=("STS12",), aggregation="wmean", output=str(output))
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [list(line) for line in lines] == [FIELDS] * 2
    assert read_scores(output) == rows
    row = lines[0]
    assert (row["embedder"], row["dataset"], row["split"], row["metric"]) == ("bag", "STS12", "test", "spearman")
    assert (len(row["revision"]), row["seed"], len(row["run_id"])) == (64, None, 12)
    versions = row["protocol"].pop("versions")
    assert {"selfguide", "torch", "transformers", "numpy", "scipy"} <= set(versions)
    assert row["protocol"] == {
        "similarity": "cosine",
        "aggregation": "wmean",
        "text": "raw",
        "source": "files",
        "pairs": 30,
        "selected_by_labels": False,
        "pooling": "sum",
        "max_length": None,
        "weights": "0",
    }


def test_each_distinct_sentence_of_a_suite_is_embedded_once(evaluate, tiny_sts):
    embedder = BagOfWords()
    evaluate(embedder, tasks=("sts", "sts-multilingual"), sick="all", analyses=True)
    files = [*tiny_sts.glob("sts/*/*.tsv"), *tiny_sts.glob("sts-multilingual/*/*.tsv")]
    sentences = {text for file in files for line in file.read_text().splitlines() for text in line.split("\t")[1:]}
    assert set(embedder.seen) == sentences
    assert set(embedder.seen.values()) == {1}


def test_multilingual_sts_weighs_the_parts_by_their_pairs_whatever_is_asked_for_the_others(evaluate):
    rows = evaluate(tasks=("sts-multilingual",), aggregation="mean", text="senteval")
    assert [row.dataset for row in rows if row.metric == "pearson"] == [
        "SemEval2014-es",
        "SemEval2017-ar-ar",
        "SemEval2017-es-es",
        "SemEval2017-en-en",
    ]
    assert {(row.protocol["aggregation"], row.protocol["text"]) for row in rows} == {("wmean", "raw")}


def test_choices_reach_the_numbers(evaluate):
    def score(**settings):
        (row, _) = evaluate(**settings)
        return row

    assert len({score(tasks=("STS12",), aggregation=way).value for way in ("all", "mean")}) == 2
    sick = [score(tasks=("SICK-R",), sick=split) for split in ("test", "all")]
    assert [row.split for row in sick] == ["test", "all"]
    assert [row.protocol["pairs"] for row in sick] == [6, 18]
    texts = [score(tasks=("STS-B",), text=text) for text in ("raw", "senteval")]
    assert [row.protocol["text"] for row in texts] == ["raw", "senteval"]
    assert len({row.run_id for row in texts}) == len({row.revision for row in texts}) == 2


def test_private_pairs(evaluate, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("1\tthe cat\ta dog\n2\tthe man\ta man\n9\tthe tree\tthe tree\n")
    rows = evaluate(pairs=(str(path),))
    assert [(row.dataset, row.split) for row in rows] == [("mine.tsv", "all")] * 2
    assert [row.metric for row in rows] == ["spearman", "pearson"]
    assert rows[0].protocol["text"] == "as given"


def test_geometry_rows(evaluate):
    rows = evaluate(tasks=("STS16",), analyses=True)
    assert [row.metric for row in rows if row.dataset == "STS-B"] == [
        "alignment",
        "uniformity",
        "mean_cosine",
        "partition_isotropy",
    ]


def test_known_rows_are_not_computed_again(evaluate, tmp_path):
    output, first = str(tmp_path / "scores.jsonl"), BagOfWords()
    rows = evaluate(first, tasks=("STS-B", "STS12"), output=output)
    again = BagOfWords()
    assert evaluate(again, tasks=("STS-B", "STS12"), output=output) == rows
    assert not again.seen
    evaluate(again, tasks=("STS-B", "STS16"), output=output)
    assert again.seen
    assert not set(again.seen) & set(first.seen)
    assert len(read_scores(tmp_path / "scores.jsonl")) == 6


@pytest.mark.parametrize(
    ("embedder", "settings"),
    [
        (BagOfWords(), {"recompute": True}),
        (BagOfWords(), {"aggregation": "mean"}),
        (BagOfWords(), {"text": "senteval"}),
        (BagOfWords(protocol={"weights": "1"}), {}),
        (BagOfWords(name="other"), {}),
    ],
)
def test_what_may_have_changed_is_computed_again(evaluate, tmp_path, embedder, settings):
    output = str(tmp_path / "scores.jsonl")
    evaluate(tasks=("STS12",), output=output)
    embedder.seen.clear()
    evaluate(embedder, tasks=("STS12",), output=output, **settings)
    assert embedder.seen
    expected = 2 if settings.get("recompute") else 4
    assert len(read_scores(tmp_path / "scores.jsonl")) == expected


def test_without_a_hash_of_its_weights_an_embedder_is_always_computed(evaluate, tmp_path):
    output = str(tmp_path / "scores.jsonl")
    embedder = BagOfWords(protocol={})
    evaluate(embedder, tasks=("STS-B",), output=output)
    evaluate(embedder, tasks=("STS-B",), output=output)
    assert set(embedder.seen.values()) == {2}


def test_the_seed_of_training_goes_into_the_rows(evaluate):
    rows = evaluate(BagOfWords(protocol={"training_seed": 3, "selected_by_labels": True}))
    assert {row.seed for row in rows} == {3}
    assert all(row.protocol["selected_by_labels"] is True for row in rows)


def test_what_another_run_wrote_meanwhile_stays(evaluate, tmp_path):
    """Two runs read the file when there is nothing; both write."""
    output = tmp_path / "new" / "scores.jsonl"
    first, second = ScoreFile(output), ScoreFile(output)
    one, other = evaluate(tasks=("STS-B",)), evaluate(BagOfWords(name="other"), tasks=("STS-B",))
    first.add(one)
    second.add(other)
    assert read_scores(output) == [*one, *other] and list(output.parent.iterdir()) == [output]


def test_pairs_of_one_file_name_are_two_data_sets(tmp_path):
    for language in ("en", "de"):
        (tmp_path / language).mkdir()
        (tmp_path / language / "dev.tsv").write_text("1\ta cat\ta dog\n0\tsea\tsky\n")
    paths = [str(tmp_path / language / "dev.tsv") for language in ("en", "de")]
    assert [task.task.name for task in plan_tasks(EvaluationConfig(pairs=tuple(paths)))[0]] == paths
    assert [task.task.name for task in plan_tasks(EvaluationConfig(pairs=(paths[0],)))[0]] == ["dev.tsv"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"embedder": "whitening", "fit_on": "text.txt"},
            "embedder, fit_on cannot be set for a model that is loaded",
        ),
        ({"max_length": 9}, "max_length cannot be set"),
        ({"tasks": "RTE"}, "RTE fine-tunes an encoder, which is given as a folder or a name"),
    ],
    ids=str,
)
def test_what_means_nothing_for_a_loaded_model_is_refused(settings, told):
    with pytest.raises(InputError, match=told):
        selfguide.evaluate(BagOfWords(), **settings)


def test_what_is_no_model_is_refused():
    with pytest.raises(InputError, match="a list cannot be scored: it has no name, protocol, encode"):
        selfguide.evaluate([1, 2])


def test_paths_are_taken_as_paths(tiny_sts, tmp_path):
    rows = selfguide.evaluate(BagOfWords(), tasks="STS-B", data=tiny_sts, output=tmp_path / "rows.jsonl")
    assert read_scores(tmp_path / "rows.jsonl") == rows


def test_a_sweep_does_not_fine_tune(tiny_bert):
    with pytest.raises(InputError, match="a sweep is for STS; RTE would fine-tune every layer"):
        selfguide.evaluate(tiny_bert, tasks="RTE", sweep=True)


def test_a_missing_set_does_not_stop_the_others(tiny_sts):
    (tiny_sts / "sts" / "STS13" / "FNWN.tsv").unlink()
    planned, missing = plan_tasks(EvaluationConfig(data=str(tiny_sts)))
    assert [task.task.name for task in planned] == [name for name in SEVEN if name != "STS13"]
    assert list(missing) == ["STS13"]
    assert missing["STS13"].endswith("sts/STS13/FNWN.tsv")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "nowhere"}, "the data folder 'nowhere' does not exist"),
        ({"data": "."}, r"none of the data sets is there: STS-B: no such folder; looked for sts/STS-B and STS-B; SICK-R: "),
        ({"tasks": ("STSB",)}, r"task 'STSB' \(did you mean 'STS-B'\?\) is not known; choose from: sts, STS-B, SICK-R"),
        ({"pairs": ("none.tsv",)}, "none.tsv: no such file"),
        ({"tasks": ("MR",)}, r"MR: SentEval's data sets are read from a data folder only \(--data\)"),
    ],
)
def test_wrong_input(tmp_path, monkeypatch, settings, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words):
        plan_tasks(EvaluationConfig(**settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"text": "tokenised"}, "--text 'tokenised' is not known; choose one of: raw, senteval"),
        ({"aggregation": "sum"}, "--aggregation 'sum' is not known"),
        ({"layer": "x"}, "--layer is 'x'; it takes a whole number"),
        ({"sweep": True, "layer": 3}, "--sweep goes through all layers and poolings"),
        ({"sweep": True, "analyses": True}, "--sweep and --analyses do not go together"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(InputError, match=words):
        EvaluationConfig(**settings)


def test_subsets_that_the_source_does_not_tell_apart(tiny_sts, monkeypatch):
    read = families.read_sts

    def from_hub(record, data, *, text=None):
        found = read(record, tiny_sts, text=text)
        return dataclasses.replace(found, subsets=(tuple(found.pairs),), source="mteb/some")

    monkeypatch.setattr(families, "read_sts", from_hub)
    assert plan_tasks(EvaluationConfig(tasks=("STS12",)))[0]
    assert plan_tasks(EvaluationConfig(tasks=("STS-B",), aggregation="mean"))[0]
    with pytest.raises(InputError, match="aggregation 'mean' needs the subsets of STS12, which mteb/some does not tell"):
        plan_tasks(EvaluationConfig(tasks=("STS-B", "STS12"), aggregation="mean"))


def test_constant_vectors_are_named_not_scored(evaluate):
    class Constant(BagOfWords):
        def encode(self, sentences):
            return np.ones((len(sentences), 4), np.float32)

    with pytest.raises(InputError, match=r"'bag' gives the same cosine \(1.000000\) for all 6 pairs of STS-B"):
        evaluate(Constant())


def test_tasks_of_a_new_family(evaluate, monkeypatch):
    class Drawn:
        name, revision = "DRAWN", "r"

        def sentences(self):
            return ["the cat"]

        def score(self, vectors, *, seed):
            return [Score("DRAWN", "test", "accuracy", 100.0 * seed, "r", {"hidden": 50})]

    family = Family(
        "drawn", ("DRAWN",), lambda name, config: PlannedTask(Drawn(), ("accuracy",), is_seeded=True), averaged=("accuracy",)
    )
    for module in ("families", "score_keeper"):
        monkeypatch.setattr(f"selfguide.evaluation.{module}.FAMILIES", (*FAMILIES, family))
    rows = evaluate(tasks=("drawn",), seed=5)
    assert [(row.dataset, row.value, row.seed) for row in rows] == [("DRAWN", 500.0, 5), ("Avg", 500.0, 5)]
    assert rows[0].protocol["evaluation_seed"] == 5


def test_data_sets_come_once_and_in_order():
    chosen = choose_datasets(["STS12", "sts-multilingual", "STS-B", "STS12"])
    assert [name for _, name in chosen][:2] == ["STS-B", "STS12"]
    assert len(chosen) == 6


def test_from_python_by_name(tiny_sts, tiny_bert, caplog):
    rows = selfguide.evaluate(tiny_bert, tasks="STS-B", embedder="mean", data=str(tiny_sts), device="cpu", progress=False)
    assert [row.embedder for row in rows] == [f"{tiny_bert.name}/mean"] * 2
    swept = selfguide.evaluate(tiny_bert, sweep=True, data=str(tiny_sts), device="cpu")
    assert len({row.embedder for row in swept}) == 14
    assert next(row.value for row in swept if row.embedder == rows[0].embedder) == pytest.approx(rows[0].value, abs=1e-6)


def test_from_python_with_objects(tiny_sts, tiny_bert, tmp_path):
    save_encoder(load_encoder(tiny_bert), tmp_path, pooling="mean")
    model = SentenceTransformer(str(tmp_path), device="cpu")
    (found, _) = selfguide.evaluate(model, tasks="STS-B", data=str(tiny_sts), name="mine")
    (expected, _) = selfguide.evaluate(tiny_bert, tasks="STS-B", embedder="mean", data=str(tiny_sts), device="cpu")
    assert (found.embedder, found.value) == ("mine", pytest.approx(expected.value, abs=1e-4))
    assert selfguide.evaluate(BagOfWords(), tasks="STS-B", data=str(tiny_sts))[0].embedder == "bag"
    with pytest.raises(InputError, match="'bag' is not a pooled one"):
        selfguide.evaluate(BagOfWords(), sweep=True, data=str(tiny_sts))


def test_from_python_a_missing_set_is_told_and_a_wrong_name_refused(tiny_sts, caplog):
    (tiny_sts / "sts" / "STS13" / "FNWN.tsv").unlink()
    rows = selfguide.evaluate(BagOfWords(), data=str(tiny_sts))
    assert AVERAGE not in {row.dataset for row in rows}
    assert "not scored: STS13: no such file" in caplog.text
    with pytest.raises(InputError, match=r"unknown setting 'task' \(did you mean 'tasks'\?\)"):
        selfguide.evaluate(BagOfWords(), task="sts")
