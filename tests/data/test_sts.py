import random
import re

import datasets
import pytest

from selfguide.data import sts
from selfguide.data.digests import Pair, letters_line, pairs_digest, text_digest
from selfguide.data.records import MULTILINGUAL, SEVEN, SICK_ALL
from selfguide.data.sick import TEST_PAIRS, chosen_pairs
from selfguide.data.sts import read_private_pairs, read_sts
from selfguide.errors import InputError, MissingDataError
from tiny_sts import PAIRS_PER_FILE, write_tiny_sts

RECORDS = (*SEVEN, SICK_ALL, *MULTILINGUAL)
PAIRS = [Pair(4.0, "A man  sings.", "He sings"), Pair(0.5, "Dogs run!", "\u00c9t\u00e9 2")]


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def records(folder):
    found = write_tiny_sts(folder)
    return {record.name: record for record in (*found["SICK_ALL"], *found["SEVEN"], *found["MULTILINGUAL"])}


@pytest.fixture
def hub(monkeypatch):
    """Puts rows where the hub would be; gives what was asked for."""
    asked = []

    def put(pairs, columns=("score", "sentence1", "sentence2")):
        table = datasets.Dataset.from_dict({name: [pair[i] for pair in pairs] for i, name in enumerate(columns)})

        def load_dataset(path, config, *, split, revision):
            asked.append((path, config, split, revision))
            return table

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return asked

    return put


def test_the_order_does_not_matter_to_a_digest():
    assert text_digest(PAIRS) == text_digest(PAIRS[::-1])
    assert pairs_digest(PAIRS) == pairs_digest(PAIRS[::-1])


def test_what_a_digest_is_of():
    tokenised = [Pair(4.0000001, "a man sings .", "he sings "), Pair(0.5, "dogs run !", "e\u0301te\u0301 2")]
    assert text_digest(PAIRS) != text_digest(tokenised)
    assert pairs_digest(PAIRS) == pairs_digest(tokenised)
    assert text_digest(PAIRS) == text_digest([Pair(4, " A man sings. ", "He\tsings"), PAIRS[1]])
    for changed in (Pair(4.1, *PAIRS[0][1:]), Pair(4.0, "A man sing.", "He sings"), Pair(4.0, "He sings", "A man sings")):
        assert pairs_digest([changed, PAIRS[1]]) != pairs_digest(PAIRS)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.name}-{record.split}")
def test_a_record_is_complete(record):
    assert set(record.text_sha256) == set(record.roots)
    assert all(len(digest) == 64 for digest in (record.pairs_sha256, *record.text_sha256.values()))
    assert record.licence
    assert record.hub is None or (len(record.hub.revision) == 40 and record.hub.text in record.text_sha256)
    assert record.has_subsets or record.split == "all" or len(record.files) == 1


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.name}-{record.split}")
def test_the_real_data_is_what_the_record_says(shared, record):
    for text in record.text_sha256:
        data = read_sts(record, shared / "data", text=text)
        assert [len(subset) for subset in data.subsets] == (
            list(record.files.values()) if record.has_subsets else [sum(record.files.values())]
        )
        assert (data.name, data.split, data.text, data.source) == (record.name, record.split, text, "files")
        assert len(data.revision) == 64


def test_the_revision_of_one_file_is_its_hash(shared):
    data = read_sts(SEVEN[0], shared / "data")
    assert data.revision == "a06144ec553c8f84e8bb90bca18d8167b5d998569c242b1cff28f30e48ae7710"
    assert data.pairs[0].score == pytest.approx(2.5)


@pytest.mark.parametrize("inner", [".", "sts"])
def test_the_folder_itself_or_the_one_around_it(records, folder, inner):
    data = read_sts(records["STS12"], folder / inner)
    assert [len(subset) for subset in data.subsets] == [PAIRS_PER_FILE] * 5
    assert data.text == "raw"


def test_the_other_text(records, folder):
    raw, tokenised = (read_sts(records["STS-B"], folder, text=text) for text in ("raw", "senteval"))
    assert tokenised.pairs[0].sentence1 == raw.pairs[0].sentence1.lower().replace(".", " .")
    assert tokenised.revision != raw.revision


def test_the_wrong_text_is_told(records, folder):
    with pytest.raises(InputError, match=r"not those of the text 'raw'; this is the text 'senteval' \(--text senteval\)"):
        read_sts(records["STS-B"], folder / "sts-senteval-tok")
    with pytest.raises(InputError, match="SemEval2014-es is there as raw text, not as 'senteval'"):
        read_sts(records["SemEval2014-es"], folder, text="senteval")


def test_a_missing_folder_says_where_it_was_looked_for(records, tmp_path):
    empty = tmp_path / "empty"
    with pytest.raises(MissingDataError, match=f"STS13: no such folder; looked for {empty}/sts/STS13 and {empty}/STS13"):
        read_sts(records["STS13"], empty)


