"""The quick way to [CLS] against the plain one, for every family: it gives the same, or is not used."""

import numpy as np
import pytest
import torch

from selfguide.bulk.coders import FirstTokenCoder, all_vectors
from selfguide.bulk.token_rows import batches, tokenize
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.first_token import LIKE_BERT, first_token_of_padded, has_known_layers
from selfguide.encoders.loading import load_encoder
from tiny_models import ENCODERS
from tiny_runs import SENTENCES

TEXTS = [*SENTENCES, "", "the " * 200, "<pad> the [PAD] cat", "ünïcödé 猫"]


@pytest.mark.parametrize("family", ENCODERS)
def test_it_gives_the_same_or_is_not_used(tiny_folder, family):
    encoder = load_encoder(tiny_folder(family))
    assert has_known_layers(encoder.model) == (family in LIKE_BERT)
    if family not in LIKE_BERT:
        return
    coder = FirstTokenCoder(encoder, batch_tokens=64)  # several batches, several lengths in each
    done = []
    vectors = coder.begin(coder.prepare(TEXTS), done.append)()
    np.testing.assert_allclose(vectors, PooledEmbedder(encoder).encode(TEXTS), atol=1e-5)
    assert vectors.dtype == np.float32 and sum(done) == len(TEXTS) and len(done) > 3


def test_one_layer_is_enough(tiny_folder):
    encoder = load_encoder(tiny_folder("bert"))
    encoder.model.encoder.layer = encoder.model.encoder.layer[:1]
    coder = FirstTokenCoder(encoder)
    with torch.no_grad():
        ids, mask = encoder.pad(encoder.tokenize(TEXTS))
        wanted = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
    np.testing.assert_allclose(all_vectors(coder, TEXTS), wanted, atol=1e-5)


def test_code_that_came_with_a_model_is_not_trusted_to_be_alike(tiny_folder):
    encoder = load_encoder(tiny_folder("bert"))
    encoder.model.__class__ = type("BertModel", (type(encoder.model),), {"__module__": "transformers_modules.custom"})
    assert not has_known_layers(encoder.model)


def test_batches_hold_every_row_once_and_about_so_many_tokens():
    lengths = np.random.default_rng(0).integers(2, 60, size=500)
    found = batches(lengths, 256)
    assert sorted(np.concatenate([group for batch in found for group in batch])) == list(range(500))
    for batch in found:
        assert sum(lengths[group].sum() for group in batch) < 256 + 60
        assert all(len(set(lengths[group])) == 1 for group in batch)
    assert batches(np.array([], np.int64), 256) == []
    assert [[list(group) for group in batch] for batch in batches(np.array([3, 900, 3]), 10)] == [[[1]], [[0, 2]]]


def test_rows_are_what_the_tokenizer_gave():
    rows = [[5, 6, 7], [], [8], [9, 10, 11]] * 600
    tokens = tokenize([""] * len(rows), lambda part: rows[: len(part)])
    assert len(tokens) == 2400 and tokens.lengths[:4].tolist() == [3, 0, 1, 3]
    assert tokens.group(np.array([3, 0])).tolist() == [[9, 10, 11], [5, 6, 7]]


@pytest.mark.parametrize("family", LIKE_BERT)
def test_padded_rows_give_the_same_with_the_same_gradients(tiny_folder, family):
    encoder = load_encoder(tiny_folder(family))
    encoder.model.eval()
    texts = [text for text in TEXTS if "pad" not in text]
    ids, mask = encoder.pad(encoder.tokenize(texts))
    found = {}
    for name, states in {
        "plain": lambda: encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0],
        "unpadded": lambda: first_token_of_padded(encoder.model, ids, mask),
    }.items():
        encoder.model.zero_grad()
        vectors = states()
        vectors.square().sum().backward()
        gradients = [parameter.grad for parameter in encoder.model.parameters() if parameter.grad is not None]
        found[name] = [vectors.detach(), *(gradient.clone() for gradient in gradients)]
    assert len(found["plain"]) == len(found["unpadded"]) > 20
    for plain, unpadded in zip(*found.values(), strict=True):
        torch.testing.assert_close(unpadded, plain, atol=2e-5, rtol=1e-4)


def test_dropout_is_on_while_training(tiny_folder):
    encoder = load_encoder(tiny_folder("bert"))
    ids, mask = encoder.pad(encoder.tokenize(SENTENCES))
    encoder.model.train()
    once, again = (first_token_of_padded(encoder.model, ids, mask) for _ in range(2))
    assert not torch.allclose(once, again)
    for layer in encoder.model.encoder.layer:  # that of attention is used, too
        layer.attention.self.dropout.p = 0.9
    for module in encoder.model.modules():
        if isinstance(module, torch.nn.Dropout) and module.p != 0.9:
            module.p = 0.0
    once, again = (first_token_of_padded(encoder.model, ids, mask) for _ in range(2))
    assert not torch.allclose(once, again)
