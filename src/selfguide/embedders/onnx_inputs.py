"""From sentences to what a graph of ONNX takes in: the text as it is, or token ids."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from selfguide.devices import TOKENS_PER_BATCH
from selfguide.embedders.onnx_graph import GraphInput
from selfguide.encoders.loading import LONGEST, usable_positions
from selfguide.errors import InputError
from selfguide.files import read_json

Batch = tuple[list[int], dict[str, npt.NDArray[Any]]]
"""Numbers of sentences, and the arrays of their inputs, perhaps with more rows at the end."""
Row = tuple[list[int], list[int]]
"""Token ids, and their types."""

TOKENIZER = "tokenizer.json"
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"

_SENTENCES_PER_BATCH = 64
_SENTENCES_TOKENIZED = 8192


class OpenGraph(Protocol):
    """A graph of ONNX or OpenVINO that was opened."""

    path: Path
    inputs: dict[str, GraphInput]

    @property
    def is_on_cuda(self) -> bool:
        """Whether it runs on a GPU."""

    @property
    def mixes_rows(self) -> bool:
        """Whether the vector of a row depends on the others."""

    def run(self, feed: Mapping[str, npt.NDArray[Any]], outputs: list[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """The outputs of these names, or all."""


class Inputs(Protocol):
    """Makes the inputs of a graph."""

    @property
    def max_length(self) -> int | None:
        """Longest input in tokens; None where the graph sees to it."""

    def batches(self, sentences: Sequence[str]) -> Iterator[Batch]:
        """Yield the sentences in batches, in an order of its own; one without any token is left out."""


def make_inputs(graph: OpenGraph, max_length: int | None) -> Inputs:
    """What fits the inputs of a graph.

    Raises:
        InputError: when the inputs are not known, the tokenizer is missing, or the length does not fit.
    """
    inputs = graph.inputs
    if len(inputs) == 1 and next(iter(inputs.values())).dtype == "object":
        if max_length is not None:
            raise InputError(f"max length {max_length} was asked for, but '{graph.path}' takes text and cuts it by itself")
        return TextInputs(graph)
    kinds = {(each.dtype == "object", len(each.shape)) for each in inputs.values()}
    if IDS not in inputs or not inputs.keys() <= {IDS, MASK, TYPES} or not kinds <= {(False, 2), (False, 0)}:
        raise InputError(
            f"the inputs of '{graph.path}' are {', '.join(inputs)}; a graph needs one of text, or {IDS} (n, tokens), with "
            f"{MASK} and {TYPES} where it has them"
        )
    return TokenInputs(graph, max_length)


def tokenizer_of(graph: Path) -> Path | None:
    """The file of the tokenizer, beside a graph or one folder above."""
    return _beside_or_above(graph, TOKENIZER)


@final
class TextInputs:
    """The text as it is, for a graph with the tokenizer inside."""

    max_length = None

    def __init__(self, graph: OpenGraph) -> None:
        (self._input,) = graph.inputs.values()
        self._fixed = self._input.shape[0] if self._input.shape else None
        self._at_once = 1 if graph.mixes_rows else self._fixed or _SENTENCES_PER_BATCH

    def batches(self, sentences: Sequence[str]) -> Iterator[Batch]:
        """Yield the sentences in their order."""
        for rows in _chunks(range(len(sentences)), self._at_once):
            texts = np.array([sentences[row] for row in _filled(rows, self._fixed)], dtype=object)
            yield rows, {self._input.name: texts[:, None] if len(self._input.shape) == 2 else texts}


@final
class TokenInputs:
    """Token ids, of sentences with similar lengths together."""

    def __init__(self, graph: OpenGraph, max_length: int | None) -> None:
        self._inputs = graph.inputs
        # a graph that does not tell the shape has no size that is fixed
        self._fixed_batch, self._fixed_length = graph.inputs[IDS].shape or (None, None)
        self._at_once = 1 if graph.mixes_rows else self._fixed_batch
        self._budget = TOKENS_PER_BATCH["cuda" if graph.is_on_cuda else "cpu"]
        self._tokenizer = _read_tokenizer(graph.path)
        self.max_length = _longest(self._tokenizer, graph.path, self._fixed_length, max_length)
        saved = self._tokenizer.truncation or {}
        self._tokenizer.enable_truncation(self.max_length, direction=saved.get("direction", "right"))
        self._pad = _pad_id(self._tokenizer)
        self._tokenizer.no_padding()

    def batches(self, sentences: Sequence[str]) -> Iterator[Batch]:
        """Yield the sentences from the shortest to the longest."""
        encoded: list[Row] = []
        for start in range(0, len(sentences), _SENTENCES_TOKENIZED):
            part = self._tokenizer.encode_batch_fast(list(sentences[start : start + _SENTENCES_TOKENIZED]))
            encoded += [(row.ids, row.type_ids) for row in part]
        for rows in self._groups([len(ids) for ids, _ in encoded]):
            yield rows, self._arrays([encoded[row] for row in _filled(rows, self._fixed_batch)])

    def _groups(self, lengths: list[int]) -> Iterator[list[int]]:
        """Numbers of the rows that go together; without a mask to tell padding from text, only rows of one length do."""
        order = sorted((row for row, length in enumerate(lengths) if length), key=lengths.__getitem__)
        needs_one_length = MASK not in self._inputs and self._fixed_length is None

        def bin_of(row: int) -> int:
            # rows of a bin differ by less than 8 tokens, so that little is padding
            return lengths[row] if needs_one_length else -(-lengths[row] // 8) * 8

        for width, bin_rows in groupby(order, key=bin_of):
            yield from _chunks(list(bin_rows), self._at_once or max(1, self._budget // width))

    def _arrays(self, rows: list[Row]) -> dict[str, npt.NDArray[Any]]:
        width = self._fixed_length or max(len(ids) for ids, _ in rows)
        ids = np.full((len(rows), width), self._pad)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for number, (row_ids, row_types) in enumerate(rows):
            ids[number, : len(row_ids)] = row_ids
            types[number, : len(row_ids)] = row_types
            mask[number, : len(row_ids)] = 1
        arrays = {IDS: ids, MASK: mask, TYPES: types}
        return {name: arrays[name].astype(needed.dtype) for name, needed in self._inputs.items()}


def _chunks(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def _filled(rows: list[int], size: int | None) -> list[int]:
    """Rows, the last one again and again up to a fixed number."""
    return rows + rows[-1:] * ((size or 0) - len(rows))


def _beside_or_above(graph: Path, name: str) -> Path | None:
    folder = graph.absolute().parent
    return next((place / name for place in (folder, folder.parent) if (place / name).is_file()), None)


def _read_tokenizer(graph: Path) -> Tokenizer:
    path = tokenizer_of(graph)
    if path is None:
        raise InputError(f"'{graph}' takes token ids and needs its {TOKENIZER}, beside it or in the folder above")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise InputError(f"{path}: not a whole tokenizer ({error})") from error


def _longest(tokenizer: Tokenizer, graph: Path, fixed: int | None, asked: int | None) -> int:
    """Longest input: what is asked for, else what the tokenizer says, else 128, and no more than there are positions."""
    positions = fixed or _positions(graph)
    saved = (tokenizer.truncation or {}).get("max_length") or fixed or LONGEST
    default = min(saved, positions) if positions else saved
    longest = default if asked is None else asked
    shortest = tokenizer.num_special_tokens_to_add(is_pair=False) + 1
    if longest < shortest or (positions and longest > positions):
        allowed = f"a number from {shortest} to {positions}" if positions else f"{shortest} or more"
        raise InputError(f"max length {longest} was asked for; '{graph}' takes {allowed}")
    return int(longest)


def _positions(graph: Path) -> int | None:
    path = _beside_or_above(graph, "config.json")
    try:
        config: Mapping[str, Any] = read_json(path) if path else {}
        positions = config.get("max_position_embeddings")
        if positions is None:
            return None
        return usable_positions(int(positions), config.get("model_type", ""), config.get("pad_token_id"))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the configuration of a model ({error})") from error


def _pad_id(tokenizer: Tokenizer) -> int:
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    return next((number for pad in ("[PAD]", "<pad>") if (number := tokenizer.token_to_id(pad)) is not None), 0)
