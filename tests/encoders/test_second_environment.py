"""Folders that we save, as sentence-transformers 3 reads them, with the oldest and the newest transformers 4."""

import json
from pathlib import Path

import numpy as np
import pytest

import model_variants
import selfguide
from second_environments import newest_transformers_4, old_environment, old_python, run
from selfguide.choices import MEANING_TEMPLATE
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import with_template
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
PROMPTED = {f"prompted-{family}": family for family in ENCODERS}
"""With the template of the preset in the tokenizer."""
VARIANTS = ("mini", "prompted-mini", "trained", "trained-mean", "template", "short", "rotary", *PROMPTED)
READERS = {"oldest": "4.46.3", "newest": "4.57.6"}
NEEDS_NEWER_TRANSFORMERS = ("modernbert", "rotary", "prompted-modernbert")


@pytest.fixture(scope="module")
def folders(tiny_folder, tmp_path_factory) -> Path:
    """A folder of every family and of what may get lost, as we save them."""
    root, starts = tmp_path_factory.mktemp("folders"), tmp_path_factory.mktemp("starts")
    write_json(root / "texts.json", TEXTS)
    for family in ENCODERS:
        save_encoder(load_encoder(tiny_folder(family)), make(root / family))
    for name, family in PROMPTED.items():
        save_encoder(with_template(load_encoder(tiny_folder(family)), MEANING_TEMPLATE), make(root / name))
    save_encoder(load_encoder("mini"), make(root / "mini"))
    save_encoder(with_template(load_encoder("mini"), MEANING_TEMPLATE), make(root / "prompted-mini"))
    save_encoder(
        load_encoder(model_variants.with_template(tiny_folder("bert"), starts / "template")), make(root / "template")
    )
    save_encoder(load_encoder(tiny_folder("roberta"), max_length=7), make(root / "short"))
    rotary = model_variants.with_rotary_bases(tiny_folder("modernbert"), starts / "rotary", full=50.0, sliding=5.0)
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


@pytest.mark.parametrize("name", ["prompted-mini", *PROMPTED])
def test_tokens_are_those_of_the_template(name, tiny_folder, results):
    encoder = load_encoder("mini" if name == "prompted-mini" else tiny_folder(PROMPTED[name]))
    rows = json.loads((results / name / "tokens.json").read_text())
    assert rows == with_template(encoder, MEANING_TEMPLATE).tokenize(TEXTS)
    assert {row[0] for row in rows} == {encoder.tokenizer.mask_token_id}


def test_vectors_of_another_model_are_noticed(folders, results):
    read = np.load(results / "trained" / "sentence_transformer.npy")
    assert read != pytest.approx(PooledEmbedder(load_encoder(folders / "bert")).encode(TEXTS), abs=1e-5)
