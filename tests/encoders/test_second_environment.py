"""Folders that we save, as sentence-transformers 3 reads them, with the oldest and the newest transformers 4."""

import json
from pathlib import Path

import numpy as np
import pytest

import selfguide
from model_variants import with_rotary_bases, with_template
from second_environments import newest_transformers_4, old_environment, old_python, run
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.files import read_json, write_json
from tiny_models import ENCODERS, POSITIONS, SENTENCES, WORDS

pytestmark = pytest.mark.second_environment

# no spaces around: sentence-transformers takes them off before version 6, and byte-level tokenizers see them
TEXTS = [
    *SENTENCES,
    "",
    'The CAT, the Dog: "old" -- it\'s 3.50!',
    "the   cat\tand\nthe dog",
    "café naïve Ünder Straße ŒUVRE",
    "猫 is 고양이 и кот 🐈",
    "[SEP] the [MASK] </s> <mask> <s>",
    "\ufb01ne \u00bd \uff21\uff22 a\u00a0b\u200bc\u0301",
    ("the cat " * POSITIONS).strip(),
]
VARIANTS = ("mini", "trained", "trained-mean", "template", "short", "rotary")
READERS = {"oldest": "4.46.3", "newest": "4.57.6"}
NEEDS_NEWER_TRANSFORMERS = ("modernbert", "rotary")


@pytest.fixture(scope="module")
def folders(tiny_folder, tmp_path_factory) -> Path:
    """A folder of every family and of what may get lost, as we save them."""
    root, starts = tmp_path_factory.mktemp("folders"), tmp_path_factory.mktemp("starts")
    write_json(root / "texts.json", TEXTS)
    for family in ENCODERS:
        save_encoder(load_encoder(tiny_folder(family)), make(root / family))
    save_encoder(load_encoder("mini"), make(root / "mini"))
    save_encoder(load_encoder(with_template(tiny_folder("bert"), starts / "template")), make(root / "template"))
    save_encoder(load_encoder(tiny_folder("roberta"), max_length=7), make(root / "short"))
    rotary = with_rotary_bases(tiny_folder("modernbert"), starts / "rotary", full=50.0, sliding=5.0)
    save_encoder(load_encoder(rotary), make(root / "rotary"))
    sentences = [f"the {first} and the {second} sleeps" for first in WORDS for second in WORDS]
    for name, anchor in (("trained", "cls"), ("trained-mean", "mean")):
        settings = {"steps": 3, "learning_rate": 1e-3, "projection_width": 64, "device": "cpu", "anchor": anchor}
        selfguide.train(tiny_folder("bert"), sentences, root / name, progress=False, **settings)
    return root


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture(scope="module", params=READERS)
def results(request, folders, tmp_path_factory) -> Path:
    """What another environment made of the folders."""
    python, variables = old_python(), old_environment()
    if request.param == "newest":
        variables["PYTHONPATH"] = str(newest_transformers_4())
    target = tmp_path_factory.mktemp(request.param)
    run(python, Path(__file__).with_name("old_reader.py"), folders, target, env=variables, cwd=target)
    assert read_json(target / "versions.json") == {
        "transformers": READERS[request.param],
        "sentence-transformers": "3.4.1",
    }
    return target


def is_too_new(results: Path, name: str) -> bool:
    """Whether a model is of a family that the transformers of the reader does not have yet."""
    return name in NEEDS_NEWER_TRANSFORMERS and read_json(results / "versions.json")["transformers"] == READERS["oldest"]


def error_of(results: Path, name: str) -> str:
    path = results / name / "error.txt"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("name", [*ENCODERS, *VARIANTS])
def test_tokens_are_ours(name, folders, results):
    assert json.loads((results / name / "tokens.json").read_text()) == load_encoder(folders / name).tokenize(TEXTS)


@pytest.mark.parametrize("name", [*ENCODERS, *VARIANTS])
def test_vectors_are_ours(name, folders, results):
    if is_too_new(results, name):
        assert "model type `modernbert` but Transformers does not recognize this architecture" in error_of(results, name)
        return
    assert not error_of(results, name)
    encoder, pooling = load_encoder(folders / name), "mean" if name == "trained-mean" else "cls"
    read = np.load(results / name / "sentence_transformer.npy")
    assert read == pytest.approx(PooledEmbedder(encoder, pooling=pooling).encode(TEXTS), abs=1e-5)
    first_states = np.load(results / name / "auto_model.npy")
    assert first_states == pytest.approx(PooledEmbedder(encoder).encode(TEXTS), abs=1e-5)
    assert read_json(results / name / "about.json") == {
        "modules": ["Transformer", "Pooling"],
        "pooling": pooling,
        "max_length": encoder.max_length,
        "similarity": "cosine",
        "dtype": "torch.float32",
    }


def test_vectors_of_another_model_are_noticed(folders, results):
    read = np.load(results / "trained" / "sentence_transformer.npy")
    assert read != pytest.approx(PooledEmbedder(load_encoder(folders / "bert")).encode(TEXTS), abs=1e-5)
