"""What every embedder promises, whatever it is made of. A class that is not in the list below fails the first test."""

import gc
import importlib
import inspect
import json
import pkgutil
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import selfguide
import selfguide.embedders
from selfguide import choices
from selfguide.embedders.base import BaseEmbedder, EncoderEmbedder
from selfguide.embedders.catalogue import KINDS
from selfguide.embedders.flow import FlowEmbedder
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.onnx import OnnxEmbedder
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.prompt import PromptEmbedder
from selfguide.embedders.sentence_transformers import SentenceTransformerEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.embedders.wk import WkEmbedder
from selfguide.embedders.word_vectors import WordVectorEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from tiny_models import DIM, MANY, SENTENCES, WORDS
from tiny_onnx import write_mean, write_tokenizer


@dataclass(frozen=True)
class Case:
    """One embedder, as its user makes it: not fitted yet."""

    kind: type[BaseEmbedder]
    make: Callable[[SimpleNamespace], BaseEmbedder]
    keeps_name: bool = True
    """Whether the saved folder knows the embedder's name; sentence-transformers has no place for one."""


def pooled(**options):
    return Case(PooledEmbedder, lambda places: PooledEmbedder(places.encoder, **options), keeps_name=False)


def of_encoder(kind, **options):
    return Case(kind, lambda places: kind(places.encoder, **options))


CASES = {
    "cls": pooled(),
    "mean": pooled(pooling="mean"),
    "max": pooled(pooling="max"),
    "mean of layer 1": pooled(pooling="mean", layer=1),
    "last-2": pooled(pooling="last-2"),
    "first-last": pooled(pooling="first-last"),
    "embeddings-last": pooled(pooling="embeddings-last"),
    "wk": of_encoder(WkEmbedder, first_layer=1),
    "flow": of_encoder(FlowEmbedder, batch_size=8, seed=3),
    "whitening": of_encoder(WhiteningEmbedder),
    "whitening to 9 of mean": of_encoder(WhiteningEmbedder, pooling="mean", dimensions=9),
    "pca": of_encoder(PcaEmbedder),
    "pca to 9 of mean": of_encoder(PcaEmbedder, pooling="mean", dimensions=9),
    "prompt": of_encoder(PromptEmbedder),
    "prompt in front": of_encoder(PromptEmbedder, template='{mask} means " {sentence} "', full_stop=False),
    "sentence-transformers": Case(
        SentenceTransformerEmbedder, lambda places: load_embedder(places.trained, device="cpu"), keeps_name=False
    ),
    "word-vectors": Case(WordVectorEmbedder, lambda places: load_embedder(places.words, device="cpu")),
    "onnx": Case(OnnxEmbedder, lambda places: load_embedder(places.onnx, device="cpu")),
}
LEARNING = [name for name, case in CASES.items() if getattr(case.kind, "learned", ())]
SAVED_WITH_ENCODER = [name for name, case in CASES.items() if case.kind in KINDS.values()]


@pytest.fixture(scope="module")
def places(tiny_folder, tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("embedders")
    encoder = load_encoder(tiny_folder("bert"))
    (folder / "trained").mkdir()
    save_encoder(encoder, folder / "trained", pooling="mean")
    numbers = np.random.default_rng(0).normal(size=(len(WORDS), 5))
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, numbers, strict=True)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    write_mean(folder / "onnx-model" / "model.onnx")
    write_tokenizer(folder / "onnx-model")
    return SimpleNamespace(
        encoder=encoder, trained=folder / "trained", words=folder / "words.txt", onnx=folder / "onnx-model"
    )


@pytest.fixture(scope="module")
def fitted(places) -> Callable[[str], BaseEmbedder]:
    """Gives an embedder by its name in ``CASES``, fitted; the same one every time."""
    made: dict[str, BaseEmbedder] = {}

    def embedder_of(name: str) -> BaseEmbedder:
        if name not in made:
            made[name] = CASES[name].make(places).fit(MANY)
        return made[name]

    return embedder_of


