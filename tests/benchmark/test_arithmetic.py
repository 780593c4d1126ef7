"""Counted multiplications are those that torch's own counter sees."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from selfguide.benchmark.arithmetic import Shape, our_products, padded_products
from selfguide.encoders.first_token import first_token_states
from selfguide.encoders.loading import load_encoder

LENGTHS = (9, 9, 7, 4, 4, 2)


@pytest.fixture
def model(tiny_folder):
    return load_encoder(tiny_folder("bert")).model


def multiplications(work):
    """One for each two operations, as torch counts an addition with each multiplication."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        work()
    return counter.get_total_flops() // 2


def test_ours(model):
    groups = [torch.ones(LENGTHS.count(length), length, dtype=torch.long) for length in (9, 7, 4, 2)]
    counted = multiplications(lambda: first_token_states(model, groups))
    assert our_products(Shape.of(model.config), LENGTHS) == counted > 0


@pytest.mark.parametrize("batch_size", [1, 2, 4, 6, 100])
def test_those_of_padded_batches(model, batch_size):
    def work():
        for start in range(0, len(LENGTHS), batch_size):
            batch = LENGTHS[start : start + batch_size]
            ids = torch.ones(len(batch), max(batch), dtype=torch.long)
            model(input_ids=ids, attention_mask=torch.arange(max(batch)) < torch.tensor(batch).unsqueeze(1))

    assert padded_products(Shape.of(model.config), LENGTHS, batch_size=batch_size) == multiplications(work) > 0
