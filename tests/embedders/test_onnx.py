import hashlib
import importlib.util
import json
import pickle
import shutil
import sys

import numpy as np
import pytest
from onnx import helper
from sklearn.base import clone

import selfguide
from selfguide.cli.main import main
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.onnx import OnnxEmbedder, load_onnx
from selfguide.embedders.onnx_graph import Graph
from selfguide.errors import InputError, MissingExtraError
from tiny_models import SENTENCES, WORDS
from tiny_onnx import (
    FLOAT,
    INT32,
    INT64,
    PLAIN_MEAN,
    STATES,
    STRING,
    TABLE,
    VOCABULARY,
    expected,
    write_graph,
    write_mean,
    write_tokenizer,
)
from tiny_sts import use_tiny_sts


@pytest.fixture
def folder(tmp_path):
    """A folder with a graph that takes token ids, and its tokenizer."""
    write_mean(tmp_path / "my-model" / "model.onnx")
    write_tokenizer(tmp_path / "my-model")
    return tmp_path / "my-model"


def write_text_graph(path, shape=("n",)):
    """Each sentence as a whole is a token, without tokenizer."""
    encode = helper.make_node(
        "LabelEncoder",
        ["inputs"],
        ["input_ids"],
        domain="ai.onnx.ml",
        keys_strings=WORDS,
        values_int64s=list(range(4, len(WORDS) + 4)),
        default_int64=1,
    )
    nodes = [encode, STATES, PLAIN_MEAN] if len(shape) == 2 else [encode, STATES]
    output = "mean" if len(shape) == 2 else "states"
    return write_graph(path, nodes, {"inputs": (STRING, list(shape))}, {output: (FLOAT, None)})


def test_vectors_are_those_of_the_graph(folder):
    embedder = selfguide.load(folder, device="cpu")
    assert isinstance(embedder, OnnxEmbedder)
    vectors = embedder.encode(SENTENCES)
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(SENTENCES), 5))
    np.testing.assert_allclose(vectors, [expected(sentence) for sentence in SENTENCES], atol=1e-6)
    np.testing.assert_array_equal(embedder.encode(SENTENCES), vectors)
    np.testing.assert_allclose(embedder.encode(SENTENCES[::-1])[::-1], vectors, atol=1e-6)
    np.testing.assert_allclose(np.concatenate([embedder.encode([one]) for one in SENTENCES]), vectors, atol=1e-6)


def test_odd_input(folder):
    embedder = load_onnx(folder)
    assert embedder.encode([]).shape == (0, 5)
    np.testing.assert_array_equal(embedder.encode(np.array(["bird"])), embedder.encode(["bird"]))
    with pytest.raises(InputError, match="a single text was given"):
        embedder.encode("bird")
    odd = ["", "  ", "the " * 500, "\u0645\u0631\u062d\u0628\u0627", "bird"]
    np.testing.assert_allclose(embedder.encode(odd), [expected(sentence) for sentence in odd], atol=1e-5)


def test_more_sentences_than_a_batch_holds(folder):
    draws = np.random.default_rng(1)
    sentences = [" ".join(draws.choice(WORDS, size=draws.integers(1, 90))) for _ in range(300)]
    vectors = load_onnx(folder).encode(sentences)
    np.testing.assert_allclose(vectors, [expected(sentence) for sentence in sentences], atol=1e-5)


def test_name_and_protocol(folder):
    embedder = load_onnx(folder)
    assert embedder.name == "my-model"
    assert embedder.protocol == {
        "pooling": "inside the graph",
        "output": "sentence_embedding",
        "max_length": 128,
        "precision": "float32",
        "weights": hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest(),
    }


