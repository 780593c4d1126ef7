import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from selfguide.data.senteval import LAYOUTS, LabelledSentences
from selfguide.errors import InputError, MissingDataError
from selfguide.evaluation import senteval
from selfguide.evaluation.classifiers import Fitted, Recipe
from selfguide.evaluation.senteval import L2_GRID, TransferTask, senteval_tasks
from selfguide.evaluation.vectors import Vectors

DIM = 6


class Lookup:
    """Embeds the sentence ``7`` as row 7 of a matrix."""

    name = "lookup"
    protocol = {}  # noqa: RUF012

    def __init__(self, matrix):
        self.matrix = np.asarray(matrix, dtype=np.float32)

    def encode(self, sentences):
        return self.matrix[[int(sentence) for sentence in sentences]]


def part(labels, *, start=0, columns=1):
    size = len(labels)
    texts = tuple(tuple(str(start + column * size + row) for row in range(size)) for column in range(columns))
    return LabelledSentences(texts, tuple(labels), source="memory.tsv", sha256=f"sha-{start}")


def score(task, matrix, seed=1):
    (found,) = task.score(Vectors(Lookup(matrix), task.sentences()), seed=seed)
    return found


def vectors_by_label(labels, *, gap, seed=0):
    chance = np.random.default_rng(seed)
    return chance.normal(size=(len(labels), DIM)) + gap * np.eye(DIM)[labels]


