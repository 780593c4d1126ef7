import gzip
import hashlib
import json
import lzma
from dataclasses import FrozenInstanceError

import pytest
import zstandard

from selfguide.data.pairs import Paraphrases, read_pairs, read_paraphrases
from selfguide.errors import InputError

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}
ROWS = [(4.5, 'A "man", plays', "Ein Mann spielt"), (0.0, "\U0001f600 x", "café")]


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def as_tsv(header):
    lines = ["\t".join(header)] if header else []
    return "".join(f"{line}\n" for line in lines + ["\t".join(map(str, row)) for row in ROWS])


def as_csv(header):
    lines = [",".join(header)] if header else []
    quoted = [",".join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in ROWS]
    return "".join(f"{line}\r\n" for line in lines + quoted)


def as_json_lines(header):
    return "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in ROWS)


def assert_rows(pairs):
    assert list(zip(pairs.scores, pairs.sentences1, pairs.sentences2, strict=True)) == ROWS
    assert len(pairs) == 2


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", as_tsv(())),
        ("a.csv", as_csv(())),
        ("a.tsv", as_tsv(("score", "sentence1", "sentence2"))),
        ("a.csv", as_csv(("similarity_score", "text1", "text2"))),
        ("a.jsonl", as_json_lines(("similarity", "sentence_1", "sentence_2"))),
        ("a.ndjson", as_json_lines(("label", "sentence1", "sentence_2"))),
    ],
)
def test_every_layout_with_every_compression(write, name, content, compression):
    path = write(name + compression, COMPRESS[compression](content.encode()))
    pairs = read_pairs(path)
    assert_rows(pairs)
    assert pairs.source == str(path)
    assert pairs.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_pairs(str(path)) == pairs


def test_named_columns(write):
    assert_rows(read_pairs(write("a.tsv", as_tsv(("gold", "left", "right"))), columns=("gold", "left", "right")))
    assert_rows(read_pairs(write("a.jsonl", as_json_lines(("gold", "left", "right"))), columns=("gold", "left", "right")))


def test_named_columns_mean_a_header_of_any_names(write):
    pairs = read_pairs(write("a.tsv", "0\t1\t2\nx\ty\t1\nz\tw\t2\n"), columns=("2", "0", "1"))
    assert (pairs.scores, pairs.sentences1, pairs.sentences2) == ((1.0, 2.0), ("x", "z"), ("y", "w"))


def test_other_columns_and_order_under_a_header(write):
    content = "genre,sentence2, sentence1 ,score\nnews,b,a,1\nnews,d,c,2\n"
    pairs = read_pairs(write("a.csv", content))
    assert (pairs.sentences1, pairs.sentences2, pairs.scores) == (("a", "c"), ("b", "d"), (1.0, 2.0))


def test_the_first_known_name_wins(write):
    pairs = read_pairs(write("a.csv", "label,score,sentence1,sentence2\n9,1,a,b\n8,2,c,d\n"))
    assert pairs.scores == (1.0, 2.0)


def test_sentences_are_cleaned_and_blank_lines_skipped(write):
    pairs = read_pairs(write("a.tsv", b"\xef\xbb\xbf1\t a\0b \tc\r\n\r\n2.5e-1\td\xff\t\xc2\xa0e\r\n"))
    assert pairs.sentences1 == ("ab", "d\ufffd")
    assert pairs.sentences2 == ("c", "e")
    assert pairs.scores == (1.0, 0.25)


def test_tsv_has_no_quoting(write):
    assert read_pairs(write("a.tsv", '1\t"a\tb"\n2\t"\tc\n')).sentences1 == ('"a', '"')


def test_scores_as_text_in_json(write):
    content = '{"score": "1.5", "sentence1": "a", "sentence2": "b"}\n{"score": 2, "sentence1": "a", "sentence2": "b"}'
    assert read_pairs(write("a.jsonl", content)).scores == (1.5, 2.0)


def test_pairs_are_frozen(write):
    pairs = read_pairs(write("a.tsv", as_tsv(())))
    with pytest.raises(FrozenInstanceError):
        pairs.scores = ()


@pytest.mark.parametrize("fields", ["2\tc", "2\tc\td\te"])
def test_wrong_number_of_fields(write, fields):
    with pytest.raises(InputError, match=rf"a.tsv:3: number of fields is {fields.count(chr(9)) + 1} where 3 are needed"):
        read_pairs(write("a.tsv", f"1\ta\tb\n\n{fields}\n"))


def test_line_numbers_are_physical(write):
    content = 'score,sentence1,sentence2\n1,"a\nline","and\nanother"\n2,c\n'
    with pytest.raises(InputError, match=r"a.csv:5: number of fields is 2 where 3 are needed"):
        read_pairs(write("a.csv", content))


@pytest.mark.parametrize("score", ["x", "", "nan", "inf", "1e999", "1,5"])
def test_score_that_is_not_a_finite_number(write, score):
    with pytest.raises(InputError, match=f"a.tsv:2: score '{score}' is not a finite number"):
        read_pairs(write("a.tsv", f"1\ta\tb\n{score}\tc\td\n"))


