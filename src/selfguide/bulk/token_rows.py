"""Tokenised sentences as flat arrays, a tenth of the memory of lists; and batches of them by token count."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import final

import numpy as np
import numpy.typing as npt

_SENTENCES_AT_ONCE = 4096
"""What a tokenizer gives back is large, and so is not kept for more sentences than these."""

Positions = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class TokenRows:
    """Token ids of sentences, end to end."""

    ids: npt.NDArray[np.int32]
    lengths: Positions
    starts: Positions

    def __len__(self) -> int:
        return len(self.lengths)

    def group(self, positions: Positions) -> npt.NDArray[np.int64]:
        """Token ids ``(rows, tokens)`` of rows of one length."""
        places = self.starts[positions][:, None] + np.arange(self.lengths[positions[0]])
        return self.ids[places].astype(np.int64)


def tokenize(sentences: Sequence[str], tokenizer: Callable[[Sequence[str]], list[list[int]]]) -> TokenRows:
    """Token ids of sentences, by whatever gives lists of them."""
    parts = []
    for start in range(0, len(sentences), _SENTENCES_AT_ONCE):
        rows = tokenizer(sentences[start : start + _SENTENCES_AT_ONCE])
        lengths = np.fromiter(map(len, rows), np.int64, count=len(rows))
        parts.append((np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum())), lengths))
    return join_rows(parts)


def join_rows(parts: Sequence[tuple[npt.NDArray[np.int32], Positions]]) -> TokenRows:
    """One after the other, from the ids and the lengths of each part."""
    ids = np.concatenate([np.empty(0, np.int32), *(part for part, _ in parts)])
    lengths = np.concatenate([np.empty(0, np.int64), *(part for _, part in parts)])
    return TokenRows(ids, lengths, np.cumsum(lengths) - lengths)


def longest_first(lengths: Positions) -> Positions:
    """Positions of the rows that have tokens."""
    order = np.argsort(-lengths, kind="stable")
    return order[: np.count_nonzero(lengths)]


def batches(lengths: Positions, tokens: int) -> list[list[Positions]]:
    """Positions of rows, the longest first, in batches of about so many tokens, each in groups of one length.

    A row without any token, as a blank line is to a tokenizer that adds none of its own, is in no batch.
    """
    order = longest_first(lengths)
    in_order = lengths[order]
    batch = (np.cumsum(in_order) - in_order) // tokens
    return [
        np.split(order[rows], np.flatnonzero(np.diff(in_order[rows])) + 1)
        for rows in np.split(np.arange(len(order)), np.flatnonzero(np.diff(batch)) + 1)
        if len(rows)
    ]