@pytest.fixture
def recorded(monkeypatch):
    """Stands in for the training: the second L2 value is the best of even divisions, the fourth of odd ones."""
    calls = []

    def record(examples, splits, penalties, *, recipe, generator):
        calls.append((splits, penalties))
        accuracy = torch.zeros(penalties.shape, dtype=torch.float64)
        if penalties.shape[1] == len(L2_GRID):
            for number in range(len(splits)):
                accuracy[number, 3 if number // senteval.FOLDS % 2 else 1] = 0.9
        weights = torch.zeros(*penalties.shape, examples.classes, examples.features.shape[1])
        return Fitted([weights, torch.zeros(*penalties.shape, examples.classes)], accuracy, torch.ones(penalties.shape))

    monkeypatch.setattr(senteval, "fit", record)
    return calls


def fold_rows(rows, labels):
    folds = StratifiedKFold(10, shuffle=True, random_state=1111).split(rows, np.array(labels)[rows])
    return [(rows[train], rows[test]) for train, test in folds]


def test_nested_folds_are_those_of_the_toolkit(recorded):
    labels = [0] * 70 + [1] * 60
    found = score(TransferTask("MR", {"all": part(labels)}, Recipe()), vectors_by_label(labels, gap=1))
    (inner, grid), (refits, chosen) = recorded
    expected = []
    outer = fold_rows(np.arange(130), labels)
    for train, _ in outer:
        expected += fold_rows(train, labels)
    assert len(inner) == 100
    for split, (train, validation) in zip(inner, expected, strict=True):
        assert (split.train.tolist(), split.validation.tolist()) == (train.tolist(), validation.tolist())
    torch.testing.assert_close(grid, torch.tensor(L2_GRID).repeat(100, 1))
    assert [round(value, 6) for value in chosen.flatten().tolist()] == [1e-4, 1e-2] * 5
    for split, (train, _) in zip(refits, outer, strict=True):
        assert sorted([*split.train.tolist(), *split.validation.tolist()]) == train.tolist()
        assert len(split.validation) == 5  # 5% of 117
    assert found.protocol["l2"] == [1e-4, 1e-2] * 5


def test_train_and_test_parts(recorded):
    labels = list(range(6)) * 20
    parts = {"train": part(labels), "test": part([0, 1, 2, 0], start=120)}
    found = score(TransferTask("TREC", parts, Recipe()), vectors_by_label([*labels, 0, 1, 2, 0], gap=1))
    (inner, _), (refits, chosen) = recorded
    for split, (train, validation) in zip(inner, fold_rows(np.arange(120), labels), strict=True):
        assert (split.train.tolist(), split.validation.tolist()) == (train.tolist(), validation.tolist())
    assert len(refits) == 1
    assert sorted([*refits[0].train.tolist(), *refits[0].validation.tolist()]) == list(range(120))
    assert (chosen.shape, found.protocol["l2"]) == ((1, 1), [1e-4])
    assert (found.value, found.split, found.revision) == (50.0, "test", "sha-0+sha-120")  # zero weights: always class 0


def test_a_dev_part_chooses_and_nothing_is_fitted_twice(recorded):
    parts = {"train": part([0, 1] * 30), "dev": part([0, 1], start=60), "test": part([0, 0, 0, 1], start=62)}
    task = TransferTask("SST2", parts, Recipe(), sst_train="phrases")
    found = score(task, vectors_by_label([0, 1] * 33, gap=1))
    ((splits, penalties),) = recorded
    assert (splits[0].train.tolist(), splits[0].validation.tolist()) == (list(range(60)), [60, 61])
    assert penalties.shape == (1, 4)
    assert (found.value, found.protocol["l2"], found.protocol["train"]) == (75.0, [1e-4], "phrases")


def test_the_row_names_the_protocol(recorded):
    labels = [0, 1] * 30
    found = score(TransferTask("CR", {"all": part(labels)}, Recipe(hidden=0)), vectors_by_label(labels, gap=1))
    assert (found.dataset, found.split, found.metric, found.revision) == ("CR", "cv", "accuracy", "sha-0")
    assert {**found.protocol, "l2": None} == {
        "hidden": 0,
        "folds": 10,
        "nested": True,
        "l2_grid": [1e-5, 1e-4, 1e-3, 1e-2],
        "l2": None,
        "tenacity": 5,
        "epoch_size": 4,
        "batch": 64,
    }


def test_features_of_a_pair():
    task = TransferTask("MRPC", {"train": part([0, 1] * 20, columns=2), "test": part([0, 1], start=80, columns=2)}, Recipe())
    matrix = np.random.default_rng(1).normal(size=(84, DIM)).astype(np.float32)
    features = task._examples(Vectors(Lookup(matrix), task.sentences())).features.numpy()
    left, right = np.r_[matrix[:40], matrix[80:82]], np.r_[matrix[40:80], matrix[82:]]
    np.testing.assert_allclose(features, np.c_[np.abs(left - right), left * right], rtol=1e-6)


@pytest.mark.parametrize("hidden", [0, 50])
def test_labels_that_the_vectors_tell_apart(hidden):
    labels = [0, 1] * 200
    task = TransferTask("MR", {"all": part(labels)}, Recipe(hidden=hidden, learning_rate=0.01))
    assert score(task, vectors_by_label(labels, gap=6)).value > 99


def test_labels_that_have_nothing_to_do_with_the_vectors():
    labels = [0, 1] * 300
    found = score(TransferTask("MR", {"all": part(labels)}, Recipe()), vectors_by_label(labels, gap=0))
    assert 43 < found.value < 57


def test_a_task_with_a_dev_part_and_three_classes():
    labels = [0, 1, 2] * 100
    parts = {"train": part(labels[:200]), "dev": part(labels[200:250], start=200), "test": part(labels[250:], start=250)}
    task = TransferTask("SST2", parts, Recipe(learning_rate=0.01))
    matrix = vectors_by_label(labels, gap=4)
    first, again = score(task, matrix, seed=3), score(task, matrix, seed=3)
    assert first == again
    assert first.value > 98


def test_too_few_of_a_label():
    with pytest.raises(
        InputError, match=r"memory.tsv: a label occurs 19 times; for folds inside folds each is needed 20 times"
    ):
        TransferTask("MR", {"all": part([0] * 100 + [1] * 19)}, Recipe())


def test_constant_vectors_are_named():
    task = TransferTask("MR", {"all": part([0, 1] * 30)}, Recipe())
    with pytest.raises(InputError, match="'lookup' gives the same vector for all 60 examples of MR"):
        score(task, np.ones((60, DIM)))


def test_the_tasks_of_a_folder(tmp_path):
    for name in ("MR", "CR"):
        (tmp_path / "senteval" / name).mkdir(parents=True)
        lines = "".join(f"{number % 2}\t{name} {number}\n" for number in range(40))
        (tmp_path / "senteval" / name / "all.tsv").write_text(lines)
    tasks = senteval_tasks(tmp_path, ["MR", "CR"], hidden=0)
    assert [task.name for task in tasks] == ["MR", "CR"]
    assert list(tasks[1].sentences()) == [f"CR {number}" for number in range(40)]
    with pytest.raises(MissingDataError, match=r"SentEval's SUBJ was looked for as all.tsv in"):
        senteval_tasks(tmp_path)
    with pytest.raises(InputError, match="hidden layer has -1 units"):
        senteval_tasks(tmp_path, ["MR"], hidden=-1)


def test_all_seven_are_read_by_default(shared):
    tasks = senteval_tasks(shared / "data", sst_train="sentences")
    assert [task.name for task in tasks] == list(LAYOUTS)
    assert {"i 'd"} & {sentence[:4] for sentence in tasks[0].sentences()}
