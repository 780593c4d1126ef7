"""``encode --precision int8``: near float32, told how near, and refused where it is for something else."""

import numpy as np
import pytest

from selfguide import InputError, encode_files
from selfguide.bulk.int8 import near_batches
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.files import read_json
from tiny_models import MANY
from tiny_runs import SENTENCES

TEXTS = [*SENTENCES, "", "the cat " * 60]


@pytest.fixture
def encode(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path / "cache"))

    def run(model, **settings):
        return encode_files(
            TEXTS, tmp_path / "vectors.npy", model=model, precision="int8", progress=False, device="cpu", **settings
        )

    return run


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_it_is_near_float32(encode, tiny_folder, tmp_path, family):
    done = encode(tiny_folder(family), shard_size=16, batch_tokens=64)
    wanted = PooledEmbedder(load_encoder(tiny_folder(family))).encode(TEXTS)
    found = np.load(tmp_path / "vectors.npy")
    cosines = (found * wanted).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(wanted, axis=1)
    assert 0.995 < cosines.min() and cosines.mean() < 1 - 1e-7
    assert done.distance.mean_cosine == pytest.approx(cosines[:16].mean(), abs=1e-3)
    assert read_json(tmp_path / "vectors.npy.json")["precision"] == "int8"


def test_with_a_map_behind_it(encode, tiny_bert, tmp_path):
    whitening = WhiteningEmbedder(load_encoder(tiny_bert), pooling="cls", dimensions=4).fit(MANY)
    whitening.save(tmp_path / "white")
    encode(tmp_path / "white")
    wanted = whitening.encode(TEXTS)
    found = np.load(tmp_path / "vectors.npy")
    assert found.shape == wanted.shape and (found * wanted).sum(axis=1).mean() > 0.98


def test_other_vectors_are_refused(encode, tiny_bert):
    with pytest.raises(
        InputError, match=r"--precision int8 is for .CLS. vectors of BERT-like encoders, .*'selfguide export"
    ):
        encode(tiny_bert, embedder="mean")


def test_batches_hold_every_row_once_and_little_padding():
    lengths = np.random.default_rng(0).integers(2, 129, size=700)
    found = near_batches(lengths, 512)
    assert sorted(np.concatenate(found)) == list(range(700))
    assert len(found) < 300  # rows of one length alone would be more
    for batch in found:
        longest = lengths[batch].max()
        assert lengths[batch][0] == longest and len(batch) * longest <= 512
        assert lengths[batch].min() >= longest - longest // 16
    assert [list(batch) for batch in near_batches(np.array([3, 900, 3, 4]), 10)] == [[1], [3], [0, 2]]
    assert near_batches(np.array([], np.int64), 10) == []
