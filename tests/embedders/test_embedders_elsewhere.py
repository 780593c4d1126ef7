"""Folders of pooled and whitened embedders, as sentence-transformers 3 reads them with transformers 4."""

from pathlib import Path

import numpy as np
import pytest

from second_environments import newest_transformers_4, old_environment, old_python, run
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.files import read_json, write_json
from tiny_models import ENCODERS, MANY, SENTENCES

pytestmark = pytest.mark.second_environment

TEXTS = [*SENTENCES, "", "the   cat and the DOG", ("the cat " * 50).strip()]
FAMILIES = [family for family in ENCODERS if family != "modernbert"]
"""Without the one that the oldest transformers do not know."""
WITHOUT_POOLER = ("distilbert", "electra", "deberta-v2")
"""Whose layers do not reach the other modules in sentence-transformers 3, which says so; those of today's do."""


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
        "whitened": WhiteningEmbedder(bert).fit(MANY),
        "whitened-mean": WhiteningEmbedder(bert, pooling="mean", dimensions=9).fit(MANY),
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
    if name.removeprefix("first-last-") in WITHOUT_POOLER:
        assert "KeyError: 'all_layer_embeddings'" in error.read_text()
        return
    assert not error.exists(), error.read_text()
    vectors = np.load(read / name / "sentence_transformer.npy")
    assert vectors == pytest.approx(embedders[name].encode(TEXTS), abs=1e-5)
    assert np.isfinite(np.load(read / name / "auto_model.npy")).all()


def test_modules(read):
    assert read_json(read / "mean" / "about.json")["modules"] == ["Transformer", "Pooling"]
    whitened = ["Transformer", "WeightedLayerPooling", "Pooling", "Dense", "Normalize"]
    assert read_json(read / "whitened" / "about.json")["modules"] == whitened
