"""Tokenising in several processes gives what one gives, and a process that dies is told."""

import numpy as np
import pytest

from selfguide.bulk import coders
from selfguide.bulk.coders import FirstTokenCoder
from selfguide.bulk.token_rows import tokenize
from selfguide.bulk.tokenizer_pool import SENTENCES_AT_ONCE, TokenizerPool
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.template import with_template
from selfguide.errors import SelfguideError
from tiny_models import ENCODERS
from tiny_runs import SENTENCES

TEXTS = [*SENTENCES, "", "the " * 200, "<pad> the [PAD] cat", "ünïcödé 猫"]


@pytest.fixture
def pool_of():
    pools = []

    def make(encoder, processes=2):
        encoder.tokenize([""])
        pools.append(TokenizerPool(encoder.tokenizer.backend_tokenizer.to_str(), processes))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.mark.parametrize("family", ENCODERS)
def test_it_gives_what_the_encoder_gives(tiny_folder, pool_of, family):
    encoder = load_encoder(tiny_folder(family))
    texts = TEXTS * (3 * SENTENCES_AT_ONCE // len(TEXTS))
    found, wanted = pool_of(encoder).tokenize(texts), tokenize(texts, encoder.tokenize)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)


def test_a_template_goes_with_it(tiny_folder, pool_of):
    encoder = with_template(load_encoder(tiny_folder("bert")), '{mask} is the meaning of " {sentence} " .')
    found = pool_of(encoder).tokenize(TEXTS)
    np.testing.assert_array_equal(found.ids, tokenize(TEXTS, encoder.tokenize).ids)


def test_nothing_is_nothing(tiny_folder, pool_of):
    assert len(pool_of(load_encoder(tiny_folder("bert"))).tokenize([])) == 0


def test_a_process_that_dies_is_told_and_not_waited_for(tiny_folder, pool_of):
    pool = pool_of(load_encoder(tiny_folder("bert")))
    for process in pool._processes:
        process.kill()
    with pytest.raises(SelfguideError, match="died"):
        pool.tokenize(TEXTS)


def test_a_coder_uses_it_for_many_sentences(tiny_folder, monkeypatch):
    """On CUDA it does by itself; here it is given one."""
    monkeypatch.setattr(coders.os, "cpu_count", lambda: 4)
    encoder = load_encoder(tiny_folder("bert"))
    coder = FirstTokenCoder(encoder)
    coder.pool = coders._tokenizer_pool(encoder)
    texts = TEXTS * (2 * SENTENCES_AT_ONCE // len(TEXTS))
    try:
        np.testing.assert_array_equal(coder.prepare(texts).ids, tokenize(texts, encoder.tokenize).ids)
    finally:
        coder.pool.close()
    assert all(process.poll() is not None for process in coder.pool._processes)
