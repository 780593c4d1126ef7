"""[CLS] vectors in int8 on a CPU: rows of almost one length together, through a graph of OpenVINO.

:mod:`selfguide.embedders.openvino_graph` says what int8 means here, and what it was chosen over.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from selfguide.bulk.coders import Coder, FirstTokenCoder, OnProgress, WaitForVectors
from selfguide.bulk.first_token_graph import FirstTokenGraph, to_openvino
from selfguide.bulk.folder_map import MappedCoder
from selfguide.bulk.token_rows import Positions, TokenRows, longest_first
from selfguide.embedders.onnx_inputs import IDS, MASK
from selfguide.embedders.openvino_graph import compile_graph, round_weights
from selfguide.errors import InputError

TOKENS_PER_BATCH = 1024
_SLACK = 16
"""A row may be shorter than the longest of its batch by one token in so many: a batch of one row wastes more than that."""


@final
class Int8Coder:
    """[CLS] of a BERT-like encoder in int8."""

    def __init__(self, plain: FirstTokenCoder, *, batch_tokens: int | None = None) -> None:
        """Turn the encoder of a coder into a graph.

        Raises:
            MissingExtraError: when openvino is not installed.
        """
        self.plain, self.batch_tokens = plain, batch_tokens or TOKENS_PER_BATCH
        graph = to_openvino(FirstTokenGraph(plain.encoder.model), [IDS, MASK])
        round_weights(graph)
        self._request = compile_graph(graph).create_infer_request()

    @property
    def identity(self) -> dict[str, Any]:
        """As of the coder of float32."""
        return self.plain.identity

    def prepare(self, sentences: Sequence[str]) -> TokenRows:
        """Token ids."""
        return self.plain.prepare(sentences)

    def begin(self, prepared: TokenRows, on_progress: OnProgress) -> WaitForVectors:
        """Encode them here; nothing is left to wait for."""
        found = np.zeros((len(prepared), self.plain.encoder.dim), np.float32)
        for positions in near_batches(prepared.lengths, self.batch_tokens):
            feed = dict(enumerate(_padded(prepared, positions, self.plain.encoder.pad_id)))
            found[positions] = self._request.infer(feed, share_inputs=True)[0]
            on_progress(len(positions))
        return lambda: found

    def lower(self, dtype: torch.dtype) -> None:
        """Nothing: it is lower than that."""


def near_batches(lengths: Positions, tokens: int) -> list[Positions]:
    """Positions of rows with tokens, the longest first, in batches of at most so many, all lengths almost the same."""
    order = longest_first(lengths)
    negative = -lengths[order]  # which rises, as a search needs it
    found, start = [], 0
    while start < len(order):
        longest = -int(negative[start])
        shortest = longest - longest // _SLACK
        near = int(np.searchsorted(negative, -shortest, side="right"))
        end = min(near, start + max(1, tokens // longest))
        found.append(order[start:end])
        start = end
    return found


def _padded(rows: TokenRows, positions: Positions, pad_id: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Token ids and mask, each ``(rows, longest)``; the first row is the longest."""
    places = np.arange(rows.lengths[positions[0]])
    mask = places < rows.lengths[positions][:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = rows.ids[(rows.starts[positions][:, None] + places)[mask]]
    return ids, mask.astype(np.int64)


def int8_coder(coder: Coder, model: str, *, batch_tokens: int | None = None) -> Coder:
    """The same vectors in int8.

    Raises:
        MissingExtraError: when openvino is not installed.
        InputError: when these vectors are not the [CLS] states of a BERT-like encoder on a CPU.
    """
    if isinstance(coder, MappedCoder):
        return MappedCoder(int8_coder(coder.coder, model, batch_tokens=batch_tokens), coder.map)
    if not isinstance(coder, FirstTokenCoder):
        raise InputError(
            f"--precision int8 is for [CLS] vectors of BERT-like encoders, and '{model}' is something else; export it with "
            "'selfguide export --format openvino --precision int8', and encode with the folder that this writes"
        )
    if coder.device.type != "cpu":
        raise InputError(f"--precision int8 is for a CPU, and the device is {coder.device.type}; use bf16, or --device cpu")
    return Int8Coder(coder, batch_tokens=batch_tokens)