@pytest.mark.parametrize(
    ("graph", "given", "name"),
    [
        ("use/model.onnx", "use", "use"),
        ("use/onnx/model.onnx", "use", "use"),
        ("use/use-large.onnx", "use", "use"),
        ("use/model.onnx", "use/model.onnx", "use"),
        ("use/onnx/model.onnx", "use/onnx/model.onnx", "use"),
        ("use/onnx/model.onnx", "use/onnx", "use"),
        ("use/small.v2.onnx", "use/small.v2.onnx", "small.v2"),
    ],
)
def test_where_graphs_are_found(tmp_path, graph, given, name):
    write_mean(tmp_path / graph)
    write_tokenizer(tmp_path / "use")
    embedder = selfguide.load(tmp_path / given, device="cpu")
    assert isinstance(embedder, OnnxEmbedder)
    assert embedder.name == name


@pytest.mark.parametrize(("batch", "length", "kind"), [("n", 12, INT64), (4, "t", INT32), (1, 12, INT32), (4, 6, INT64)])
def test_sizes_that_are_fixed(tmp_path, batch, length, kind):
    write_mean(tmp_path / "model.onnx", batch=batch, length=length, kind=kind)
    write_tokenizer(tmp_path)
    embedder = load_onnx(tmp_path)
    longest = 128 if length == "t" else length
    assert embedder.protocol["max_length"] == longest
    np.testing.assert_allclose(embedder.encode(SENTENCES), [expected(one, longest) for one in SENTENCES], atol=1e-6)
    assert embedder.encode([]).shape == (0, 5)


def test_padding_is_never_seen_by_a_graph_without_a_mask(tmp_path):
    nodes, ids = [STATES, PLAIN_MEAN], {"input_ids": (INT64, ["n", "t"])}
    write_graph(tmp_path / "model.onnx", nodes, ids, {"mean": (FLOAT, ["n", 5])})
    write_tokenizer(tmp_path)
    vectors = load_onnx(tmp_path).encode([*SENTENCES, *SENTENCES])
    np.testing.assert_allclose(vectors, [expected(sentence) for sentence in (*SENTENCES, *SENTENCES)], atol=1e-6)


