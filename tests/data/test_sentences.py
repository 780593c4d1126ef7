import gc
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from selfguide.data.sentences import MAX_CHARACTERS, Counts, Sentences, read_sentences
from selfguide.errors import InputError

COMPRESS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}
TWO = ["a first one", "a second one"]


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@contextmanager
def unprivileged():
    """Root may read everything: be nobody for a while."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


# Formats


def as_text(sentences):
    return ".txt", "".join(f"{sentence}\n" for sentence in sentences).encode()


def as_json_lines(sentences):
    return ".jsonl", "".join(json.dumps({"text": sentence}) + "\n" for sentence in sentences).encode()


def as_csv(sentences):
    return ".csv", "".join(f'"{sentence}",1\n' for sentence in ["text", *sentences]).replace("1", "n", 1).encode()


def as_tsv(sentences):
    return ".tsv", "".join(f"1\t{sentence}\n" for sentence in ["text", *sentences]).replace("1", "n", 1).encode()


def as_parquet(sentences):
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [1] * len(sentences), "text": sentences}), sink)
    return ".parquet", sink.getvalue()


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("encode", [as_text, as_json_lines, as_csv, as_tsv, as_parquet])
def test_every_format_with_every_compression(write, encode, compression):
    expected = ["eins, zwei", "drei \U0001f600 café"]
    suffix, content = encode(expected)
    path = write(f"a{suffix}{compression}", COMPRESS.get(compression, bytes)(content))
    assert list(read_sentences(path)) == expected
    assert list(read_sentences(str(path))) == expected


@pytest.mark.parametrize("name", ["a", "a.sentences", "a.TXT", "news.2007.en"])
def test_unknown_suffix_is_text(write, name):
    assert list(read_sentences(write(name, "one,1\ntwo\n"))) == ["one,1", "two"]


def test_suffix_in_capitals(write):
    assert list(read_sentences(write("A.CSV.GZ", gzip.compress(b"text,n\none,1\n")))) == ["one"]


@pytest.mark.parametrize("name", ["a.json", "a.zip", "a.json.gz"])
def test_known_other_formats_are_refused(write, name):
    with pytest.raises(InputError, match=r"files are not read; allowed are .txt, .jsonl, .ndjson, .csv, .tsv, .parquet"):
        read_sentences(write(name, "[]"))


def test_concatenated_compressed_parts(write):
    for suffix, compress in COMPRESS.items():
        path = write(f"a.txt{suffix}", compress(b"one\n") + compress(b"two\n"))
        assert list(read_sentences(path)) == ["one", "two"]


def test_json_lines_of_strings_and_objects_with_blank_lines(write):
    path = write("a.ndjson", '"one"\n\n{"text": "two", "n": 1}\n  \n{"n": 2, "text": null}\n')
    sentences = read_sentences(path)
    assert list(sentences) == ["one", "two"]
    assert sentences.counts == Counts(read=3, kept=2, blank=1)


def test_the_first_line_of_a_single_column_is_its_header_and_that_is_told(write, caplog):
    path = write("a.csv", "first\nsecond\n")
    caplog.set_level("INFO")
    assert list(read_sentences(path)) == ["second"]
    assert f"{path}: its first line, 'first', is taken as a header; --column 1 reads it as text" in caplog.text
    assert list(read_sentences(path, columns=("1",))) == ["first", "second"]


def test_csv_quoting_and_newlines_in_quotes(write):
    path = write("a.csv", 'text,n\n"a ""word"", and\na line",1\nit is 5" wide,2\n')
    assert list(read_sentences(path)) == ['a "word", and\na line', 'it is 5" wide']
    assert list(read_sentences(write("b.csv", 'text\r\n"two\r\nlines"\r\n'))) == ["two\r\nlines"]


def test_tsv_has_no_quoting(write):
    path = write("a.tsv", 'text\tn\n"open\t1\n""\t2\n"closed"\t3\n')
    assert list(read_sentences(path)) == ['"open', '""', '"closed"']


def test_standard_input(monkeypatch):
    buffer = io.BytesIO("one\r\nzwölf\n\xa0\n".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer, encoding="ascii"))
    sentences = read_sentences("-")
    assert list(sentences) == ["one", "zwölf"]
    assert sentences.counts.blank == 1
    gc.collect()
    assert not buffer.closed


def test_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["sh", "-c", f"printf 'one\\ntwo\\n' > '{path}'"]):
        assert list(read_sentences(path)) == ["one", "two"]


# Folders


def test_folder_is_read_recursively_and_sorted(write, tmp_path):
    write("folder/b.txt", "four\n")
    write("folder/a/z.csv", "text\nthree\n")
    write("folder/a/b.jsonl.gz", gzip.compress(b'{"text": "two"}\n'))
    write("folder/a/a.gz", gzip.compress(b"one\n"))
    write("folder/README.md", "not this\n")
    write("folder/.hidden.txt", "nor this\n")
    write("folder/.cache/c.txt", "nor this\n")
    assert list(read_sentences(tmp_path / "folder")) == ["one", "two", "three", "four"]


def test_folder_without_data(write, tmp_path):
    write("folder/README.md", "x\n")
    with pytest.raises(InputError, match=r"folder: the folder holds no file.*\.txt.*\.parquet.*\.zst"):
        read_sentences(tmp_path / "folder")


def test_folder_of_a_saved_dataset(tmp_path):
    datasets.Dataset.from_dict({"text": TWO}).save_to_disk(tmp_path / "saved")
    assert list(read_sentences(tmp_path / "saved")) == TWO


# Columns


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("sentence", "text", "n"), ["S"]),
        (("text", "sentence1", "sentence2"), ["T"]),
        (("sentence2", "n", "sentence1"), ["S1", "S2"]),
    ],
)
def test_default_columns(write, tmp_path, columns, expected):
    cells = {"sentence": "S", "text": "T", "sentence1": "S1", "sentence2": "S2", "n": "N"}
    row = {column: cells[column] for column in columns}
    sources = [
        write("a.csv", ",".join(row) + "\n" + ",".join(row.values())),
        write("a.tsv", "\t".join(row) + "\n" + "\t".join(row.values())),
        write("a.jsonl", json.dumps(row)),
        parquet(tmp_path / "a.parquet", **{name: [cell] for name, cell in row.items()}),
        datasets.Dataset.from_list([row]),
    ]
    for source in sources:
        assert list(read_sentences(source)) == expected


def test_several_columns_row_by_row(write, tmp_path):
    rows = [{"a": "a1", "b": "b1", "c": "c1"}, {"a": "a2", "b": "b2", "c": "c2"}]
    sources = [
        write("a.csv", "a,b,c\na1,b1,c1\na2,b2,c2\n"),
        write("a.tsv", "a\tb\tc\na1\tb1\tc1\na2\tb2\tc2\n"),
        write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        parquet(tmp_path / "a.parquet", a=["a1", "a2"], b=["b1", "b2"], c=["c1", "c2"]),
        datasets.Dataset.from_list(rows),
    ]
    for source in sources:
        assert list(read_sentences(source, columns=("c", "a"))) == ["c1", "a1", "c2", "a2"]


def test_only_column_of_a_table(write):
    assert list(read_sentences(write("a.csv", "quote\none\ntwo\n"))) == ["one", "two"]


def test_header_names_are_stripped_of_bom_and_spaces(write):
    assert list(read_sentences(write("a.csv", b"\xef\xbb\xbftext, n\none,1\n"))) == ["one"]


def test_numbered_columns_mean_no_header(write):
    path = write("a.tsv", "0\tone\ttwo\n1\tthree\tfour\textra\n")
    assert list(read_sentences(path, columns=("2",))) == ["one", "three"]
    assert list(read_sentences(path, columns=("3", "2"))) == ["two", "one", "four", "three"]


def test_column_zero(write):
    with pytest.raises(InputError, match="no column '0'; columns are counted from 1"):
        read_sentences(write("a.csv", "a,b\n"), columns=("0",))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_no_default_column(write, name):
    content = "a,b\n1,2\n" if name == "a.csv" else '{"a": 1, "b": 2}'
    with pytest.raises(InputError, match=r"the columns are: a, b; choose with --column NAME, or --column 2"):
        read_sentences(write(name, content))


def test_long_column_names_are_shortened(write):
    with pytest.raises(InputError, match=r"the columns are: 1, A man is playing a very large and shi\.\.\.; choose"):
        read_sentences(write("a.tsv", "1\tA man is playing a very large and shiny instrument.\n"))


def test_missing_column(write, tmp_path):
    sources = [
        write("a.csv", "a,text\n1,2\n"),
        write("a.tsv", "a\ttext\n1\t2\n"),
        write("a.jsonl", '{"a": "1", "text": "2"}'),
        parquet(tmp_path / "a.parquet", a=["1"], text=["2"]),
    ]
    for source in sources:
        with pytest.raises(InputError, match=rf"{source.name}(:1)?: no column 'b'; the columns are: a, text"):
            read_sentences(source, columns=("b",))
    with pytest.raises(InputError, match="the dataset: no column 'b'; the columns are: text"):
        read_sentences(datasets.Dataset.from_dict({"text": TWO}), columns=("b",))


def test_column_missing_in_a_later_object(write):
    with pytest.raises(InputError, match=r"a.jsonl:2: no column 'text'; the columns are: sentence"):
        read_sentences(write("a.jsonl", '{"text": "one"}\n{"sentence": "two"}\n'))


def test_column_that_is_not_text(write, tmp_path):
    with pytest.raises(InputError, match=r"a.jsonl:1: column 'text' holds int, not text"):
        read_sentences(write("a.jsonl", '{"text": 3}'))
    with pytest.raises(InputError, match=r"a.parquet: column 'n' holds float, not text"):
        read_sentences(parquet(tmp_path / "a.parquet", n=[1.5]), columns=("n",))


def test_rows_with_a_wrong_number_of_fields(write):
    path = write("a.csv", 'text,n\n"one\nline",1\ntwo\n')
    with pytest.raises(InputError, match=r"a.csv:4: number of fields is 1 where 2 are needed"):
        read_sentences(path)
    with pytest.raises(
        InputError, match=r"b.csv:2: number of fields is 3 where 2 are needed; is a separator inside a field"
    ):
        read_sentences(write("b.csv", "text,n\none, two,1\n"))
    with pytest.raises(InputError, match=r"a.tsv:2: number of fields is 1 where 2 are needed"):
        read_sentences(write("a.tsv", "0\tone\n1\n"), columns=("2",))


# Broken files


def test_broken_json(write):
    with pytest.raises(InputError, match=r"a.jsonl:3: broken JSON"):
        read_sentences(write("a.jsonl", '{"text": "one"}\n\n{"text": \n'))
    with pytest.raises(InputError, match=r"b.jsonl:1: a line holds a JSON object or string, not list"):
        read_sentences(write("b.jsonl", '["one"]\n'))


def test_open_quote_in_csv(write):
    with pytest.raises(InputError, match=r"a.csv:3: broken CSV .*is a quotation mark left open"):
        read_sentences(write("a.csv", 'text,n\none,1\n"two,2\nthree,3\n'))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_truncated_and_false_compression(write, suffix):
    whole = COMPRESS[suffix]("".join(f"sentence {n * n}\n" for n in range(5000)).encode())
    with pytest.raises(InputError, match=rf"half.txt{suffix}: (not a whole|cannot be read)"):
        read_sentences(write(f"half.txt{suffix}", whole[: len(whole) // 2]))
    with pytest.raises(InputError, match=rf"plain.txt{suffix}: (not a whole|cannot be read)"):
        read_sentences(write(f"plain.txt{suffix}", "just text\n"))


def test_broken_parquet(write):
    with pytest.raises(InputError, match=r"a.parquet: not a whole parquet file"):
        read_sentences(write("a.parquet", "just text, of some length\n"))


@pytest.mark.parametrize("name", ["missing.txt", "a/missing.gz", "./missing", "/no/such/file", "a/b/c", "two words", ""])
def test_missing_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"'{name}': no such file or folder$"):
        read_sentences(name)


def test_missing_path_in_a_list(write, tmp_path):
    with pytest.raises(InputError, match=r"b.txt': no such file or folder"):
        read_sentences([write("a.txt", "one\n"), tmp_path / "b.txt"])


def test_name_that_is_too_long():
    with pytest.raises(InputError, match="cannot be read"):
        read_sentences("word " * 1000)


def test_unreadable_file_and_folder():
    # Not in tmp_path, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, closed = folder / "a.txt", folder / "closed"
        path.write_text("one\n")
        closed.mkdir()
        (closed / "b.txt").write_text("two\n")
        for entry, mode in ((folder, 0o755), (path, 0), (closed, 0)):
            entry.chmod(mode)
        with unprivileged():
            for source, culprit in ((path, "a.txt"), (closed, "closed"), (folder, "closed"), (closed / "b.txt", "b.txt")):
                with pytest.raises(InputError, match=rf"{culprit}: cannot be read \(Permission denied\)"):
                    read_sentences(source)
        closed.chmod(0o700)


@pytest.mark.parametrize("content", ["", "\n \n\t\n"])
def test_no_sentences(write, content):
    with pytest.raises(InputError, match=r"a.txt holds no sentences: 0 sentences kept of \d read"):
        read_sentences(write("a.txt", content))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt.gz"])
def test_empty_file(write, name):
    with pytest.raises(InputError, match="holds no sentences: 0 sentences kept of 0 read"):
        read_sentences(write(name, ""))


def test_no_sentences_in_a_list():
    with pytest.raises(InputError, match=r"the source holds no sentences: 0 sentences kept of 1 read \(1 blank\)"):
        read_sentences([" "])


# Cleaning


def test_lines_end_at_newline_and_carriage_return_only(write):
    inside = ["next\x85line", "line\u2028separator", "para\u2029graph", "vertical\x0btab", "form\x0cfeed", "unit\x1cs"]
    assert list(read_sentences(write("a.txt", "\n".join(inside)))) == inside
    assert list(read_sentences(write("b.txt", "one\r\ntwo\rthree\n\rfour"))) == ["one", "two", "three", "four"]


def test_byte_order_marks(write):
    text = "one café\ntwo \U0001f600\n"
    contents = [
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        b"\xfe\xff" + text.encode("utf-16-be"),
        b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le"),
    ]
    for number, content in enumerate(contents):
        sentences = read_sentences(write(f"{number}.txt", content))
        assert list(sentences) == ["one café", "two \U0001f600"]
        assert sentences.counts == Counts(read=2, kept=2)


def test_undecodable_bytes_are_replaced_and_counted(write):
    sentences = read_sentences(write("a.txt", b"caf\xe9 au lait\nfine\nfine \xef\xbf\xbd too\n\xff\xff\n"))
    assert list(sentences) == ["caf\ufffd au lait", "fine", "fine \ufffd too", "\ufffd\ufffd"]
    assert sentences.counts.repaired == 2


def test_undecodable_utf16(write):
    content = b"\xff\xfe" + "one\n".encode("utf-16-le") + b"\x00\xd8" + "x\ntwo".encode("utf-16-le") + b"\x00"
    sentences = read_sentences(write("a.txt", content))
    assert list(sentences) == ["one", "\ufffdx", "two\ufffd"]
    assert sentences.counts.repaired == 2


def test_lone_surrogates_of_json_and_python(write):
    sentences = read_sentences(write("a.jsonl", r'"half \ud83d"' + "\n" + r'"whole \ud83d\ude00"'))
    assert list(sentences) == ["half \ufffd", "whole \U0001f600"]
    assert sentences.counts.repaired == 1
    assert list(read_sentences(["half \ud83d"])) == ["half \ufffd"]


def test_white_space_and_nul(write):
    path = write("a.txt", "  o\0ne  two\t three \u3000\n\0\n\xa0\nfour\n")
    sentences = read_sentences(path)
    assert list(sentences) == ["one  two\t three", "four"]
    assert sentences.counts == Counts(read=4, kept=2, blank=2)
    assert list(read_sentences(write("a.jsonl", '"o\\u0000ne"\n"t\0wo"'))) == ["one", "two"]


def test_unicode_is_untouched():
    texts = [
        "\U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea",
        "e\u0301 é",
        "\ufb01 \uff21",
        "שלום \u200f\u0639\u0627\u0644\u0645",
        "中文。",
    ]
    assert list(read_sentences(texts)) == texts


def test_long_sentences_are_cut():
    exact, longer, spaced = "x" * MAX_CHARACTERS, "y" * (MAX_CHARACTERS + 1), "z" * (MAX_CHARACTERS - 1) + " z"
    sentences = read_sentences([exact, longer, spaced])
    assert list(sentences) == [exact, "y" * MAX_CHARACTERS, "z" * (MAX_CHARACTERS - 1)]
    assert sentences.counts.cut == 2


def test_duplicates_after_cleaning():
    texts = ["one", "two", " one ", "One", "two", "one"]
    dropped = read_sentences(texts)
    assert list(dropped) == ["one", "two", "One"]
    assert dropped.counts == Counts(read=6, kept=3, duplicates=3)
    kept = read_sentences(texts, deduplicate=False)
    assert list(kept) == ["one", "two", "one", "One", "two", "one"]
    assert kept.counts == Counts(read=6, kept=6, duplicates=3)


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        (Counts(read=10, kept=10), "10 sentences kept of 10 read"),
        (Counts(read=1, kept=1), "1 sentence kept of 1 read"),
        (
            Counts(read=17_300, kept=17_256, blank=44, duplicates=1_799),
            "17,256 sentences kept of 17,300 read (44 blank, 1,799 duplicates kept)",
        ),
        (
            Counts(read=5, kept=4, duplicates=1, cut=2, repaired=3),
            "4 sentences kept of 5 read (1 duplicate dropped, 2 cut at 5,000 characters, 3 with undecodable bytes)",
        ),
    ],
)
def test_summary(counts, line):
    assert counts.summary() == line


# Python objects


def test_iterables():
    assert list(read_sentences(TWO)) == TWO
    assert list(read_sentences(tuple(TWO))) == TWO
    assert list(read_sentences(sentence for sentence in TWO)) == TWO
    assert list(read_sentences(read_sentences(TWO))) == TWO


def test_list_of_paths_and_of_paths_and_sentences(write):
    paths = [write("b.txt", "one\n"), write("a.csv", "text\ntwo\n")]
    assert list(read_sentences(paths)) == ["one", "two"]
    assert list(read_sentences(["zero", *paths])) == ["zero", "one", "two"]


def test_file_names_in_a_list_are_not_taken_for_sentences(write):
    with pytest.raises(InputError, match=r"a file has this name; give files as pathlib.Path"):
        read_sentences([str(write("a.txt", "one\n"))])
    assert len(read_sentences(["word " * 900])) == 1  # too long for the name of a file


@pytest.mark.parametrize(("item", "kind"), [(None, "NoneType"), (3, "int"), (b"x", "bytes"), (["x"], "list")])
def test_items_that_are_not_str(item, kind):
    with pytest.raises(InputError, match=f"sentence at index 2 is of type {kind}"):
        read_sentences([*TWO, item])


@pytest.mark.parametrize("source", [None, 3, {"text": TWO}, datasets.DatasetDict(train=datasets.Dataset.from_dict({}))])
def test_objects_that_are_no_source(source):
    with pytest.raises(InputError, match=f"a {type(source).__name__} is not a source of sentences"):
        read_sentences(source)


def test_dataset_with_missing_values_and_format():
    dataset = datasets.Dataset.from_dict({"n": range(3), "text": ["one", None, "two"]})
    sentences = read_sentences(dataset.with_format("arrow").select([2, 1, 0]))
    assert list(sentences) == ["two", "one"]
    assert sentences.counts.blank == 1


def test_reading_a_list_imports_nothing_heavy():
    code = (
        "import sys; from selfguide.data.sentences import read_sentences; import selfguide.data.pairs; "
        "assert len(read_sentences(['one', 'two'])) == 2; "
        "assert not {'torch', 'datasets', 'pyarrow', 'zstandard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Hub datasets


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing", "nobody/nothing-v1.0:config"])
def test_hub_dataset_offline(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=f"'{name}': no such file or folder, and not reachable as a hub") as caught:
        read_sentences(name)
    assert "\n" not in str(caught.value)


def test_names_of_loaders_are_not_hub_datasets(write, tmp_path, monkeypatch):
    write("a.txt", "would be read by load_dataset('text')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"'text': no such file or folder$"):
        read_sentences("text")


def test_hub_dataset_is_loaded_as_asked(monkeypatch):
    calls = []

    def load_dataset(*args, **options):
        calls.append((args, options))
        return datasets.Dataset.from_dict({"text": TWO})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert list(read_sentences("user/name:config", split="test", revision="abc")) == TWO
    assert list(read_sentences([Path("user/name")])) == TWO
    assert calls == [
        (("user/name", "config"), {"split": "test", "revision": "abc"}),
        (("user/name", None), {"split": "train", "revision": None}),
    ]


def test_hub_dataset_with_an_unknown_split(monkeypatch):
    def load_dataset(*args, **options):
        raise ValueError("Unknown split 'tset'.\nShould be one of ...")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(InputError, match=r"split 'tset' \(Unknown split 'tset'\.\); check"):
        read_sentences("user/name", split="tset")


# The sequence


def by_hand(sentences):
    return hashlib.sha256(b"".join(sentence.encode() + b"\0" for sentence in sentences)).hexdigest()


@pytest.mark.parametrize("limit_in_memory", [0, 4, 5, 100])
def test_sequence_in_memory_and_on_disk(limit_in_memory):
    expected = ["one", "zwölf", "\U0001f600", "a\nline", "five"]
    sentences = read_sentences([*expected, " ", "one"], limit_in_memory=limit_in_memory)
    assert isinstance(sentences, Sentences)
    assert len(sentences) == 5
    assert list(sentences) == list(sentences) == expected
    assert [sentences[index] for index in range(5)] == expected
    assert sentences[-1] == "five"
    assert sentences.counts == Counts(read=7, kept=5, blank=1, duplicates=1)
    assert sentences.fingerprint == by_hand(expected)
    with pytest.raises(IndexError):
        sentences[5]
    with pytest.raises(TypeError):
        sentences[1:2]
    assert list(pickle.loads(pickle.dumps(sentences))) == expected


def test_fingerprint_tells_order_and_borders_apart():
    sources = [["ab", "c"], ["a", "bc"], ["c", "ab"], ["ab\nc"]]
    assert len({read_sentences(source).fingerprint for source in sources}) == 4


def test_many_chunks_on_disk(temporary_folder):
    expected = [f"sentence {n}" for n in range(25_000)]
    sentences = read_sentences(iter(expected), limit_in_memory=10)
    (folder,) = temporary_folder.iterdir()
    assert list(sentences) == expected
    assert [sentences[n] for n in (0, 9_999, 10_000, 24_999)] == [expected[n] for n in (0, 9_999, 10_000, 24_999)]
    assert sentences.fingerprint == by_hand(expected)
    del sentences
    gc.collect()
    assert not folder.exists()


def test_few_sentences_make_no_file(temporary_folder):
    read_sentences(TWO, limit_in_memory=2)
    assert not list(temporary_folder.iterdir())


def test_no_file_is_left_by_a_failure(temporary_folder):
    with pytest.raises(InputError):
        read_sentences(["one", "two", "three", None], limit_in_memory=1)
    gc.collect()
    assert not list(temporary_folder.iterdir())


def test_no_file_is_left_at_exit(temporary_folder):
    code = (
        "import tempfile; from selfguide.data.sentences import read_sentences; "
        f"tempfile.tempdir = {str(temporary_folder)!r}; "
        "kept = read_sentences(['one', 'two'], limit_in_memory=1); import os; assert os.listdir(tempfile.tempdir)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not list(temporary_folder.iterdir())


def test_a_forked_process_leaves_the_file(temporary_folder):
    code = (
        "import os, tempfile; from selfguide.data.sentences import read_sentences; "
        f"tempfile.tempdir = {str(temporary_folder)!r}; "
        "kept = read_sentences(['one', 'two'], limit_in_memory=1); child = os.fork(); \n"
        "if child == 0: del kept; os._exit(0)\n"
        "os.waitpid(child, 0); assert os.listdir(tempfile.tempdir)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_is_not_held_in_memory(write):
    line = "x" * 999 + "\n"
    path = write("a.txt.gz", gzip.compress((line * 60_000).encode()))
    code = (
        "import resource; from selfguide.data.sentences import read_sentences\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"before = peak(); kept = read_sentences({str(path)!r})\n"
        "assert kept.counts.read == 60_000 and len(kept) == 1; assert peak() - before < 20_000, peak() - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
