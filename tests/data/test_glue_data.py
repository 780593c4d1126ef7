"""GLUE's tasks from files and from the hub: counts, split, labels, and what is refused."""

import hashlib

import datasets
import pytest

from selfguide.data.glue import HUB_NAME, HUB_REVISION, TASKS, read_glue
from selfguide.errors import InputError, MissingDataError

COUNTS = {"SST-2": (67349, 87, 785), "CoLA": (8551, 104, 939), "MRPC": (3668, 40, 368), "RTE": (2490, 27, 250)}
"""Examples of train, the first 10% and the last 90% of validation (872, 1043, 408, 277 in PROVENANCE.md)."""

RTE_TRAIN = [("entailment", "the cat sits", "a cat"), ("not_entailment", "a dog", "the tree")]
RTE_DEV = [("not_entailment", f"the dog {number}", "a man") for number in range(19)] + [("entailment", "a", "b")]


def write_task(folder, name, train, dev):
    place = folder / "glue" / name
    place.mkdir(parents=True)
    for file, rows in (("train.tsv", train), ("dev.tsv", dev)):
        (place / file).write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return place


def on_the_hub(monkeypatch, splits):
    """Put local data sets in the place of the hub's; gives the list of what is asked for."""
    asked = []

    def load_dataset(name, config, *, split, revision):
        asked.append((name, config, split, revision))
        return splits[split]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def rte_table(rows):
    features = datasets.Features(
        sentence1=datasets.Value("string"),
        sentence2=datasets.Value("string"),
        label=datasets.ClassLabel(names=["entailment", "not_entailment"]),
        idx=datasets.Value("int32"),
    )
    columns = {
        "sentence1": [row[1] for row in rows],
        "sentence2": [row[2] for row in rows],
        "label": [row[0] for row in rows],
        "idx": list(range(len(rows))),
    }
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("name", COUNTS)
def test_split_sizes(shared, name):
    data = read_glue(name, shared / "data")
    assert (len(data.train), len(data.selection), len(data.test)) == COUNTS[name]
    assert set(data.train.labels) == {0, 1}
    assert {len(texts) for texts in data.test.texts} == {len(TASKS[name].columns)}


def test_qnli_has_only_its_validation_set_locally(shared, tmp_path):
    with pytest.raises(
        MissingDataError, match=r"QNLI/train\.tsv: no such file; .* the hub's copy \(nyu-mll/glue, qnli\) is used"
    ):
        read_glue("QNLI", shared / "data")
    dev = (shared / "data" / "glue" / "QNLI" / "dev.tsv").read_bytes()
    place = write_task(tmp_path, "QNLI", [], [])
    (place / "train.tsv").write_bytes(dev)
    (place / "dev.tsv").write_bytes(dev)
    data = read_glue("QNLI", tmp_path)
    assert (len(data.selection), len(data.test)) == (546, 4917)


def test_parts_labels_and_revision_of_files(tmp_path):
    place = write_task(tmp_path, "RTE", RTE_TRAIN, RTE_DEV)
    data = read_glue("RTE", tmp_path)
    assert data.train.texts == (("the cat sits", "a cat"), ("a dog", "the tree"))
    assert data.train.labels == (0, 1)
    assert data.selection.texts == (("the dog 0", "a man"), ("the dog 1", "a man"))
    assert len(data.test) == 18
    assert (data.test.texts[-1], data.test.labels[-1]) == (("a", "b"), 0)
    both = (place / "train.tsv").read_bytes() + (place / "dev.tsv").read_bytes()
    assert data.revision == hashlib.sha256(both).hexdigest()


def test_hub_gives_what_the_files_give(tmp_path, monkeypatch):
    write_task(tmp_path, "RTE", RTE_TRAIN, RTE_DEV)
    with_blanks = [(label, f" {first}\r", second) for label, first, second in RTE_TRAIN]
    asked = on_the_hub(monkeypatch, {"train": rte_table(with_blanks), "validation": rte_table(RTE_DEV)})
    local, hub = read_glue("RTE", tmp_path), read_glue("RTE")
    assert (hub.train, hub.selection, hub.test) == (local.train, local.selection, local.test)
    assert hub.revision == HUB_REVISION
    assert asked == [(HUB_NAME, "rte", split, HUB_REVISION) for split in ("train", "validation")]


def test_hub_hidden_label(monkeypatch):
    hidden = datasets.Dataset.from_dict({"sentence": ["a cat", "a dog"], "label": [1, -1]})
    on_the_hub(monkeypatch, {"train": hidden, "validation": hidden})
    with pytest.raises(InputError, match="nyu-mll/glue cola train row 1: label -1 is not a class of CoLA: 0 to 1"):
        read_glue("CoLA")


def test_hub_wrong_columns(monkeypatch):
    table = datasets.Dataset.from_dict({"text": ["a cat"], "label": [1]})
    on_the_hub(monkeypatch, {"train": table, "validation": table})
    with pytest.raises(InputError, match="columns label, sentence are needed; the columns are: text, label"):
        read_glue("CoLA")


def test_hub_out_of_reach(monkeypatch):
    def load_dataset(*names, **options):
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(MissingDataError, match=r"QNLI could not be had from the hub \(nyu-mll/glue, qnli, train: offline\)"):
        read_glue("QNLI")


@pytest.mark.parametrize(
    ("name", "train", "message"),
    [
        ("CoLA", [("1", "a"), ("2", "b")], r"train\.tsv:2: label '2' is not one of CoLA: 0, 1"),
        ("RTE", [("1", "a", "b")], r"train\.tsv:1: label '1' is not one of RTE: entailment, not_entailment"),
        ("CoLA", [("1", "a", "b")], r"train\.tsv:1: number of fields is 3 where 2 are needed"),
        ("MRPC", [("1", "a", "b"), ("1", "a")], r"train\.tsv:2: number of fields is 2 where 3 are needed"),
        ("MRPC", [("1", "a", " ")], r"train\.tsv:1: a text is empty"),
        ("CoLA", [], r"train\.tsv holds no examples"),
    ],
)
def test_broken_files(tmp_path, name, train, message):
    write_task(tmp_path, name, train, [])
    with pytest.raises(InputError, match=message):
        read_glue(name, tmp_path)


def test_validation_too_small_to_split(tmp_path):
    write_task(tmp_path, "RTE", RTE_TRAIN, RTE_DEV[:9])
    with pytest.raises(InputError, match=r"the validation set of RTE has 9 examples; .* needs 10"):
        read_glue("RTE", tmp_path)


def test_unknown_task():
    with pytest.raises(InputError, match="GLUE task 'cola' is not known; choose from: QNLI, SST-2, CoLA, MRPC, RTE"):
        read_glue("cola")
