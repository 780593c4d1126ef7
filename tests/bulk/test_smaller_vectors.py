"""``encode_files`` with int8 vectors and bits: the numbers, every format, the scale, going on, queries, what is refused."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from sentence_transformers.util import quantize_embeddings

from selfguide import InputError
from selfguide.bulk.config import FORMATS
from selfguide.bulk.encode import encode_files
from selfguide.cli.main import main
from selfguide.compact import Scale
from selfguide.files import read_json
from tiny_models import DIM
from tiny_runs import SENTENCES, power_cut

SHARD = 7


@pytest.fixture
def encode(tmp_path, monkeypatch, tiny_bert):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("".join(f"{text}\n" for text in SENTENCES))

    def run(output, data="sentences.txt", **settings):
        settings = {"model": tiny_bert, "shard_size": SHARD, "device": "cpu", "progress": False, **settings}
        return encode_files(data, output, **settings)

    return run


def read(name):
    if name.endswith(".npy"):
        return np.load(name, mmap_mode="r")
    if name.endswith(".parquet"):
        column = pyarrow.parquet.read_table(name)["vector"]
        return np.array(column.to_pylist(), column.type.value_type.to_pandas_dtype())
    return np.array([json.loads(line)["vector"] for line in Path(name).read_text().splitlines()])


@pytest.mark.parametrize("file_format", FORMATS)
def test_int8(encode, file_format):
    encode("float.npy")
    floats = np.load("float.npy")
    done = encode(f"codes.{file_format}", vectors="int8")
    codes = read(f"codes.{file_format}")
    assert codes.dtype == (np.int64 if file_format == "jsonl" else np.int8)
    assert (done.count, done.dimension) == codes.shape == floats.shape
    assert done.int8_step == pytest.approx(np.abs(floats[:SHARD]).max() / 127)
    record = read_json(Path(f"codes.{file_format}.json"))
    assert (record["vectors"], record["int8_step"]) == ("int8", done.int8_step)
    theirs = quantize_embeddings(floats, "int8", ranges=np.array(record["int8_ranges"], np.float32))
    np.testing.assert_array_equal(codes, theirs)


@pytest.mark.parametrize("file_format", FORMATS)
def test_bits(encode, file_format):
    encode("float.npy", truncate_dim=21)
    done = encode(f"bits.{file_format}", vectors="binary", truncate_dim=21)
    packed = read(f"bits.{file_format}").astype(np.uint8)
    assert (done.count, done.dimension, done.int8_step) == (len(SENTENCES), 21, None)
    assert packed.shape == (len(SENTENCES), 3)
    np.testing.assert_array_equal(packed, quantize_embeddings(np.load("float.npy"), "ubinary"))
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1)[:, :21], np.load("float.npy") > 0)
    assert encode("all.npy", vectors="binary").dimension == DIM


def test_room(encode, tmp_path):
    sizes = {}
    for vectors in ("float32", "int8", "binary"):
        encode(f"{vectors}.npy", vectors=vectors)
        sizes[vectors] = (tmp_path / f"{vectors}.npy").stat().st_size - 128  # without the header
    assert sizes["float32"] == 4 * sizes["int8"] == 32 * sizes["binary"]


def test_queries_on_the_scale_of_a_corpus(encode):
    encode("corpus.npy", vectors="int8")
    for scale_of in ("corpus.npy", "corpus.npy.json"):
        encode("queries.npy", data=SENTENCES[20:23], vectors="int8", scale_of=scale_of, overwrite=True)
        np.testing.assert_array_equal(np.load("queries.npy"), np.load("corpus.npy")[20:23])
    encode("alone.npy", data=SENTENCES[20:23], vectors="int8")
    assert read_json(Path("alone.npy.json"))["int8_step"] != read_json(Path("corpus.npy.json"))["int8_step"]


# Ends in the middle


@pytest.fixture
def ended(encode, tmp_path, monkeypatch):
    """Three shards are there, then the power is cut."""
    with power_cut(monkeypatch, after=3):
        encode("codes.npy", vectors="int8")
    return tmp_path / "codes.npy.shards"


def test_it_goes_on_with_the_same_scale(encode, ended):
    encode("whole.npy", vectors="int8")
    assert encode("codes.npy", vectors="int8").encoded == len(SENTENCES) - 3 * SHARD
    np.testing.assert_array_equal(np.load("codes.npy"), np.load("whole.npy"))
    assert read_json(Path("codes.npy.json"))["int8_step"] == read_json(Path("whole.npy.json"))["int8_step"]


def test_without_the_scale_nothing_is_kept(encode, ended):
    (ended / "scale.json").unlink()
    assert encode("codes.npy", vectors="int8").encoded == len(SENTENCES)


def test_another_first_shard_has_another_scale_so_that_nothing_is_kept(encode, ended):
    others = ["bird", *SENTENCES[1:]]
    with pytest.raises(InputError, match="the sentences are not those that"):
        encode("codes.npy", data=others, vectors="int8")
    done = encode("codes.npy", data=others, vectors="int8", overwrite=True)
    assert done.encoded == len(others)
    encode("whole.npy", data=others, vectors="int8")
    np.testing.assert_array_equal(np.load("codes.npy"), np.load("whole.npy"))


def test_other_vectors_are_refused_or_begin_anew(encode, ended):
    with pytest.raises(InputError, match=r"begun with another model or other settings \(vectors\)"):
        encode("codes.npy", vectors="binary")
    encode("corpus.npy", vectors="int8", data=SENTENCES[::-1])
    with pytest.raises(InputError, match=r"other settings \(int8_step\)"):
        encode("codes.npy", vectors="int8", scale_of="corpus.npy")
    assert encode("codes.npy", vectors="binary", overwrite=True).encoded == len(SENTENCES)


# Wrong use


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vectors": "int4"}, "--vectors 'int4' is not known; choose one of: float32, int8, binary"),
        ({"vectors": "binary", "scale_of": "a.npy"}, "--scale-of does not go with --vectors binary, which has no scale"),
        (
            {"vectors": "int8", "scale_of": "a.npy"},
            "--scale-of: 'a.npy.json' is not the record of an encoding with --vectors",
        ),
        ({"vectors": "int8", "scale_of": "float.npy"}, "'float.npy.json' is not the record"),
    ],
    ids=str,
)
def test_wrong_use(encode, settings, message):
    encode("float.npy")
    with pytest.raises(InputError, match=message):
        encode("x.npy", **settings)


def test_the_command_says_what_was_stored(encode, tiny_bert, capfd):
    given = ["encode", "--model", str(tiny_bert), "--data", "sentences.txt", "--device", "cpu", "-o", "b.npy"]
    assert main([*given, "--vectors", "binary"]) == 0
    assert capfd.readouterr().out.startswith(f"{len(SENTENCES)} binary vectors of {DIM} dimensions: b.npy\n")


def test_scales_in_a_record_are_read_to_the_last_bit(encode):
    encode("codes.npy", vectors="int8")
    step = read_json(Path("codes.npy.json"))["int8_step"]
    np.testing.assert_array_equal(Scale(step).ranges, np.array(read_json(Path("codes.npy.json"))["int8_ranges"], np.float32))
