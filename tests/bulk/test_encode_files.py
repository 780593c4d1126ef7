"""``encode_files``: order, formats, settings, going on after an end in the middle, and what is refused."""

import json

import numpy as np
import pyarrow.parquet
import pytest
from sentence_transformers import SentenceTransformer

from selfguide import InputError
from selfguide.bulk.coders import FirstTokenCoder, PlainCoder
from selfguide.bulk.config import FORMATS, EncodeConfig
from selfguide.bulk.encode import encode_files
from selfguide.bulk.formats import WRITERS
from selfguide.bulk.loading import load_coder
from selfguide.embedders import trial
from selfguide.embedders.loading import load, load_embedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.files import only_one, read_json, write_json
from tiny_runs import SENTENCES, power_cut, tree

TEXTS = [*SENTENCES, "", "ünïcödé 猫 \u2028 x", SENTENCES[0]]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    (tmp_path / "sentences.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return tmp_path


@pytest.fixture
def encode(place, tiny_bert):
    def run(output="vectors.npy", data="sentences.txt", **settings):
        settings = {"model": tiny_bert, "shard_size": 7, "device": "cpu", "progress": False, **settings}
        return encode_files(data, output, **settings)

    return run


def read(path):
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if path.suffix == ".parquet":
        return np.array(pyarrow.parquet.read_table(path)["vector"].to_pylist(), np.float32)
    return np.array([json.loads(line)["vector"] for line in path.read_text().splitlines()], np.float32)


# What comes out


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_format_holds_the_vectors_of_the_lines_in_order(encode, place, tiny_bert, file_format):
    done = encode(f"vectors.{file_format}")
    wanted = load(tiny_bert, device="cpu").encode(TEXTS)
    found = read(place / f"vectors.{file_format}")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert (done.count, done.dimension, done.encoded, done.distance) == (*wanted.shape, len(TEXTS), None)
    assert {path.name for path in place.iterdir()} == {
        "sentences.txt", f"vectors.{file_format}", f"vectors.{file_format}.json"
    }  # fmt: skip


def test_formats_agree_to_the_last_bit_and_are_all_known(encode, place):
    for name in ("a.npy", "a.parquet", "a.jsonl"):
        encode(name)
    assert np.array_equal(read(place / "a.npy"), read(place / "a.parquet"))
    assert np.array_equal(read(place / "a.npy"), read(place / "a.jsonl"))
    assert set(WRITERS) == set(FORMATS)


def test_the_format_can_be_named(encode, place):
    encode("vectors.out", format="jsonl")
    assert len((place / "vectors.out").read_text().splitlines()) == len(TEXTS)


def test_a_record_lies_beside_the_vectors(encode, place, tiny_bert):
    done = encode()
    record = read_json(place / "vectors.npy.json")
    assert (record["model"], record["precision"], record["count"]) == (str(tiny_bert), "float32", len(TEXTS))
    assert record["dimension"] == done.dimension and record["sentences_a_second"] > 0
    assert record["embedder"]["weights"] == load(tiny_bert).protocol["weights"]
    assert record["packages"]["torch"]


def test_fewer_dimensions_and_length_one_are_as_in_sentence_transformers(encode, place, tiny_bert):
    PooledEmbedder(load_encoder(tiny_bert)).save("encoder")
    theirs = SentenceTransformer("encoder", device="cpu", truncate_dim=5).encode(TEXTS, normalize_embeddings=True)
    encode(model="encoder", truncate_dim=5, normalize=True)
    np.testing.assert_allclose(read(place / "vectors.npy"), theirs, atol=1e-5)


def test_sentences_from_python_several_files_and_columns(encode, place):
    encode("all.npy")
    encode("list.npy", data=TEXTS)
    assert np.array_equal(read(place / "all.npy"), read(place / "list.npy"))
    (place / "table.csv").write_text("id,body\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(TEXTS)))
    encode("table.npy", data="table.csv", column=["body"])
    assert np.array_equal(read(place / "all.npy"), read(place / "table.npy"))
    encode("twice.npy", data=[place / "sentences.txt", place / "sentences.txt"], shard_size=1000)
    assert len(read(place / "twice.npy")) == 2 * len(TEXTS)


def test_the_last_line_may_be_blank_or_have_no_end(encode, place):
    (place / "two.txt").write_text("the cat\n\n")
    assert encode("two.npy", data="two.txt").count == 2
    (place / "one.txt").write_text("the cat")
    assert encode("one.npy", data="one.txt").count == 1


# Which way is taken


def coder_of(model, **settings):
    return load_coder(EncodeConfig(model=str(model), output="x.npy", device="cpu", **settings))


@pytest.mark.parametrize("embedder", ["mean", "first-last", "prompt"])
def test_any_other_embedder_goes_its_own_way(encode, place, tiny_bert, embedder):
    encode(embedder=embedder)
    wanted = load_embedder(tiny_bert, embedder=embedder, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(read(place / "vectors.npy"), wanted, atol=1e-5)


def test_the_quick_way_is_for_cls_of_known_families_alone(place, tiny_bert, tiny_folder):
    assert isinstance(coder_of("mini"), FirstTokenCoder)
    assert isinstance(coder_of(tiny_bert), FirstTokenCoder)
    assert isinstance(coder_of(tiny_bert, embedder="cls"), FirstTokenCoder)
    assert isinstance(coder_of(tiny_bert, embedder="mean"), PlainCoder)
    assert isinstance(coder_of(tiny_folder("distilbert")), PlainCoder)


def test_of_sentence_transformers_folders_those_with_nothing_but_cls_go_the_quick_way(place, tiny_bert):
    encoder = load_encoder(tiny_bert)
    for pooling in ("cls", "mean"):
        PooledEmbedder(encoder, pooling=pooling).save(pooling)
    SentenceTransformer("cls", device="cpu").save("theirs")
    assert isinstance(coder_of("cls"), FirstTokenCoder)
    assert isinstance(coder_of("theirs"), FirstTokenCoder)
    assert isinstance(coder_of("mean"), PlainCoder)
    modules = read_json(place / "cls" / "modules.json")
    normalize = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
    (place / "cls" / "2_Normalize").mkdir()
    write_json(place / "cls" / "modules.json", [*modules, normalize])
    assert isinstance(coder_of("cls"), PlainCoder)
    write_json(place / "cls" / "modules.json", modules)
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query", "similarity_fn_name": "cosine"}
    write_json(place / "cls" / "config_sentence_transformers.json", prompts)
    assert isinstance(coder_of("cls"), PlainCoder)


# Ends in the middle


@pytest.fixture
def ended(encode, place, monkeypatch):
    """Three shards are there, then the power is cut."""
    with power_cut(monkeypatch, after=3):
        encode()
    return place / "vectors.npy.shards"


def test_it_goes_on(encode, place, ended):
    encode("whole.npy")
    assert len(list(ended.glob("*.npy"))) == 3 and not (place / "vectors.npy").exists()
    done = encode()
    assert done.encoded == len(TEXTS) - 21
    np.testing.assert_array_equal(read(place / "vectors.npy"), read(place / "whole.npy"))
    assert not ended.exists()


@pytest.mark.parametrize("change", ["another", "shorter"])
def test_other_sentences_are_refused_or_replace_the_first_ones(encode, place, ended, change):
    texts = ["the dog", *TEXTS[1:]] if change == "another" else TEXTS[:14]
    (place / "sentences.txt").write_text("".join(f"{text}\n" for text in texts))
    before = tree(ended)
    with pytest.raises(InputError, match=r"the sentences are not those that 'vectors\.npy\.shards' was begun with"):
        encode()
    assert tree(ended) == before
    encode("whole.npy")
    encode(overwrite=True)
    np.testing.assert_array_equal(read(place / "vectors.npy"), read(place / "whole.npy"))


def test_other_settings_are_refused_or_begin_anew(encode, place, ended):
    with pytest.raises(InputError, match=r"begun with another model or other settings \(normalize\); use the same"):
        encode(normalize=True)
    assert encode(normalize=True, overwrite=True).encoded == len(TEXTS)


# Precision


def test_the_distance_of_another_precision_is_told(encode, place, monkeypatch, caplog):
    monkeypatch.setattr(trial, "cpu_computes", lambda precision: True)
    monkeypatch.setattr(FirstTokenCoder, "lower", lambda self, dtype: self.encoder.model.bfloat16().float())
    caplog.set_level("INFO", logger="selfguide")
    done = encode(precision="bf16", shard_size=100)
    assert 0.99 < done.distance.mean_cosine < 1 and 0 < done.distance.max_difference < 0.5
    assert done.distance.sentences == len(TEXTS)
    assert f"bf16 against float32, {len(TEXTS)} sentences: mean cosine 0.99" in caplog.text
    assert read_json(place / "vectors.npy.json")["distance"]["mean_cosine"] == done.distance.mean_cosine


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output": "vectors.txt"}, r"'vectors.txt' ends in none of .npy, .parquet, .jsonl; choose one, or give --format"),
        ({"output": "there.npy"}, "'there.npy' exists already; choose another file, or --overwrite"),
        ({"output": "folder.npy"}, "'folder.npy' is a folder"),
        ({"output": "taken.npy"}, "'taken.npy.shards', where shards are stored, is a file"),
        ({"output": "missing/a.npy"}, "'missing' is no folder that allows it"),
        ({"output": ""}, "no output file was given"),
        ({"data": "missing.txt"}, "'missing.txt': no such file or folder"),
        ({"data": "empty.txt"}, "empty.txt holds no sentences"),
        ({"data": []}, "the source holds no sentences"),
        ({"shard_size": 0, "precision": "int4"}, "--precision 'int4' is not known.*--shard-size is 0; it must be 1 or more"),
        ({"truncate_dim": 33}, "--truncate-dim is 33; the vectors have 32 dimensions"),
        (
            {"embedder": "mean", "batch_tokens": 64},
            "--batch-tokens is for .CLS. vectors of BERT-like.*leave it out",
        ),
        (
            {"output": "foreign.npy", "overwrite": True},
            "'foreign.npy.shards', where shards are stored, holds something",
        ),
        ({"modle": "x"}, "unknown setting 'modle' .did you mean 'model'"),
    ],
    ids=str,
)
def test_wrong_use(encode, place, settings, message):
    (place / "there.npy").write_text("")
    (place / "folder.npy").mkdir()
    (place / "taken.npy.shards").write_text("")
    (place / "foreign.npy.shards").mkdir()
    (place / "foreign.npy.shards" / "mine.txt").write_text("")
    (place / "empty.txt").write_text("")
    before = tree(place)
    with pytest.raises(InputError, match=message):
        encode(**settings)
    assert tree(place) == before


def test_a_cpu_that_breaks_down_is_left_alone(encode, monkeypatch):
    monkeypatch.setattr(trial, "cpu_computes", lambda precision: False)
    with pytest.raises(
        InputError, match="--precision fp16 was asked for, but this CPU broke down when fp16 was tried; use float32"
    ):
        encode(precision="fp16")


def test_a_second_run_into_the_same_file_is_refused(encode, place):
    with only_one(place / "vectors.npy"), pytest.raises(InputError, match="another run is writing"):
        encode()
    assert tree(place).keys() == {"sentences.txt"}
    assert encode().count == len(TEXTS)
