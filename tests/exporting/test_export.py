"""``selfguide export``: the same vectors as PyTorch's in other runtimes, or a refusal that leaves nothing behind."""

import subprocess
import sys

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from second_environments import clean_variables
from selfguide import InputError
from selfguide.choices import MEANING_TEMPLATE
from selfguide.cli.main import main
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import with_template
from selfguide.files import read_json, read_json_lines, write_json
from tiny_models import ENCODERS, MANY, POSITIONS
from tiny_runs import PAIRS, SENTENCES, tree

TEXTS = [*SENTENCES, "", "ünïcödé 猫", "[SEP] the [MASK]", "the cat " * POSITIONS]
KINDS = [("onnx", "float32"), ("onnx", "int8"), ("openvino", "float32"), ("openvino", "int8")]


def cosines(first, second):
    return (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    """A folder as ``selfguide train`` leaves it, with a template in its tokenizer and a length of its own."""
    folder = tmp_path_factory.mktemp("trained") / "my-encoder"
    folder.mkdir()
    save_encoder(with_template(load_encoder(tiny_folder("bert"), max_length=30), MEANING_TEMPLATE), folder)
    return folder


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Each format and precision of it."""
    root = tmp_path_factory.mktemp("exported")
    done = {
        kind: selfguide.export(trained, root / "-".join(kind), data=list(SENTENCES), format=kind[0], precision=kind[1])
        for kind in KINDS
    }
    return root, done


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_vectors_are_those_of_sentence_transformers(trained, exported, kind):
    root, done = exported
    wanted = SentenceTransformer(str(trained), device="cpu").encode(TEXTS)
    embedder = selfguide.load(root / "-".join(kind))
    found = embedder.encode(TEXTS)
    assert embedder.name.endswith("-".join(kind)) and found.dtype == np.float32
    if kind[1] == "float32":
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    else:
        assert 0.999 < cosines(found, wanted).mean() < 1 - 1e-7
        assert done[kind].agreement.mean_cosine == pytest.approx(cosines(found, wanted).mean(), abs=1e-3)
    # no vector depends on the other sentences, also where numbers are rounded as they come
    np.testing.assert_allclose(np.concatenate([embedder.encode([text]) for text in TEXTS[:5]]), found[:5], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_what_is_in_the_folder(exported, kind):
    root, done = exported
    folder = root / "-".join(kind)
    record = read_json(folder / "export.json")
    graph = {"onnx": {"model.onnx"}, "openvino": {"openvino_model.xml", "openvino_model.bin"}}[kind[0]]
    others = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json", "export.json"}
    assert {path.name for path in folder.iterdir()} == graph | others
    assert record["inputs"] == ["input_ids", "attention_mask", "token_type_ids"] and record["max_length"] == 30
    assert record["agreement"]["max_difference"] == done[kind].agreement.max_difference <= record["tolerance"] or (
        kind[1] == "int8" and 1 - record["agreement"]["mean_cosine"] <= record["tolerance"]
    )
    assert record["packages"]["torch"] and record["packages"][{"onnx": "onnxruntime"}.get(kind[0], kind[0])]


PLAIN = """
import json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "sentence_transformers", "selfguide"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocker())
import numpy as np, onnxruntime
from tokenizers import Tokenizer
folder, texts = sys.argv[1], json.load(open(sys.argv[2]))
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
session = onnxruntime.InferenceSession(folder + "/model.onnx")
rows = tokenizer.encode_batch(texts)
feed = {
    "input_ids": np.array([row.ids for row in rows]),
    "attention_mask": np.array([row.attention_mask for row in rows]),
    "token_type_ids": np.array([row.type_ids for row in rows]),
}
np.save(sys.argv[3], session.run(["sentence_embedding"], feed)[0])
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_plain_onnxruntime_without_torch(trained, exported, precision, tmp_path):
    root, _ = exported
    write_json(tmp_path / "texts.json", TEXTS)
    command = [sys.executable, "-c", PLAIN, str(root / f"onnx-{precision}"), "texts.json", "vectors.npy"]
    subprocess.run(command, cwd=tmp_path, env=clean_variables(), check=True)
    wanted = SentenceTransformer(str(trained), device="cpu").encode(TEXTS)
    found = np.load(tmp_path / "vectors.npy")
    if precision == "float32":
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    else:
        assert cosines(found, wanted).mean() > 0.999


def test_pooling_layers_map_and_norm(tiny_bert, tmp_path):
    whitening = WhiteningEmbedder(load_encoder(tiny_bert), pooling="first-last", dimensions=8).fit(MANY)
    whitening.save(tmp_path / "white")
    done = selfguide.export(tmp_path / "white", tmp_path / "out", data=list(MANY), format="openvino")
    assert done.dimension == 8
    np.testing.assert_allclose(selfguide.load(tmp_path / "out").encode(TEXTS), whitening.encode(TEXTS), atol=1e-5)


