"""Last states of the first token ([CLS]), without padding and without the rest of the last layer.

The rows of a batch lie end to end, so that every product is of real tokens only; attention takes them apart, in groups of
one length. Of the last layer, queries, attention and feed-forward are computed for the first tokens alone.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
"""Families (``model_type``) whose layers have the same parts by the same names."""


def has_known_layers(model: PreTrainedModel) -> bool:
    """Whether :func:`first_token_states` can read a model; code that came with one may do anything."""
    return model.config.model_type in LIKE_BERT and type(model).__module__.startswith("transformers.models.")


@torch.no_grad()
def first_token_states(model: PreTrainedModel, groups: Sequence[Tensor]) -> Tensor:
    """Last states of the first tokens, ``(rows of all groups, dim)``.

    Args:
        model: A model with known layers, dropout off.
        groups: Token ids ``(rows, tokens)`` on the model's device, nothing in them being padding.
    """
    shapes = [(ids.shape[0], ids.shape[1]) for ids in groups]
    states = torch.cat([_embedded(model, ids) for ids in groups])
    *layers, last = cast(Any, model).encoder.layer
    for layer in layers:
        states = _layer(layer, states, states, shapes)
    first = torch.cat([rows.view(*shape, -1)[:, 0] for rows, shape in zip(_split(states, shapes), shapes, strict=True)])
    return _layer(last, first, states, shapes)


def _embedded(model: Any, ids: Tensor) -> Tensor:  # noqa: ANN401 - the parts of a model have no types
    """Embedding output ``(rows * tokens, dim)``; ELECTRA's is mapped to the width of the layers."""
    states: Tensor = model.embeddings(input_ids=ids)
    if hasattr(model, "embeddings_project"):
        states = model.embeddings_project(states)
    return states.flatten(0, 1)


def _layer(layer: Any, reading: Tensor, states: Tensor, shapes: list[tuple[int, int]]) -> Tensor:  # noqa: ANN401
    """One layer's output for the tokens that read, ``(reading tokens, dim)``: all of them, or the first of each row."""
    attention = layer.attention.self
    query, key, value = attention.query(reading), attention.key(states), attention.value(states)
    heads = (attention.num_attention_heads, attention.attention_head_size)
    queries = _split(query, shapes) if reading is states else torch.split(query, [rows for rows, _ in shapes])
    parts = zip(queries, _split(key, shapes), _split(value, shapes), shapes, strict=True)
    found = torch.cat([_attend(*(part.view(rows, -1, *heads) for part in qkv)) for *qkv, (rows, _) in parts])
    output: Tensor = layer.feed_forward_chunk(layer.attention.output(found, reading))
    return output


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention among the tokens of each row, from ``(rows, tokens, heads, size)`` to ``(rows * tokens, dim)``."""
    found = scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
    return found.transpose(1, 2).flatten(0, 1).flatten(1)


def _split(packed: Tensor, shapes: list[tuple[int, int]]) -> tuple[Tensor, ...]:
    return torch.split(packed, [rows * tokens for rows, tokens in shapes])
