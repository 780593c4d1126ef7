"""Last states of the first token ([CLS]), without padding and without the rest of the last layer.

The rows of a batch lie end to end, so that every product is of real tokens only; attention takes them apart, in groups of
one length, or by a kernel that knows where each row ends. Of the last layer, queries, attention and feed-forward are
computed for the first tokens alone.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from selfguide.devices import sent

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
    states = torch.cat([_embedded(model, ids) for ids in groups])
    rows = _Rows(tuple((ids.shape[0], ids.shape[1]) for ids in groups), states.device)
    *layers, last = cast(Any, model).encoder.layer
    for layer in layers:
        states = _layer(layer, states, states, rows)
    return _layer(last, states[rows.starts], states, rows)


def _embedded(model: Any, ids: Tensor) -> Tensor:  # noqa: ANN401 - the parts of a model have no types
    """Embedding output ``(rows * tokens, dim)``; ELECTRA's is mapped to the width of the layers."""
    states: Tensor = model.embeddings(input_ids=ids)
    if hasattr(model, "embeddings_project"):
        states = model.embeddings_project(states)
    return states.flatten(0, 1)


def _layer(layer: Any, reading: Tensor, states: Tensor, rows: "_Rows") -> Tensor:  # noqa: ANN401
    """One layer's output for the tokens that read, ``(reading tokens, dim)``: all of them, or the first of each row."""
    attention = layer.attention.self
    heads = (attention.num_attention_heads, attention.attention_head_size)
    query, key, value = attention.query(reading), attention.key(states), attention.value(states)
    found = rows.attend(*(part.view(-1, *heads) for part in (query, key, value)))
    output: Tensor = layer.feed_forward_chunk(layer.attention.output(found.flatten(1), reading))
    return output


class _Rows:
    """Rows end to end, in groups of one length."""

    def __init__(self, shapes: tuple[tuple[int, int], ...], device: torch.device) -> None:
        self.shapes = shapes
        lengths = [tokens for rows, tokens in shapes for _ in range(rows)]
        self.ends = sent(torch.tensor([0, *accumulate(lengths)], dtype=torch.int32), device)
        self.longest = max(lengths)
        self.first_ends = torch.arange(len(lengths) + 1, dtype=torch.int32, device=device)

    @property
    def starts(self) -> Tensor:
        """Places of the first tokens, ``(rows,)``."""
        return self.ends[:-1]

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention among the tokens of each row, ``(reading tokens, heads, size)``."""
        all_read = len(query) == len(key)
        if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
            # takes a second to import; the other way is slow here, as a plan is made for every new shape
            from torch.nn.attention.varlen import varlen_attn

            reading = (self.ends, self.longest) if all_read else (self.first_ends, 1)
            found: Any = varlen_attn(query, key, value, reading[0], self.ends, reading[1], self.longest)
            return cast(Tensor, found)
        sizes = [rows * tokens for rows, tokens in self.shapes]
        queries = torch.split(query, sizes if all_read else [rows for rows, _ in self.shapes])
        parts = zip(queries, torch.split(key, sizes), torch.split(value, sizes), self.shapes, strict=True)
        return torch.cat([_attend(*(part.view(rows, -1, *part.shape[1:]) for part in qkv)) for *qkv, (rows, _) in parts])


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention among the tokens of each row, from ``(rows, tokens, heads, size)`` to ``(rows * tokens, heads, size)``."""
    found = scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
    return found.transpose(1, 2).flatten(0, 1)
