import re

import pytest

from selfguide.data.senteval import LAYOUTS, read_labelled, read_transfer_task
from selfguide.errors import InputError, MissingDataError
from selfguide.files import sha256_of_file

# what data/PROVENANCE.md says
COUNTS = {
    "MR": {"all": 10662},
    "CR": {"all": 3775},
    "SUBJ": {"all": 10000},
    "MPQA": {"all": 10606},
    "SST2": {"train": 67349, "dev": 872, "test": 1821},
    "TREC": {"train": 5452, "test": 500},
    "MRPC": {"train": 4076, "test": 1725},
}
EMPTY_SENTENCES = {"CR": 4, "MPQA": 3}


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / "senteval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    return write_file


def test_labels_sentences_and_hash(write, tmp_path):
    path = write("MR/all.tsv", '1\ta "good" film\n0\t café\u2028noir \n1\t\n')
    (data,) = read_transfer_task(tmp_path, "MR").values()
    assert data.columns == (('a "good" film', "café\u2028noir", "."),)
    assert data.labels == (1, 0, 1)
    assert (len(data), data.source, data.sha256) == (3, str(path), sha256_of_file(path))


def test_pairs(write):
    data = read_labelled(write("MRPC/train.tsv", "1\ta b\ta c\n0\td\t\n"), LAYOUTS["MRPC"])
    assert data.columns == (("a b", "d"), ("a c", "."))
    assert data.labels == (1, 0)


def test_coarse_labels_of_trec(write):
    lines = ["ABBR:exp", "DESC:def", "ENTY:food", "HUM:ind", "LOC:city", "NUM:dist", "DESC:manner"]
    data = read_labelled(write("TREC/train.tsv", "".join(f"{label}\tWhat ?\n" for label in lines)), LAYOUTS["TREC"])
    assert data.labels == (0, 1, 2, 3, 4, 5, 1)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("MR", "2\tx", "all.tsv:3: label '2' is not known; allowed are: 0, 1"),
        ("MR", "1:fine\tx", "all.tsv:3: label '1:fine' is not known"),
        ("MR", "1", "all.tsv:3: number of fields is 1 where 2 are needed"),
        ("MR", "1\tx\ty", "all.tsv:3: number of fields is 3 where 2 are needed"),
        ("MRPC", "1\tx", "all.tsv:3: number of fields is 2 where 3 are needed"),
        ("TREC", "TIME:date\tx", "all.tsv:3: label 'TIME:date' is not known; allowed are: ABBR, DESC"),
    ],
)
def test_a_broken_line_is_named(write, name, line, message):
    layout = LAYOUTS[name]
    whole = "\t".join([layout.labels[0], *("x" for _ in range(layout.sentences))])
    with pytest.raises(InputError, match=re.escape(message)):
        read_labelled(write(f"{name}/all.tsv", f"{whole}\n{whole}\n{line}\n"), layout)


@pytest.mark.parametrize("content", ["", "1\tx\n1\ty\n"])
def test_a_label_that_never_occurs(write, content):
    with pytest.raises(InputError, match=r"none of \d lines has the label 0; is the file whole"):
        read_labelled(write("MR/all.tsv", content), LAYOUTS["MR"])


def test_a_missing_file_says_what_was_looked_for_and_where(write, tmp_path):
    write("TREC/train.tsv", "")
    with pytest.raises(MissingDataError) as caught:
        read_transfer_task(tmp_path, "TREC")
    for part in ("TREC", "train.tsv, test.tsv", str(tmp_path / "senteval" / "TREC"), "no test.tsv"):
        assert part in str(caught.value)


def test_unknown_names(tmp_path):
    with pytest.raises(InputError, match=r"no task 'SST5' here; choose from: MR, CR, SUBJ, MPQA, SST2, TREC, MRPC"):
        read_transfer_task(tmp_path, "SST5")
    with pytest.raises(InputError, match="SST2 cannot be trained on 'words'; choose one of: phrases, sentences"):
        read_transfer_task(tmp_path, "SST2", sst_train="words")


def test_the_layouts_are_those_counted_here():
    assert list(COUNTS) == list(LAYOUTS)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_real_files(shared, name):
    parts = read_transfer_task(shared / "data", name)
    assert {part: len(data) for part, data in parts.items()} == COUNTS[name]
    assert all(len(column) == len(data) for data in parts.values() for column in data.columns)
    if name in EMPTY_SENTENCES:
        lines = (shared / "data" / "senteval" / name / "all.tsv").read_text(encoding="utf-8").split("\n")
        empty = [number for number, line in enumerate(lines) if line.endswith("\t")]
        assert len(empty) == EMPTY_SENTENCES[name]
        assert {parts["all"].columns[0][number] for number in empty} == {"."}


def test_sst2_on_whole_sentences(shared):
    parts = read_transfer_task(shared / "data", "SST2", sst_train="sentences")
    assert {part: len(data) for part, data in parts.items()} == {"train": 6920, "dev": 872, "test": 1821}