every = pytest.mark.parametrize("name", CASES)
every_learning = pytest.mark.parametrize("name", LEARNING)


# The list is complete


def classes_of_the_package() -> set[type[BaseEmbedder]]:
    for module in pkgutil.iter_modules(selfguide.embedders.__path__, "selfguide.embedders."):
        importlib.import_module(module.name)
    found, seen = [BaseEmbedder], set()
    while found:
        kind = found.pop()
        seen.add(kind)
        found += kind.__subclasses__()
    return {kind for kind in seen if not inspect.isabstract(kind) and kind.__module__.startswith("selfguide.")}


def test_every_embedder_is_tested_here():
    assert classes_of_the_package() == {case.kind for case in CASES.values()}
    assert set(KINDS.values()) <= classes_of_the_package()


def test_a_new_embedder_is_noticed():
    planted = type("Planted", (PooledEmbedder,), {"__module__": "selfguide.embedders.planted"})
    assert classes_of_the_package() - {case.kind for case in CASES.values()} == {planted}
    del planted
    gc.collect()  # a class lives on in a cycle; the test above must not see it


def test_choices_are_those_of_the_catalogue():
    assert tuple(KINDS) == choices.EMBEDDERS
    assert tuple(name for name, kind in KINDS.items() if kind.learned) == choices.LEARNING_EMBEDDERS
    assert all(issubclass(kind, EncoderEmbedder) and kind.kind == name for name, kind in KINDS.items())


# Vectors


