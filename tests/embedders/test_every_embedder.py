"""What every embedder promises, whatever it is made of."""

import numpy as np
import pytest

from selfguide.embedders.loading import load_embedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from tiny_models import SENTENCES, WORDS

KINDS = ("cls", "mean", "max", "mean@1", "last-2", "first-last", "embeddings-last", "sentence-transformers", "word-vectors")


@pytest.fixture(scope="module")
def embedder_of(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedders")
    save_encoder(load_encoder(tiny_folder("bert")), folder / "trained", pooling="mean")
    numbers = np.random.default_rng(0).normal(size=(len(WORDS), 5))
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, numbers, strict=True)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")

    def load(kind):
        match kind:
            case "sentence-transformers":
                return load_embedder(folder / "trained", device="cpu")
            case "word-vectors":
                return load_embedder(folder / "words.txt", device="cpu")
        pooling, _, layer = kind.partition("@")
        return load_embedder(tiny_folder("bert"), embedder=pooling, layer=int(layer) if layer else None, device="cpu")

    return load


@pytest.mark.parametrize("kind", KINDS)
def test_vectors(embedder_of, kind):
    embedder = embedder_of(kind)
    vectors = embedder.encode(SENTENCES)
    assert (vectors.dtype, vectors.ndim, len(vectors)) == (np.float32, 2, len(SENTENCES))
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(embedder.encode(SENTENCES), vectors)
    backwards = embedder.encode(SENTENCES[::-1])
    np.testing.assert_allclose(backwards[::-1], vectors, atol=1e-5)
    one_by_one = np.concatenate([embedder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(one_by_one, vectors, atol=1e-5)
    assert len({tuple(row) for row in vectors.round(3).tolist()}) == len(SENTENCES)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_input(embedder_of, kind):
    embedder = embedder_of(kind)
    dim = embedder.encode(["bird"]).shape[1]
    assert embedder.encode([]).shape == (0, dim)
    odd = embedder.encode(["", "  ", "the " * 500, "\u0645\u0631\u062d\u0628\u0627", "bird"])
    assert odd.shape == (5, dim)
    assert np.isfinite(odd).all()


@pytest.mark.parametrize("kind", KINDS)
def test_name_and_protocol(embedder_of, kind):
    embedder = embedder_of(kind)
    protocol = embedder.protocol
    assert embedder.name
    assert len(protocol["weights"]) == 64
    assert "max_length" in protocol
    assert embedder_of(kind).protocol == protocol