def test_the_command(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.txt").write_text("".join(f"{text}\n" for text in SENTENCES))
    command = ["export", "--model", str(trained), "--data", "own.txt", "--output", "out", "--format", "openvino"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "openvino float32, vectors of 32 dimensions: out/openvino_model.xml" in told
    assert f"against PyTorch, {len(SENTENCES) + 1} sentences: largest difference" in told
    assert main(command) == 2
    assert "the output 'out' exists already; choose another folder, or --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    encoding = ["encode", "--model", "out", "--data", "own.txt", "--output", "vectors.npy", "--device", "cpu"]
    assert main(encoding) == 0
    wanted = SentenceTransformer(str(trained), device="cpu").encode(list(SENTENCES))
    np.testing.assert_allclose(np.load("vectors.npy"), wanted, atol=1e-5)
    (tmp_path / "pairs.tsv").write_text("".join(f"{score}\t{first}\t{second}\n" for score, first, second in PAIRS))
    scores = []
    for model in (str(trained), "out"):
        assert main(["evaluate", "--model", model, "--pairs", "pairs.tsv", "--output", f"{len(scores)}.jsonl"]) == 0
        scores.append(read_json_lines(tmp_path / f"{len(scores)}.jsonl")[0]["value"])
    assert scores[0] == pytest.approx(scores[1], abs=0.01)


def test_vectors_that_differ_are_refused(trained, tmp_path, capsys):
    before = tree(tmp_path)
    command = ["export", "--model", str(trained), "--output", str(tmp_path / "out"), "--precision", "int8"]
    assert main([*command, "--tolerance", "0", "--format", "openvino"]) == 2
    told = capsys.readouterr()
    assert "in int8 are not PyTorch's: 1 - mean cosine over 129 sentences is" in told.err and not told.out
    assert tree(tmp_path) == before


def test_a_graph_that_is_wrong_is_noticed(trained, tmp_path, monkeypatch):
    """Planted: the mask is not looked at, so that padding changes vectors."""
    from selfguide.bulk.first_token_graph import FirstTokenGraph

    right = FirstTokenGraph.forward
    monkeypatch.setattr(
        FirstTokenGraph, "forward", lambda self, ids, mask, types=None: right(self, ids, mask * 0 + 1, types)
    )
    with pytest.raises(InputError, match=r"in float32 are not PyTorch's: the largest difference .* nothing was written"):
        selfguide.export(trained, tmp_path / "out", data=list(SENTENCES), format="openvino")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "tflite", "tolerance": -1.0}, "--format 'tflite' is not known; .*--tolerance is -1.0; it must be 0"),
        ({"modle": "x"}, "unknown setting 'modle'"),
        ({"embedder": "prompt"}, "is neither a pooled encoder nor a sentence-transformers folder, and has no graph"),
        ({"data": []}, "the source holds no sentences"),
        ({"data": "missing.txt"}, "'missing.txt': no such file"),
    ],
    ids=str,
)
def test_wrong_use(tiny_folder, tmp_path, settings, message):
    folder = tiny_folder("bert")
    with pytest.raises(InputError, match=message):
        selfguide.export(folder, tmp_path / "out", **settings)
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_changed_before_the_tokenizer_is_refused(trained, tmp_path):
    model = SentenceTransformer(str(trained), device="cpu", prompts={"query": "the "}, default_prompt_name="query")
    model.save_pretrained(str(tmp_path / "prompted"))
    with pytest.raises(InputError, match="changes the text before its tokenizer"):
        selfguide.export(tmp_path / "prompted", tmp_path / "out")


def test_a_folder_with_something_else_is_not_replaced(trained, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"exists already; choose another folder$"):
        selfguide.export(trained, tmp_path, overwrite=True)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "openvino"])
@pytest.mark.parametrize("family", ENCODERS)
def test_every_family(tiny_folder, tmp_path, family, format):
    for pooling in ("cls", "max", "first-last"):
        done = selfguide.export(
            tiny_folder(family), tmp_path / pooling, embedder=pooling, data=list(SENTENCES), format=format
        )
        assert done.agreement.max_difference < 1e-4
    done = selfguide.export(
        tiny_folder(family), tmp_path / "int8", embedder="mean", data=list(SENTENCES), format=format, precision="int8"
    )
    assert done.agreement.mean_cosine > 0.99


def test_a_missing_package_is_named(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    for format, package in (("openvino", "openvino"), ("onnx", "onnxscript")):
        with pytest.raises(InputError, match=rf"needs {package}, which is not installed: pip install 'selfguide\[export\]'"):
            selfguide.export(trained, tmp_path / "out", format=format)
    assert list(tmp_path.iterdir()) == []