@pytest.mark.parametrize("score", ["null", "true", "[1]", "NaN", "1" + "0" * 400])
def test_score_in_json_that_is_not_a_finite_number(write, score):
    content = f'{{"score": {score}, "sentence1": "a", "sentence2": "b"}}\n'
    with pytest.raises(InputError, match=r"a.jsonl:1: score .* is not a finite number"):
        read_pairs(write("a.jsonl", content))


def test_empty_sentence(write):
    with pytest.raises(InputError, match=r"a.tsv:2: sentence1 is empty"):
        read_pairs(write("a.tsv", "1\ta\tb\n2\t \td\n"))
    with pytest.raises(InputError, match=r"a.jsonl:1: sentence2 is empty"):
        read_pairs(write("a.jsonl", '{"score": 1, "sentence1": "a", "sentence2": null}'))


def test_sentence_that_is_not_text(write):
    with pytest.raises(InputError, match=r"a.jsonl:1: column 'sentence1' holds int, not text"):
        read_pairs(write("a.jsonl", '{"score": 1, "sentence1": 3, "sentence2": "b"}'))


def test_missing_columns(write):
    with pytest.raises(
        InputError, match=r"a.csv:1: no column sentence2 or text2 or sentence_2; the columns are: score, sent"
    ):
        read_pairs(write("a.csv", "score,sentence1,other\n1,a,b\n"))
    with pytest.raises(InputError, match=r"a.jsonl:1: no column score or similarity_score or similarity or label"):
        read_pairs(write("a.jsonl", '{"sentence1": "a", "sentence2": "b"}'))
    with pytest.raises(InputError, match=r"b.csv:1: no column gold; the columns are: 1, a, b"):
        read_pairs(write("b.csv", "1,a,b\n2,c,d\n"), columns=("gold", "x", "y"))


def test_broken_json(write):
    with pytest.raises(InputError, match=r"a.jsonl:1: broken JSON"):
        read_pairs(write("a.jsonl", "{"))
    with pytest.raises(InputError, match=r"b.jsonl:1: a line holds a JSON object, not list"):
        read_pairs(write("b.jsonl", "[1]"))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match=r"a.tsv: no such file"):
        read_pairs(tmp_path / "a.tsv")
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(InputError, match=r"folder.tsv: cannot be read \(Is a directory\)"):
        read_pairs(tmp_path / "folder.tsv")


@pytest.mark.parametrize(("content", "count"), [("", 0), ("1\ta\tb\n", 1), ("score\tsentence1\tsentence2\n", 0)])
def test_fewer_than_two_pairs(write, content, count):
    with pytest.raises(InputError, match=f"number of pairs is {count}; a correlation needs at least 2"):
        read_pairs(write("a.tsv", content))


def test_equal_scores(write):
    with pytest.raises(InputError, match="all 2 scores equal 3; a correlation needs different scores"):
        read_pairs(write("a.tsv", "3\ta\tb\n3.0\tc\td\n"))


@pytest.mark.parametrize("name", ["a.txt", "a", "a.gz", "a.parquet"])
def test_unknown_suffix(write, name):
    allowed = r"allowed are .csv, .tsv, .jsonl, .ndjson, each also with .gz, .xz, .zst"
    with pytest.raises(InputError, match=allowed):
        read_pairs(write(name, "x"))
    with pytest.raises(InputError, match=allowed):
        read_paraphrases(write(name, "x"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'one\t"uno\n\tdos\ntwo \tdos\nthree\t \n'),
        ("a.csv", 'one,"""uno"\n,dos\ntwo ,dos\nthree,\n'),
        (
            "a.jsonl",
            "".join(
                json.dumps({"sentence": sentence, "paraphrase": paraphrase}) + "\n"
                for sentence, paraphrase in [("one", '"uno'), ("", "dos"), ("two ", "dos"), ("three", None)]
            ),
        ),
    ],
)
@pytest.mark.parametrize("compression", COMPRESS)
def test_paraphrases(write, name, content, compression):
    paraphrases = read_paraphrases(write(name + compression, COMPRESS[compression](content.encode())))
    assert paraphrases == Paraphrases(("one", "two"), ('"uno', "dos"), dropped=2)
    assert len(paraphrases) == 2


def test_broken_paraphrases(write, tmp_path):
    with pytest.raises(InputError, match=r"a.tsv:2: number of fields is 3 where 2 are needed"):
        read_paraphrases(write("a.tsv", "a\tb\na\tb\tc\n"))
    with pytest.raises(InputError, match=r"a.jsonl:1: no column paraphrase; the columns are: sentence"):
        read_paraphrases(write("a.jsonl", '{"sentence": "a"}'))
    with pytest.raises(InputError, match=r"b.tsv holds no paraphrases: 1 rows read"):
        read_paraphrases(write("b.tsv", "\tb\n"))
    with pytest.raises(InputError, match=r"c.tsv: no such file"):
        read_paraphrases(tmp_path / "c.tsv")
