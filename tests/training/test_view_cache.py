"""The view cache: the same views as computed one by one, each sentence through the guide once, memory bounded."""

from collections import Counter

import pytest
import torch

from selfguide.encoders.guide import Guide
from selfguide.encoders.loading import load_encoder
from selfguide.training import view_cache
from selfguide.training.batches import BatchPlan
from selfguide.training.view_cache import ViewCache
from tiny_runs import SENTENCES

STEPS = 40
"""Eight epochs of five batches."""

ROW_BYTES = 4 * 5 * 32
"""One sentence: float32, 5 layers of width 32."""


@pytest.fixture(autouse=True)
def few_steps_ahead(monkeypatch):
    monkeypatch.setattr(view_cache, "STEPS_AHEAD", 2)


@pytest.fixture(scope="module")
def guide(tiny_folder):
    encoder = load_encoder(tiny_folder("bert"))
    return Guide(encoder, layers=range(5), pooling="max")


@pytest.fixture
def read(monkeypatch):
    """Counts how often each sentence goes through a guide."""
    counted = Counter()
    plain = Guide.views_of_rows

    def counting(self, rows, **options):
        counted.update(map(tuple, rows))
        return plain(self, rows, **options)

    monkeypatch.setattr(Guide, "views_of_rows", counting)
    return counted


def cache_of(guide, *, budget_rows=10**6, sentences=SENTENCES, steps=STEPS, parts=1, tokens_per_batch=64):
    plan = BatchPlan(len(sentences), 8, seed=1, accumulation=parts)
    return ViewCache(
        guide,
        sentences,
        plan.positions,
        parts=parts,
        steps=steps,
        budget_bytes=budget_rows * ROW_BYTES,
        tokens_per_batch=tokens_per_batch,
    )


def direct_views(guide, cache, step, part=0):
    texts = [cache.sentences[position] for position in cache.positions(step, part)]
    return torch.cat([guide.views(*guide.encoder.pad(guide.encoder.tokenize([text]))) for text in texts])


@pytest.mark.parametrize("budget_rows", [1, 25, 10**6])
@pytest.mark.parametrize("parts", [1, 2])
def test_views_are_those_of_the_guide(guide, budget_rows, parts):
    cache = cache_of(guide, budget_rows=budget_rows, parts=parts, steps=12)
    for step in range(12):
        for part in range(parts):
            torch.testing.assert_close(cache(step, part), direct_views(guide, cache, step, part))


def test_each_sentence_goes_through_the_guide_once_when_all_fit(guide, read):
    cache = cache_of(guide)
    for step in range(STEPS):
        cache(step)
    assert cache.capacity == len(SENTENCES) == 40
    assert len(read) == 40
    assert set(read.values()) == {1}


def test_a_repeated_sentence_goes_through_the_guide_once(guide, read):
    repeated = (*SENTENCES[:20], *SENTENCES[:20])
    cache = cache_of(guide, sentences=repeated)
    for step in range(STEPS):
        torch.testing.assert_close(cache(step), direct_views(guide, cache, step))
    assert len(read) == 20
    assert set(read.values()) == {1}


def test_only_what_the_next_steps_need_is_read(guide, read):
    cache = cache_of(guide)
    cache(0)
    cache(1)
    assert sum(read.values()) == 16
    cache(2)
    assert sum(read.values()) == 32


def test_a_short_run_reserves_and_reads_what_it_needs_only(guide, read):
    cache = cache_of(guide, steps=3)
    for step in range(3):
        cache(step)
    assert cache.capacity == 24
    assert sum(read.values()) == 24


@pytest.mark.parametrize(("budget_rows", "capacity"), [(0, 16), (1, 16), (20, 20), (39, 39), (40, 40), (10**6, 40)])
def test_memory_is_bounded(guide, read, budget_rows, capacity):
    """At the least the sentences of the steps ahead: 2 steps of 8."""
    cache = cache_of(guide, budget_rows=budget_rows)
    most = 0
    for step in range(STEPS):
        cache(step)
        most = max(most, len(cache._rows))
    assert cache.capacity == capacity == len(cache._views)
    assert most <= capacity
    assert (max(read.values()) > 1) == (capacity < 40)


@pytest.mark.parametrize("budget_rows", [1, 25, 10**6])
@pytest.mark.parametrize("start", [1, 7, 23])
def test_a_run_that_begins_later_has_the_same_bits(guide, budget_rows, start):
    whole, resumed = (cache_of(guide, budget_rows=budget_rows) for _ in range(2))
    views = [whole(step) for step in range(STEPS)]
    for step in range(start, STEPS):
        assert torch.equal(resumed(step), views[step])


def test_the_bits_do_depend_on_what_is_computed_together(guide):
    """Else the test above would show nothing."""
    together, alone = cache_of(guide), cache_of(guide, tokens_per_batch=1)
    assert any(not torch.equal(together(step), alone(step)) for step in range(5))


def test_a_view_that_was_given_out_stays_as_it_is(guide):
    cache = cache_of(guide, budget_rows=1)
    first = cache(0)
    copy = first.clone()
    for step in range(1, STEPS):
        cache(step)
    assert torch.equal(first, copy)