@pytest.mark.parametrize("batch", ["n", 4])
def test_sentences_do_not_change_each_other_where_numbers_are_quantised_as_they_come(tmp_path, batch):
    quantised = [
        helper.make_node("DynamicQuantizeLinear", ["states"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["rough"]),
        helper.make_node("ReduceMean", ["rough"], ["mean"], axes=[1], keepdims=0),
    ]
    ids = {"input_ids": (INT64, [batch, "t"])}
    write_graph(tmp_path / "model.onnx", [STATES, *quantised], ids, {"mean": (FLOAT, None)}, weights=TABLE**5)
    write_tokenizer(tmp_path)
    embedder = load_onnx(tmp_path)
    sentences = ["cat", "dog", "bird", "tree", "the", "a b"]
    one_by_one = np.concatenate([embedder.encode([sentence]) for sentence in sentences])
    np.testing.assert_array_equal(embedder.encode(sentences), one_by_one)
    words = np.array([[[2, VOCABULARY[word], 3]] for word in ("cat", "dog", "bird", "tree")])
    graph = Graph(tmp_path / "model.onnx", device="cpu")
    together = graph.run({"input_ids": words[:, 0]})["mean"]
    assert abs(together - one_by_one[:4]).max() > 1e-3  # the trap is there


def test_a_sentence_without_tokens_is_zero(tmp_path):
    write_mean(tmp_path / "model.onnx")
    write_tokenizer(tmp_path, specials=False)
    vectors = load_onnx(tmp_path).encode(["", "bird", " "])
    np.testing.assert_allclose(vectors, [np.zeros(5), TABLE[VOCABULARY["bird"]], np.zeros(5)], atol=1e-6)


def test_lengths(folder):
    long = "the cat sits on the old tree"
    assert load_embedder(folder, max_length=9, device="cpu").protocol["max_length"] == 9
    np.testing.assert_allclose(load_onnx(folder, max_length=5).encode([long]), [expected(long, 5)], atol=1e-6)
    write_tokenizer(folder, truncation=7)
    assert load_onnx(folder).protocol["max_length"] == 7
    np.testing.assert_allclose(load_onnx(folder).encode([long]), [expected(long, 7)], atol=1e-6)
    (folder / "config.json").write_text('{"max_position_embeddings": 6}')
    assert load_onnx(folder).protocol["max_length"] == 6
    for wrong in (0, 2, 7):
        with pytest.raises(InputError, match=f"max length {wrong} was asked for; .* takes a number from 3 to 6"):
            load_onnx(folder, max_length=wrong)
    (folder / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config.json: not the configuration of a model"):
        load_onnx(folder)


@pytest.mark.parametrize("shape", [("n",), ("n", 1), (3,)])
def test_a_graph_that_takes_text(tmp_path, shape):
    embedder = selfguide.load(write_text_graph(tmp_path / "use.onnx", shape), device="cpu")
    sentences = [*WORDS, "zebra", ""] * 4
    vectors = embedder.encode(sentences)
    np.testing.assert_allclose(vectors, [TABLE[VOCABULARY.get(sentence, 1)] for sentence in sentences], atol=1e-6)
    assert embedder.encode([]).shape == (0, 5)
    np.testing.assert_array_equal(embedder.encode(np.array(["bird"])), embedder.encode(["bird"]))
    assert (embedder.name, embedder.protocol["max_length"]) == ("use", None)


def test_a_graph_that_takes_text_has_no_length_to_choose(tmp_path):
    with pytest.raises(InputError, match="takes text and cuts it by itself"):
        load_onnx(write_text_graph(tmp_path / "use.onnx"), max_length=9)


def test_the_output_is_chosen_by_name_or_is_the_only_one(tmp_path, caplog):
    write_tokenizer(tmp_path)
    write_mean(tmp_path / "a.onnx", outputs=("states", "count", "sentence_embedding"))
    assert load_onnx(tmp_path / "a.onnx").protocol["output"] == "sentence_embedding"
    assert not caplog.text
    write_mean(tmp_path / "b.onnx", outputs=("states", "count"))
    assert load_onnx(tmp_path / "b.onnx").protocol["output"] == "count"
    assert "b.onnx' (states, count), 'count' is taken" in caplog.text


def test_token_states_are_refused(tmp_path):
    write_tokenizer(tmp_path)
    path = write_mean(tmp_path / "a.onnx", outputs=("states",))
    words = r"a.onnx' gives only token states \(states\), no sentence vectors; export it with the pooling inside"
    with pytest.raises(InputError, match=words):
        load_onnx(path)


def test_other_outputs_are_refused(tmp_path):
    write_tokenizer(tmp_path)
    ids = {"input_ids": (INT64, ["n", "t"])}
    twice = [STATES, PLAIN_MEAN, helper.make_node("Neg", ["mean"], ["other"])]
    two = write_graph(tmp_path / "a.onnx", twice, ids, {"mean": (FLOAT, ["n", 5]), "other": (FLOAT, ["n", 5])})
    with pytest.raises(InputError, match=r"several outputs \(n, dim\): mean, other; name one of them 'sentence_embedding'"):
        load_onnx(two)
    copied = [helper.make_node("Identity", ["input_ids"], ["same"])]
    none = write_graph(tmp_path / "b.onnx", copied, ids, {"same": (INT64, ["n", "t"])})
    with pytest.raises(InputError, match=r"has no output of floats \(n, dim\); its outputs are: same"):
        load_onnx(none)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (
            {"input_ids": (INT64, ["n", "t"]), "position_ids": (INT64, ["n", "t"])},
            "are input_ids, position_ids; a graph needs",
        ),
        ({"input_ids": (INT64, ["t"])}, r"are input_ids; a graph needs one of text, or input_ids \(n, tokens\)"),
        ({"input_ids": (INT64, ["n", "t"]), "text": (STRING, ["n"])}, "are input_ids, text; a graph needs one of text, or"),
        (
            {"input_ids": (INT64, ["n", "t"]), "x": (FLOAT, ["n"])},
            r"the input 'x' of .* is a tensor\(float\); text or token",
        ),
    ],
)
def test_other_inputs_are_refused(tmp_path, inputs, words):
    write_tokenizer(tmp_path)
    write_graph(tmp_path / "a.onnx", [STATES, PLAIN_MEAN], inputs, {"mean": (FLOAT, ["n", 5])})
    with pytest.raises(InputError, match=words):
        load_onnx(tmp_path)


