"""Views of a guide without dropout: a fixed function of the sentence, so made once for each, ahead, in large batches."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from selfguide.data.texts import Texts
from selfguide.devices import sent
from selfguide.encoders.guide import Guide

STEPS_AHEAD = 64
"""Batches whose new sentences go through the guide together."""


@final
class ViewCache:
    """Views by text, filled some steps ahead and emptied when full.

    What is computed together depends on the plan alone, not on where a run began: after a resume the same sentences go
    through the guide in the same batches, and the views are the same to the last bit.
    """

    def __init__(
        self,
        guide: Guide,
        sentences: Texts,
        positions: Callable[[int, int], list[int]],
        *,
        parts: int,
        steps: int,
        budget_bytes: int,
        tokens_per_batch: int,
    ) -> None:
        """Reserve the memory.

        Args:
            guide: Makes the views.
            sentences: What the guide reads.
            positions: Of the sentences of (step, part of the step).
            parts: Parts of a step.
            steps: Steps of the run.
            budget_bytes: Memory for views; at least the sentences of the steps ahead are held.
            tokens_per_batch: Of the guide's own batches.
        """
        self.guide, self.sentences, self.positions = guide, sentences, positions
        self.parts, self.steps, self.tokens_per_batch = parts, steps, tokens_per_batch
        largest = STEPS_AHEAD * parts * len(positions(0, 0))
        row_bytes = 4 * len(guide.layers) * guide.encoder.dim
        needed = min(len(sentences), steps * parts * len(positions(0, 0)))
        self.capacity = max(largest, min(needed, budget_bytes // row_bytes))
        device = next(guide.model.parameters()).device
        self._views = torch.empty(self.capacity, len(guide.layers), guide.encoder.dim, device=device)
        self._rows: dict[str, int] = {}
        self._pending: list[list[str]] = []
        self._next_step = 0

    def __call__(self, step: int, part: int = 0) -> Tensor:
        """Views of the sentences of a batch, ``(batch, layers, dim)``; steps must not go back."""
        while self._next_step <= step:
            self._plan_ahead()
        for texts in self._pending:
            rows = self.guide.encoder.tokenize(texts)
            first = self._rows[texts[0]]
            self._views[first : first + len(texts)] = self.guide.views_of_rows(rows, tokens_per_batch=self.tokens_per_batch)
        self._pending.clear()
        chosen = torch.tensor([self._rows[self.sentences[position]] for position in self.positions(step, part)])
        return self._views.index_select(0, sent(chosen, self._views.device))

    def _plan_ahead(self) -> None:
        """Give rows to the new sentences of the next steps; when they do not fit, forget all others first."""
        ahead = range(self._next_step, min(self._next_step + STEPS_AHEAD, self.steps))
        texts = dict.fromkeys(
            self.sentences[position]
            for step in ahead
            for part in range(self.parts)
            for position in self.positions(step, part)
        )
        new = [text for text in texts if text not in self._rows]
        if len(self._rows) + len(new) > self.capacity:
            self._rows.clear()
            self._pending.clear()
            new = list(texts)
        for text in new:
            self._rows[text] = len(self._rows)
        if new:
            self._pending.append(new)
        self._next_step += STEPS_AHEAD