@every
def test_vectors(fitted, name):
    embedder = fitted(name)
    vectors = embedder.encode(SENTENCES)
    assert (vectors.dtype, vectors.ndim, len(vectors)) == (np.float32, 2, len(SENTENCES))
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(embedder.encode(SENTENCES), vectors)
    np.testing.assert_array_equal(embedder.transform(SENTENCES), vectors)
    np.testing.assert_allclose(embedder.encode(SENTENCES[::-1])[::-1], vectors, atol=2e-5)
    one_by_one = np.concatenate([embedder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(one_by_one, vectors, atol=2e-5)
    assert len({tuple(row) for row in vectors.round(3).tolist()}) == len(SENTENCES)


@every
def test_odd_input(fitted, name):
    embedder = fitted(name)
    dim = embedder.encode(["bird"]).shape[1]
    assert embedder.encode([]).shape == (0, dim)
    odd = embedder.encode(["", "  ", "the " * 500, "\u0645\u0631\u062d\u0628\u0627", "[SEP] [MASK] {sentence}", "bird"])
    assert odd.shape == (6, dim)
    assert np.isfinite(odd).all()
    np.testing.assert_array_equal(embedder.encode(np.array(["bird"])), embedder.encode(["bird"]))


@every
def test_a_single_text_is_not_taken_letter_by_letter(fitted, name):
    with pytest.raises(InputError, match=r"a single text was given \('the cat'\); give a list"):
        fitted(name).encode("the cat")


@every
@pytest.mark.parametrize("wrong", [None, 3, ["the cat"]], ids=str)
def test_what_is_no_text_is_named(fitted, name, wrong):
    with pytest.raises(InputError, match=rf"sentence at index 1 is of type {type(wrong).__name__}; only str"):
        fitted(name).encode(["the cat", wrong])


@every
def test_name_and_protocol(fitted, places, name):
    embedder = fitted(name)
    protocol = embedder.protocol
    assert embedder.name
    assert "max_length" in protocol and "pooling" in protocol
    assert len(protocol["weights"]) == 64 and int(protocol["weights"], 16) >= 0
    assert json.loads(json.dumps(protocol)) == protocol
    assert CASES[name].make(places).fit(MANY).protocol == protocol


# scikit-learn's conventions


@every
def test_parameters(fitted, places, name):
    fresh = CASES[name].make(places)
    parameters = fresh.get_params(deep=False)
    public = {key: value for key, value in vars(fresh).items() if not key.startswith("_")}
    assert same(public, parameters), "the constructor only stores its parameters"
    assert fresh.fit(MANY) is fresh
    assert same(fresh.get_params(deep=False), parameters), "fit changes no parameter"
    learned = {key for key in vars(fresh) if not key.startswith("_")} - set(parameters)
    assert all(key.endswith("_") for key in learned)
    assert fresh.set_params(**parameters) is fresh
    again = type(fresh)(**parameters).fit(MANY)
    np.testing.assert_array_equal(again.encode(SENTENCES), fitted(name).encode(SENTENCES))


def same(left: dict, right: dict) -> bool:
    """Whether both hold the very same objects; a model has no notion of being equal."""
    return left.keys() == right.keys() and all(left[key] is right[key] for key in left)


@every
def test_a_clone_has_the_parameters_and_nothing_learned(fitted, name):
    embedder = fitted(name)
    copy = clone(embedder)
    assert copy is not embedder and type(copy) is type(embedder)
    assert same(copy.get_params(deep=False), embedder.get_params(deep=False))
    assert (name in LEARNING) != copy.__sklearn_is_fitted__()
    np.testing.assert_array_equal(copy.fit(MANY).encode(SENTENCES), embedder.encode(SENTENCES))


@every
def test_first_step_of_a_pipeline(places, name):
    is_feline = ["cat" in text for text in MANY]
    pipeline = make_pipeline(CASES[name].make(places), LogisticRegression(max_iter=1000)).fit(MANY, is_feline)
    assert pipeline.predict(MANY).shape == (len(MANY),)
    assert clone(pipeline).fit(MANY, is_feline).score(MANY, is_feline) == pipeline.score(MANY, is_feline)


@every_learning
def test_before_it_is_fitted(places, tmp_path, name):
    embedder = CASES[name].make(places)
    with pytest.raises(NotFittedError):
        check_is_fitted(embedder)
    with pytest.raises(InputError, match=r"was not fitted; it learns from sentences first: call fit\(sentences\)"):
        embedder.encode(SENTENCES)
    with pytest.raises(InputError, match="was not fitted"):
        embedder.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
    check_is_fitted(embedder.fit(MANY))


@every_learning
def test_too_few_sentences(places, name):
    embedder = CASES[name].make(places)
    with pytest.raises(InputError, match=r"3 sentences were given .* give (more than|at least) \d+"):
        embedder.fit(MANY[:3])
    assert not embedder.__sklearn_is_fitted__()


def test_other_embedders_can_always_encode(places):
    for name in CASES.keys() - set(LEARNING):
        check_is_fitted(CASES[name].make(places))


# Saving


@every
def test_saved_and_loaded(fitted, tmp_path, name):
    embedder = fitted(name)
    embedder.save(tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    loaded = selfguide.load(tmp_path / "saved", device="cpu")
    np.testing.assert_allclose(loaded.encode(SENTENCES), embedder.encode(SENTENCES), atol=1e-5)
    if CASES[name].keeps_name:
        assert type(loaded) is type(embedder)
        assert (loaded.name, loaded.protocol) == (embedder.name, embedder.protocol)
    else:
        assert (type(loaded), loaded.name) == (SentenceTransformerEmbedder, "saved")


@pytest.mark.parametrize("name", SAVED_WITH_ENCODER)
def test_another_encoder_inside_is_noticed(fitted, tmp_path, name):
    fitted(name).save(tmp_path / "saved")
    (weights,) = (path for path in tmp_path.rglob("model.safetensors") if (path.parent / "tokenizer.json").exists())
    tensors = load_file(weights)
    save_file(
        {**tensors, "embeddings.LayerNorm.bias": tensors["embeddings.LayerNorm.bias"] + 1e-3}, weights, {"format": "pt"}
    )
    with pytest.raises(
        InputError, match=r"was made with another encoder than the one in .*: the weights differ; fit it again"
    ):
        selfguide.load(tmp_path / "saved", device="cpu")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "embedder.json").write_text("{"), r"embedder.json: not the record of an embedder"),
        (lambda folder: (folder / "embedder.json").write_text("{}"), r"it lacks embedder, encoder, encoder_sha256, max_len"),
        (lambda folder: change(folder, embedder="gloss"), r"'gloss' is not known to this version; it knows: wk, flow"),
        (lambda folder: change(folder, parameters={"colour": 1}), r"parameters that this version does not know .*colour"),
        (lambda folder: (folder / "learned.safetensors").unlink(), r"learned.safetensors: what the embedder learned cannot"),
        (
            lambda folder: (folder / "learned.safetensors").write_bytes(b"no"),
            r"learned.safetensors: what the embedder learned",
        ),
        (lambda folder: (folder / "embedder.json").write_text("[1]"), r"embedder.json: not the record of an embedder"),
        (lambda folder: change(folder, embedder=["wk"]), r"its embedder is \['wk'\]; fit it again"),
        (lambda folder: change(folder, encoder=5), r"its encoder is 5; fit it again"),
        (lambda folder: change(folder, max_length="9"), r"its max_length is '9'; fit it again"),
        (lambda folder: change(folder, parameters=[]), r"its parameters is \[\]; fit it again"),
        (
            lambda folder: change(folder, parameters={"dimensions": 2.5}),
            r"the parameter dimensions is 2\.5, which is of another",
        ),
        (lambda folder: change(folder, parameters={"dimensions": 3}), r"the fitted whitening has sizes .*; fit it again"),
        (lambda folder: change_learned(folder, lambda array: array / 0), r"mean_ holds something else than finite"),
        (lambda folder: change_learned(folder, lambda array: array.half()), r"mean_ holds something else than"),
        (lambda folder: change_learned(folder, lambda array: array[:-1].clone()), r"the fitted whitening has sizes \(31,\)"),
    ],
)
def test_a_broken_folder(fitted, tmp_path, damage, words):
    fitted("whitening").save(tmp_path / "saved")
    damage(tmp_path / "saved")
    with pytest.raises(InputError, match=words):
        selfguide.load(tmp_path / "saved", device="cpu")