def test_a_missing_or_broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer.json: not a whole tokenizer"):
        selfguide.load(folder, device="cpu")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"takes token ids and needs its tokenizer.json, beside it or in the folder above"):
        selfguide.load(folder, device="cpu")


def test_a_tokenizer_of_another_model(tmp_path):
    write_mean(tmp_path / "model.onnx", weights=TABLE[:3])
    write_tokenizer(tmp_path)
    with pytest.raises(InputError, match=r"the graph '.*model.onnx' failed on its input: .*idx=3 must be within"):
        load_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no graph at all", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_broken_file(tmp_path, content):
    (tmp_path / "a.onnx").write_bytes(content)
    with pytest.raises(InputError, match=r"a.onnx' cannot be opened as an ONNX model: "):
        selfguide.load(tmp_path / "a.onnx", device="cpu")


def test_half_a_file(folder):
    whole = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cannot be opened as an ONNX model"):
        selfguide.load(folder, device="cpu")


def test_no_graph_or_several(tmp_path):
    with pytest.raises(InputError, match=r"none.onnx: no such file or folder; fetch the ONNX model first"):
        selfguide.load(tmp_path / "none.onnx", device="cpu")
    with pytest.raises(InputError, match=r"holds neither model.onnx nor onnx/model.onnx; .* \(found: none\)"):
        load_embedder(tmp_path, embedder="onnx", device="cpu")
    write_mean(tmp_path / "a.onnx")
    write_mean(tmp_path / "onnx" / "b.onnx")
    with pytest.raises(InputError, match=r"give the file itself \(found: a.onnx, onnx/b.onnx\)"):
        selfguide.load(tmp_path, device="cpu")


def test_a_folder_of_an_encoder_is_taken_as_onnx_only_when_asked(tiny_bert, tmp_path):
    folder = tmp_path / "both"
    shutil.copytree(tiny_bert, folder)
    write_mean(folder / "onnx" / "model.onnx", weights=np.ones((200, 5), dtype=np.float32))
    assert selfguide.load(folder, device="cpu").name == "both/cls"
    embedder = load_embedder(folder, embedder="onnx", device="cpu")
    assert embedder.name == "both"
    assert embedder.protocol["max_length"] == 48  # the positions of its config.json


def test_a_layer_cannot_be_chosen(folder):
    with pytest.raises(InputError, match="'onnx' has no layer to choose"):
        load_embedder(folder, embedder="onnx", layer=1, device="cpu")


def test_without_onnxruntime_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        MissingExtraError, match=r"needs onnxruntime, which is not installed: pip install 'selfguide\[onnx\]'"
    ):
        selfguide.load(folder, device="cpu")


def test_without_the_extensions_that_a_graph_needs_their_package_is_named(tmp_path, monkeypatch):
    node = helper.make_node("SentencepieceTokenizer", ["inputs"], ["y"], domain="ai.onnx.contrib")
    path = write_graph(tmp_path / "a.onnx", [node], {"inputs": (STRING, ["n"])}, {"y": (FLOAT, None)})
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "selfguide.embedders.onnx_graph.find_spec", lambda name: None if name == "onnxruntime_extensions" else found(name)
    )
    words = r"needs the operators of a package that is not installed: pip install onnxruntime-extensions"
    with pytest.raises(MissingExtraError, match=words):
        selfguide.load(path, device="cpu")


def test_without_cuda_it_is_told(folder, caplog):
    if Graph(folder / "model.onnx", device="cuda").is_on_cuda:
        pytest.skip("this machine has CUDA")
    assert "runs on the CPU: this onnxruntime has no CUDA" in caplog.text


