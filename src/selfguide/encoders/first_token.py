"""Last states of the first token ([CLS]), without padding and without the rest of the last layer.

The rows of a batch lie end to end, so that every product is of real tokens only; attention takes them apart, in groups of
one length, or by a kernel that knows where each row ends. Of the last layer, queries, attention and feed-forward are
computed for the first tokens alone.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Protocol, cast, final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from selfguide.devices import sent

LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
"""Families (``model_type``) whose layers have the same parts by the same names."""


def has_known_layers(model: nn.Module) -> bool:
    """Whether :func:`first_token_states` can read a model; code that came with one may do anything."""
    family = getattr(getattr(model, "config", None), "model_type", None)
    return family in LIKE_BERT and type(model).__module__.startswith("transformers.models.")


def first_token_states(model: nn.Module, groups: Sequence[Tensor]) -> Tensor:
    """Last states of the first tokens, ``(rows of all groups, dim)``.

    Args:
        model: A model with known layers; where it is being trained, dropout is on.
        groups: Token ids ``(rows, tokens)`` on the model's device, nothing in them being padding.
    """
    states = torch.cat([_embedded(model, ids) for ids in groups])
    return _through_layers(model, states, _GroupedRows(tuple((len(ids), ids.shape[1]) for ids in groups), states.device))


def first_token_of_padded(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """The same ``(rows, dim)`` of rows that are padded: ids and mask ``(rows, tokens)``."""
    rows = _PaddedRows(mask)
    return _through_layers(model, _embedded(model, ids)[rows.places], rows)


def _through_layers(model: Any, states: Tensor, rows: "_Rows") -> Tensor:  # noqa: ANN401 - the parts of a model have no types
    *layers, last = model.encoder.layer
    for layer in layers:
        states = _layer(layer, states, states, rows)
    return _layer(last, states[rows.starts], states, rows)


def _embedded(model: Any, ids: Tensor) -> Tensor:  # noqa: ANN401
    """Embedding output ``(rows * tokens, dim)``, end to end; ELECTRA's is mapped to the width of the layers."""
    states: Tensor = model.embeddings(input_ids=ids)
    if hasattr(model, "embeddings_project"):
        states = model.embeddings_project(states)
    return states.flatten(0, 1)


def _layer(layer: Any, reading: Tensor, states: Tensor, rows: "_Rows") -> Tensor:  # noqa: ANN401
    """One layer's output for the tokens that read, ``(reading tokens, dim)``: all of them, or the first of each row."""
    attention = layer.attention.self
    heads = (attention.num_attention_heads, attention.attention_head_size)
    query, key, value = attention.query(reading), attention.key(states), attention.value(states)
    dropout = attention.dropout.p if attention.training else 0.0
    found = rows.attend(*(part.view(-1, *heads) for part in (query, key, value)), dropout=dropout)
    output: Tensor = layer.feed_forward_chunk(layer.attention.output(found.flatten(1), reading))
    return output


class _Rows(Protocol):
    """Rows of tokens, end to end; who knows them can let the tokens of each attend to one another."""

    starts: Tensor
    """Places of the first tokens, ``(rows,)``."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float) -> Tensor:
        """Attention among the tokens of each row, ``(reading tokens, heads, size)``: of all of them, or of the first."""


@final
class _GroupedRows:
    """Rows in groups of one length."""

    def __init__(self, shapes: tuple[tuple[int, int], ...], device: torch.device) -> None:
        self.shapes = shapes
        lengths = [tokens for rows, tokens in shapes for _ in range(rows)]
        self.ends = sent(torch.tensor([0, *accumulate(lengths)], dtype=torch.int32), device)
        self.longest = max(lengths)
        self.starts = self.ends[:-1]
        self.first_ends = torch.arange(len(lengths) + 1, dtype=torch.int32, device=device)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float) -> Tensor:
        """Group after group, or by one kernel for all lengths where there is one."""
        all_read = len(query) == len(key)
        if _has_varlen_attention(query) and not dropout:
            from torch.nn.attention.varlen import varlen_attn  # takes a second

            reading = (self.ends, self.longest) if all_read else (self.first_ends, 1)
            found: Any = varlen_attn(query, key, value, reading[0], self.ends, reading[1], self.longest)
            return cast(Tensor, found)
        sizes = [rows * tokens for rows, tokens in self.shapes]
        queries = torch.split(query, sizes if all_read else [rows for rows, _ in self.shapes])
        parts = zip(queries, torch.split(key, sizes), torch.split(value, sizes), self.shapes, strict=True)
        found_parts = []
        for *qkv, (rows, _) in parts:
            q, k, v = (part.view(rows, -1, *part.shape[1:]) for part in qkv)
            found_parts.append(_attend(q, k, v, dropout))
        return torch.cat(found_parts)


@final
class _PaddedRows:
    """Rows that were padded; for attention alone, the least part of the work, they are padded again."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask.bool()
        self.places = self.mask.flatten().nonzero().flatten()
        lengths = self.mask.sum(dim=1)
        self.starts = lengths.cumsum(0) - lengths

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float) -> Tensor:
        """All rows at once, padding masked."""
        all_read = len(query) == len(key)
        reading = self._padded(query) if all_read else query.unsqueeze(1)
        found = _attend(reading, self._padded(key), self._padded(value), dropout, self.mask[:, None, None, :])
        return found[self.places] if all_read else found

    def _padded(self, packed: Tensor) -> Tensor:
        """From ``(tokens of all rows, heads, size)`` to ``(rows, tokens, heads, size)``."""
        empty = packed.new_zeros(self.mask.numel(), *packed.shape[1:])
        return empty.index_copy(0, self.places, packed).view(*self.mask.shape, *packed.shape[1:])


def _has_varlen_attention(query: Tensor) -> bool:
    """Whether there is a kernel: of flash attention, for half precision on GPUs since Ampere."""
    is_half = query.dtype in (torch.float16, torch.bfloat16)
    return query.is_cuda and is_half and torch.cuda.get_device_capability(query.device) >= (8, 0)


def _attend(query: Tensor, key: Tensor, value: Tensor, dropout: float, mask: Tensor | None = None) -> Tensor:
    """Attention among the tokens of each row, from ``(rows, tokens, heads, size)`` to ``(rows * tokens, heads, size)``."""
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    found = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    return found.transpose(1, 2).flatten(0, 1)
