"""The encoder: a pretrained transformer with its tokenizer; text to token ids, token ids to states and vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from selfguide.devices import TOKENS_PER_BATCH, sent
from selfguide.encoders.families import Family, layer_zero_modules
from selfguide.encoders.states import EncoderStates
from selfguide.pooling import POOLINGS

TokenIds = list[list[int]]


@final
@dataclass(repr=False)
class Encoder:
    """A transformer, its tokenizer and the longest input it is given.

    An unused pooler is taken out of the model when it is loaded: it is neither run, nor trained, nor counted in the
    distance, and is written back as it was when the encoder is saved.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    family: Family
    name: str
    max_length: int
    positions: int
    """Tokens that the model has positions for."""
    pooler: torch.nn.Module | None = None

    def __repr__(self) -> str:
        return f"Encoder({self.name!r})"

    @property
    def layer_count(self) -> int:
        """Number of transformer layers."""
        return int(self.model.config.num_hidden_layers)

    @property
    def dim(self) -> int:
        """Size of a state."""
        return int(self.model.config.hidden_size)

    @property
    def pad_id(self) -> int:
        """Token id that fills up shorter rows."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def first_token(self) -> str:
        """The token that every row begins with, such as ``[CLS]``; a template inside the tokenizer may change it."""
        (around_nothing,) = self.tokenize([""])
        return str(self.tokenizer.convert_ids_to_tokens(around_nothing[0])) if around_nothing else self.family.first_token

    def tokenize(self, sentences: Sequence[str]) -> TokenIds:
        """Token ids of each sentence, special tokens included, cut at ``max_length``, not padded."""
        if not len(sentences):
            return []
        core = getattr(self.tokenizer, "backend_tokenizer", None)
        if core is None:
            return self._tokenize_plainly(sentences)
        self._tokenize_plainly(sentences[:1])  # sets where the core cuts; the core by itself is a third quicker
        return [row.ids for row in core.encode_batch_fast(list(sentences))]

    def _tokenize_plainly(self, sentences: Sequence[str]) -> TokenIds:
        encoded = self.tokenizer(
            list(sentences), truncation=True, max_length=self.max_length, padding=False, return_attention_mask=False
        )
        return list(encoded["input_ids"])

    def pad(self, rows: TokenIds, length: int | None = None) -> tuple[Tensor, Tensor]:
        """Token ids and mask of a batch, each ``(batch, length)`` on the CPU, padded to the longest row or to ``length``."""
        lengths = torch.tensor([len(row) for row in rows])
        width = length or int(lengths.max())
        mask = torch.arange(width) < lengths.unsqueeze(1)
        ids = torch.full((len(rows), width), self.pad_id)
        ids[mask] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
        return ids, mask.long()

    def frozen_parameters(self) -> list[torch.nn.Parameter]:
        """Parameters of layer 0."""
        return [p for module in layer_zero_modules(self.model, self.family) for p in module.parameters()]


def run_states(model: torch.nn.Module, ids: Tensor, mask: Tensor) -> EncoderStates:
    """States of every layer for token ids and mask of shape ``(batch, tokens)``."""
    output = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    return EncoderStates(hidden=tuple(output.hidden_states), mask=mask)


def run_last(model: torch.nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """States of the last layer only, ``(batch, tokens, dim)``; the others are not kept."""
    states: Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return states


def length_sorted_batches(rows: TokenIds, tokens_per_batch: int) -> list[list[int]]:
    """Positions of rows of like length, in batches that hold at most ``tokens_per_batch`` tokens, padding counted."""
    order = sorted(range(len(rows)), key=lambda position: len(rows[position]), reverse=True)
    batches: list[list[int]] = []
    for position in order:
        if batches and len(rows[batches[-1][0]]) * (len(batches[-1]) + 1) <= tokens_per_batch:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


@final
@dataclass(frozen=True)
class PaddedBatch:
    """Rows of like length, on a device."""

    positions: Tensor
    """Places of the rows among all, ``(batch,)``; on the CPU."""
    ids: Tensor
    """``(batch, tokens)``"""
    mask: Tensor
    """``(batch, tokens)``"""


def padded_batches(
    encoder: Encoder, rows: TokenIds, device: torch.device, tokens_per_batch: int | None = None
) -> Iterator[PaddedBatch]:
    """Rows in batches of at most so many tokens, by default what suits the device; a GPU is not waited for."""
    for positions in length_sorted_batches(rows, tokens_per_batch or TOKENS_PER_BATCH[device.type]):
        ids, mask = encoder.pad([rows[position] for position in positions])
        yield PaddedBatch(torch.tensor(positions), sent(ids, device), sent(mask, device))


def embed_rows(encoder: Encoder, rows: TokenIds, *, pooling: str = "cls", tokens_per_batch: int | None = None) -> Tensor:
    """Last-layer vectors of tokenised sentences, ``(n, dim)`` in float32 on the CPU, in the order given."""
    batches = padded_batches(encoder, rows, encoder.model.device, tokens_per_batch)
    return embed_batches(encoder, batches, pooling, into=torch.empty(len(rows), encoder.dim))


def embed_batches(encoder: Encoder, batches: Iterable[PaddedBatch], pooling: str, *, into: Tensor) -> Tensor:
    """Last-layer vectors of batches, in the places of their rows: ``into`` ``(n, dim)``, which is given back."""
    pool = POOLINGS[pooling]

    def read(ids: Tensor, mask: Tensor) -> Tensor:
        return pool(run_last(encoder.model, ids, mask), mask)

    return map_batches(encoder, batches, read, into=into)


def map_rows(
    encoder: Encoder, rows: TokenIds, read: Callable[[Tensor, Tensor], Tensor], *, shape: tuple[int, ...]
) -> Tensor:
    """What ``read`` makes of tokenised sentences, batched by length: ``(n, *shape)`` in float32 on the CPU, in order.

    Args:
        encoder: Gives the padding and the device.
        rows: Token ids of each sentence.
        read: Takes token ids and mask of a batch, each ``(batch, tokens)``, and gives ``(batch, *shape)``.
        shape: Of what is read of one sentence.
    """
    batches = padded_batches(encoder, rows, encoder.model.device)
    return map_batches(encoder, batches, read, into=torch.empty(len(rows), *shape))


@torch.no_grad()
def map_batches(
    encoder: Encoder, batches: Iterable[PaddedBatch], read: Callable[[Tensor, Tensor], Tensor], *, into: Tensor
) -> Tensor:
    """What ``read`` makes of batches, in the places of their rows: ``into`` ``(n, ...)``, which is given back.

    Dropout is off meanwhile, and the model is left in the mode it was in.
    """
    was_training = encoder.model.training
    encoder.model.train(False)
    try:
        for batch in batches:
            # where this is the device of the batch, no batch waits for the one before
            into[sent(batch.positions, into.device)] = read(batch.ids, batch.mask).float().to(into.device)
    finally:
        encoder.model.train(was_training)
    return into