def test_a_missing_file_is_named(records, folder):
    (folder / "sts" / "STS13" / "OnWN.tsv").unlink()
    with pytest.raises(MissingDataError, match=r"STS13: no such file; looked for .*sts/STS13/OnWN.tsv$"):
        read_sts(records["STS13"], folder)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("5.5\tA\tB", r"test.tsv:7: score 5.5 is out of range; scores here are from 0 to 5"),
        ("-1\tA\tB", r"test.tsv:7: score -1 is out of range"),
        ("x\tA\tB", r"test.tsv:7: score 'x' is not a finite number"),
        ("1\tA\t ", r"test.tsv:7: sentence2 is empty"),
        ("1\tA", r"test.tsv:7: number of fields is 2 where 3 are needed"),
        ("1\tA\tB", r"test.tsv: 7 pairs are there where 6 are expected"),
    ],
)
def test_a_broken_line(records, folder, line, words):
    with (folder / "sts" / "STS-B" / "test.tsv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=words) as caught:
        read_sts(records["STS-B"], folder)
    assert not isinstance(caught.value, MissingDataError)


@pytest.mark.parametrize(
    ("pattern", "new", "words"),
    [
        (r"^0.0\t", "0.1\t", r"the number of pairs is right \(6\), but a score or the words of a sentence differ"),
        ("(?i)the", "teh", r"a score or the words of a sentence differ .* give it as pairs of your own"),
        (r"\.$", "!", "scores and words are right, but punctuation, case or blanks are not those of the text 'raw'$"),
    ],
)
def test_changed_pairs(records, folder, pattern, new, words):
    path = folder / "sts" / "STS-B" / "test.tsv"
    changed, times = re.subn(pattern, new, path.read_text(), count=1, flags=re.MULTILINE)
    assert times == 1
    path.write_text(changed)
    with pytest.raises(InputError, match=words):
        read_sts(records["STS-B"], folder)


def test_blanks_and_order_may_differ(records, folder):
    path = folder / "sts" / "STS-B" / "test.tsv"
    lines = path.read_text().splitlines()[::-1]
    path.write_text("".join(line.replace(" ", "  ", 1) + "\n" for line in lines))
    assert len(read_sts(records["STS-B"], folder).pairs) == PAIRS_PER_FILE


def hub_rows(record, folder):
    """The pairs of a record as the hub's copy has them: of its text variant, in another order, with blanks around."""
    pairs = read_sts(record, folder, text=record.hub.text).pairs
    random.Random(1).shuffle(pairs)
    return [(pair.score, f" {pair.sentence1}", f"{pair.sentence2}\n") for pair in pairs]


@pytest.mark.parametrize("name", ["STS-B", "STS12", "SemEval2017-en-en"])
def test_the_hub_gives_the_same_pairs(records, folder, hub, name):
    record = records[name]
    asked = hub(hub_rows(record, folder))
    data = read_sts(record, None)
    assert asked == [(record.hub.path, record.hub.config, "test", record.hub.revision)]
    assert sorted(data.pairs) == sorted(read_sts(record, folder, text=record.hub.text).pairs)
    assert len(data.subsets) == 1
    assert (data.revision, data.source, data.text) == (record.hub.revision, record.hub.path, record.hub.text)


def test_the_real_data_through_the_hub_road(shared, hub):
    for record in RECORDS:
        if record.hub is None:
            continue
        whole = SICK_ALL if record.name == "SICK-R" else record
        hub(hub_rows(whole, shared / "data"))
        found = read_sts(record, None)
        assert sorted(found.pairs) == sorted(read_sts(record, shared / "data", text=record.hub.text).pairs)


def test_the_test_pairs_of_sick_are_found_in_any_order(shared):
    pairs = read_sts(SICK_ALL, shared / "data").pairs
    random.Random(2).shuffle(pairs)
    expected = read_sts(next(record for record in SEVEN if record.name == "SICK-R"), shared / "data").pairs
    assert sorted(map(letters_line, chosen_pairs(pairs, TEST_PAIRS))) == sorted(map(letters_line, expected))
    assert chosen_pairs(pairs[:100], TEST_PAIRS) == []


def test_a_hub_copy_that_differs_is_refused(records, folder, hub):
    record = records["STS-B"]
    rows = hub_rows(record, folder)
    hub(rows[1:])
    with pytest.raises(InputError, match=r"STS-B in mteb/stsbenchmark-sts at .*: 5 pairs are there where 6 are expected"):
        read_sts(record, None)
    hub([(rows[0][0], "another sentence", rows[0][2]), *rows[1:]])
    with pytest.raises(InputError, match="a score or the words of a sentence differ"):
        read_sts(record, None)
    hub([(6.0, *rows[0][1:]), *rows[1:]])
    with pytest.raises(InputError, match="row 0: score 6 is out of range"):
        read_sts(record, None)
    hub([(rows[0][0], " ", rows[0][2]), *rows[1:]])
    with pytest.raises(InputError, match="row 0: sentence1 is empty"):
        read_sts(record, None)
    hub(rows, columns=("label", "sentence1", "sentence2"))
    with pytest.raises(InputError, match="columns score, sentence1, sentence2 are needed; there are: label"):
        read_sts(record, None)


def test_a_hub_copy_with_other_punctuation_is_marked(records, folder, hub, caplog):
    record = records["STS-B"]
    hub([(score, first.replace(".", "?"), second) for score, first, second in hub_rows(record, folder)])
    assert read_sts(record, None).text == sts.OTHER_TEXT
    assert "punctuation, case or blanks are not those of 'raw'" in caplog.text


def test_what_the_hub_does_not_have_is_said(records):
    with pytest.raises(InputError, match=r"STS12 on the hub .* is of the text 'senteval', not 'raw'; give a data folder"):
        read_sts(records["STS12"], None, text="raw")
    with pytest.raises(MissingDataError, match=r"SemEval2014-es: the hub has no copy of it that we know"):
        read_sts(records["SemEval2014-es"], None)


def test_a_hub_that_cannot_be_reached(records):
    with pytest.raises(MissingDataError, match=r"STS-B: could not be had from the hub .* check the network"):
        read_sts(records["STS-B"], None)


def test_private_pairs(tmp_path):
    path = tmp_path / "my.pairs.csv"
    path.write_text("score,sentence1,sentence2\n-3,a,b\n70,c,d\n")
    data = read_private_pairs(path)
    assert (data.name, data.split, data.text) == ("my.pairs.csv", "all", "as given")
    assert data.pairs == [Pair(-3.0, "a", "b"), Pair(70.0, "c", "d")]
