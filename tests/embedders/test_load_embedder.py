import json

import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.sentence_transformers import SentenceTransformerEmbedder
from selfguide.embedders.word_vectors import WordVectorEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from tiny_models import POSITIONS, SENTENCES


@pytest.fixture
def trained(tmp_path, tiny_bert):
    """A folder as ``selfguide train`` writes it."""
    folder = tmp_path / "my-encoder"
    folder.mkdir()
    save_encoder(load_encoder(tiny_bert), folder)
    (folder / "selfguide").mkdir()
    config = {"model": "/some/where/tiny", "objective": "sg-opt", "seed": 7, "dev": "pairs.tsv"}
    (folder / "selfguide" / "config.json").write_text(json.dumps(config))
    return folder


def test_labels_chose_also_where_a_function_scored(trained):
    config = trained / "selfguide" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "dev": None}))
    for after in (None, 71.5):
        (trained / "selfguide" / "summary.json").write_text(json.dumps({"after": after}))
        assert selfguide.load(trained, device="cpu").protocol["selected_by_labels"] is (after is not None)


def test_a_plain_encoder_is_taken_by_its_first_token(tiny_bert):
    embedder = selfguide.load(tiny_bert, device="cpu")
    assert isinstance(embedder, PooledEmbedder)
    assert embedder.name == f"{tiny_bert.name}/cls"


def test_the_bundled_encoder():
    assert selfguide.load("mini", device="cpu").name == "mini/cls"


def test_a_trained_folder_is_what_sentence_transformers_makes_of_it(trained):
    embedder = selfguide.load(trained, device="cpu")
    assert isinstance(embedder, SentenceTransformerEmbedder)
    assert embedder.name == "tiny/sg-opt"
    assert embedder.protocol["pooling"] == "cls"
    assert embedder.protocol["training_seed"] == 7
    assert embedder.protocol["selected_by_labels"] is True
    expected = SentenceTransformer(str(trained), device="cpu").encode(list(SENTENCES))
    assert abs(embedder.encode(SENTENCES) - expected).max() < 1e-6


def test_its_layers_can_be_pooled_all_the_same(trained):
    assert load_embedder(trained, embedder="mean", device="cpu").name == "my-encoder/mean"
    assert load_embedder(trained, layer=1, device="cpu").name == "my-encoder/cls@1"


def test_lengths(trained, tiny_bert):
    assert load_embedder(trained, max_length=9, device="cpu").protocol["max_length"] == 9
    assert load_embedder(tiny_bert, max_length=9, device="cpu").protocol["max_length"] == 9
    for wrong in (0, POSITIONS + 1):
        with pytest.raises(InputError, match=f"max length {wrong} was asked for; .* takes a number from 1 to {POSITIONS}"):
            load_embedder(trained, max_length=wrong, device="cpu")


def test_a_file_holds_word_vectors(tmp_path):
    (tmp_path / "words.txt").write_text("the 1 0\n")
    assert isinstance(selfguide.load(tmp_path / "words.txt"), WordVectorEmbedder)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"embedder": "avg"}, "embedder 'avg' is not known; choose one of: cls, mean, max, last-K, .*wk, flow, .*onnx"),
        ({"embedder": "word-vectors"}, "cannot be read|no such file"),
        (
            {"embedder": "sentence-transformers", "layer": 3},
            "'sentence-transformers' has no layer to choose; give cls, mean or max",
        ),
        ({"device": "gpu"}, "device 'gpu' is not known; choose one of: auto, cpu, cuda, mps"),
        ({"max_length": 4000}, "max length 4000 was asked for"),
    ],
)
def test_wrong_options(tiny_bert, options, words):
    with pytest.raises(InputError, match=words):
        load_embedder(tiny_bert, **{"device": "cpu", **options})


def test_no_such_model():
    with pytest.raises(InputError, match="'no/such-model' is not a local folder and could not be had"):
        selfguide.load("no/such-model")


def test_a_broken_sentence_transformers_folder(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(InputError, match="cannot be loaded as a sentence-transformers model"):
        selfguide.load(tmp_path, device="cpu")


def test_a_plain_folder_is_not_pooled_by_the_mean_without_a_word(tiny_bert):
    with pytest.raises(InputError, match=r"has no modules.json: .* ask for a pooling"):
        load_embedder(tiny_bert, embedder="sentence-transformers", device="cpu")


def test_a_broken_record(trained):
    (trained / "selfguide" / "config.json").write_text('{"model": "x"}')
    with pytest.raises(InputError, match=r"config.json: not the record of a training run \(KeyError 'objective'\)"):
        selfguide.load(trained, device="cpu")
