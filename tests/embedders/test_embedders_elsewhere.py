"""Folders of pooled and whitened embedders, as sentence-transformers 3 reads them with transformers 4."""

from pathlib import Path

import numpy as np
import pytest

from second_environments import newest_transformers_4, old_environment, old_python, run
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.files import read_json, write_json
from tiny_models import ENCODERS, SENTENCES, WORDS

pytestmark = pytest.mark.second_environment

TEXTS = [*SENTENCES, "", "the   cat and the DOG", ("the cat " * 50).strip()]
FITTING = [
    f"the {first} and a {second} near {third}" for first, second, third in zip(WORDS * 4, WORDS[3:] * 5, WORDS[8:] * 6)
]
FAMILIES = [family for family in ENCODERS if family != "modernbert"]
"""Which the oldest transformers do not know."""


@pytest.fixture(scope="module")
def embedders(tiny_folder):
    bert = load_encoder(tiny_folder("bert"))
    pooled = {
        f"first-last-{name}": PooledEmbedder(load_encoder(tiny_folder(name)), pooling="first-last") for name in FAMILIES
    }
    return pooled | {
        "max-2": PooledEmbedder(bert, pooling="max", layer=2),
        "cls-1": PooledEmbedder(bert, layer=1),
        "last-3": PooledEmbedder(bert, pooling="last-3"),
        "embeddings-last": PooledEmbedder(bert, pooling="embeddings-last"),
        "mean": PooledEmbedder(bert, pooling="mean"),
        "whitened": WhiteningEmbedder(bert).fit(FITTING),
        "whitened-mean": WhiteningEmbedder(bert, pooling="mean", dimensions=9).fit(FITTING),
    }


@pytest.fixture(scope="module", params=["oldest", "newest"])
def read(request, embedders, tmp_path_factory) -> Path:
    """What another environment made of the folders."""
    folders, target = tmp_path_factory.mktemp("folders"), tmp_path_factory.mktemp(request.param)
    write_json(folders / "texts.json", TEXTS)
    for name, embedder in embedders.items():
        embedder.save(folders / name)
    variables = old_environment()
    if request.param == "newest":
        variables["PYTHONPATH"] = str(newest_transformers_4())
    reader = Path(__file__).parents[1] / "encoders" / "old_reader.py"
    run(old_python(), reader, folders, target, env=variables, cwd=target)
    return target


NAMES = [*(f"first-last-{name}" for name in FAMILIES), "max-2", "cls-1", "last-3", "embeddings-last", "mean"]


@pytest.mark.parametrize("name", [*NAMES, "whitened", "whitened-mean"])
def test_vectors_are_ours(embedders, read, name):
    error = read / name / "error.txt"
    assert not error.exists(), error.read_text()
    vectors = np.load(read / name / "sentence_transformer.npy")
    assert vectors == pytest.approx(embedders[name].encode(TEXTS), abs=1e-5)
    assert np.isfinite(np.load(read / name / "auto_model.npy")).all()


def test_modules(read):
    assert read_json(read / "mean" / "about.json")["modules"] == ["Transformer", "Pooling"]
    whitened = ["Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize"]
    assert read_json(read / "whitened" / "about.json")["modules"] == whitened