@pytest.mark.parametrize("location", ["weights.bin", "w" * 150 + ".bin"])
def test_weights_in_another_file(tmp_path, location):
    path = tmp_path / "model" / "model.onnx"
    write_mean(path, save_as_external_data=True, location=location, size_threshold=100)
    write_tokenizer(tmp_path / "model")
    embedder = load_onnx(path)
    digests = [hashlib.sha256((path.parent / name).read_bytes()).hexdigest() for name in ("model.onnx", location)]
    assert embedder.protocol["weights"] == hashlib.sha256("".join(digests).encode()).hexdigest()
    embedder.save(tmp_path / "saved")
    shutil.rmtree(path.parent)
    np.testing.assert_allclose(load_onnx(tmp_path / "saved").encode(["bird"]), [expected("bird")], atol=1e-6)
    (tmp_path / "saved" / location).unlink()
    with pytest.raises(InputError, match=r"cannot be opened as an ONNX model: .*[Ee]xternal data"):
        load_onnx(tmp_path / "saved")


def test_saved_and_loaded(folder, tmp_path):
    embedder = load_onnx(folder, max_length=6)
    embedder.save(tmp_path / "saved")
    loaded = selfguide.load(tmp_path / "saved", device="cpu")
    assert isinstance(loaded, OnnxEmbedder)
    assert (loaded.name, loaded.protocol) == (embedder.name, embedder.protocol)
    np.testing.assert_array_equal(loaded.encode(SENTENCES), embedder.encode(SENTENCES))
    (tmp_path / "saved" / "onnx_embedder.json").write_text("{}")
    with pytest.raises(InputError, match=r"onnx_embedder.json: not the record of an ONNX model \(KeyError 'name'\)"):
        selfguide.load(tmp_path / "saved", device="cpu")


def test_a_graph_that_takes_text_saved_and_loaded(tmp_path):
    embedder = load_onnx(write_text_graph(tmp_path / "use.onnx"))
    embedder.save(tmp_path / "saved")
    loaded = selfguide.load(tmp_path / "saved", device="cpu")
    assert (loaded.name, loaded.protocol) == (embedder.name, embedder.protocol)


def test_scikit_learn(folder):
    embedder = load_onnx(folder, max_length=6)
    vectors = embedder.encode(SENTENCES)
    copy = clone(embedder)
    assert copy.get_params() == embedder.get_params()
    for other in (copy, pickle.loads(pickle.dumps(embedder))):
        np.testing.assert_array_equal(other.fit(SENTENCES).transform(SENTENCES), vectors)


def test_parameters_that_change(folder):
    embedder = load_onnx(folder)
    assert embedder.protocol["max_length"] == 128
    assert embedder.set_params(max_length=6).protocol["max_length"] == 6
    np.testing.assert_allclose(embedder.encode(SENTENCES), [expected(one, 6) for one in SENTENCES], atol=1e-6)


def test_evaluated(folder, tmp_path, monkeypatch):
    use_tiny_sts(monkeypatch, tmp_path / "data")
    rows = selfguide.evaluate(str(folder), tasks="STS-B", data=str(tmp_path / "data"), device="cpu", progress=False)
    assert {(row.embedder, row.dataset) for row in rows} == {("my-model", "STS-B")}
    assert rows[0].protocol["pooling"] == "inside the graph"


def test_evaluated_by_the_command(folder, tmp_path, monkeypatch, capsys):
    use_tiny_sts(monkeypatch, tmp_path / "data")
    output = tmp_path / "scores.jsonl"
    common = ["--tasks", "STS-B", "--data", str(tmp_path / "data"), "--device", "cpu", "-o", str(output)]
    assert main(["evaluate", "--model", str(folder / "model.onnx"), *common]) == 0
    assert "my-model" in capsys.readouterr().out
    assert {json.loads(line)["embedder"] for line in output.read_text().splitlines()} == {"my-model"}
    assert main(["evaluate", "--model", str(tmp_path / "use.onnx"), *common]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_model_that_is_not_at_hand_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    use_tiny_sts(monkeypatch, tmp_path / "data")
    arguments = ["--tasks", "STS-B", "--data", str(tmp_path / "data"), "--device", "cpu"]
    assert main(["evaluate", "--model", "somebody/universal-sentence-encoder", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "'somebody/universal-sentence-encoder' is not a local folder and could not be had from the Hugging Face hub" in line
    )