def change(folder: Path, **entries) -> None:
    record = json.loads((folder / "embedder.json").read_text())
    (folder / "embedder.json").write_text(json.dumps({**record, **entries}))


def change_learned(folder: Path, how: Callable[[Tensor], Tensor]) -> None:
    arrays = load_file(folder / "learned.safetensors")
    save_file({**arrays, "mean_": how(arrays["mean_"])}, folder / "learned.safetensors")


@every_learning
def test_fitting_a_single_text_or_a_generator(places, name):
    with pytest.raises(InputError, match="a single text was given"):
        CASES[name].make(places).fit("the cat sits " * 20)
    with pytest.raises(InputError, match=r"sentences are a generator; give a list of texts"):
        CASES[name].make(places).fit(text for text in MANY)


@every_learning
def test_sentences_that_are_all_the_same(places, name):
    with pytest.raises(InputError, match="are the same for all sentences; give sentences that differ"):
        CASES[name].make(places).fit(["the cat"] * (DIM + 1))


def test_a_saved_embedder_may_be_given_another_length(fitted, tmp_path):
    fitted("whitening").save(tmp_path / "saved")
    with pytest.raises(InputError, match="max length 0 was asked for"):
        load_embedder(tmp_path / "saved", max_length=0, device="cpu")
    assert load_embedder(tmp_path / "saved", max_length=9, device="cpu").protocol["max_length"] == 9


def test_saving_replaces_a_folder_whole(fitted, tmp_path):
    fitted("whitening").save(tmp_path / "saved")
    (tmp_path / "saved" / "note.txt").write_text("of the first one")
    fitted("wk").save(tmp_path / "saved")
    assert selfguide.load(tmp_path / "saved", device="cpu").name.endswith("/wk")
    assert not (tmp_path / "saved" / "note.txt").exists()
    shutil.rmtree(tmp_path / "saved")


def test_dimensions_of_the_tiny_encoder_are_fewer_than_the_sentences():
    assert len(set(MANY)) == len(MANY) > DIM
