"""Every layer with every pooling, from one pass over the text: where in an encoder the meaning of sentences is."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfguide.devices import fast_products
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.encoder import map_rows, run_states
from selfguide.errors import InputError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import PlannedTask
from selfguide.evaluation.suite import run_suite
from selfguide.evaluation.vectors import in_parts
from selfguide.pooling import POOLINGS
from selfguide.progress import OnProgress
from selfguide.scores import ScoreRow

UNDEFINED = (0, "cls")
"""The embedding of the first token is the same for every sentence, so there are no different cosines to correlate."""


def sweep_layers(
    embedder: PooledEmbedder,
    planned: Sequence[PlannedTask],
    config: EvaluationConfig,
    *,
    on_progress: OnProgress = lambda done, total: None,
) -> list[ScoreRow]:
    """Score all layers and poolings of an encoder but the one that is ``UNDEFINED``.

    The text of a task goes through the encoder once, and only pooled vectors are kept, those of one task at a time.

    Args:
        embedder: Its encoder is swept; its own pooling and layer do not matter.
        planned: The tasks.
        config: The protocol's choices.
        on_progress: Told how many sentences of a task are embedded, of how many.

    Raises:
        InputError: when a task is none of STS, or the vectors are such that a score is not defined.
    """
    trained = [task.task.name for task in planned if task.is_seeded]
    if trained:
        raise InputError(f"a sweep is for STS; {', '.join(trained)} would train a classifier for every layer and pooling")
    rows: list[ScoreRow] = []
    for task in planned:
        swept = _SweptText(embedder, list(dict.fromkeys(task.task.sentences())), on_progress)
        for layer in range(embedder.encoder.layer_count + 1):
            for pooling in POOLINGS:
                if (layer, pooling) != UNDEFINED:
                    rows += run_suite(_SweptLayer(swept, layer, pooling), [task], config)
    return rows


@final
class _SweptText:
    """Sentences, and their vectors by all layers and poolings once somebody asks."""

    def __init__(self, embedder: PooledEmbedder, sentences: Sequence[str], on_progress: OnProgress) -> None:
        self.embedder, self.sentences, self.on_progress = embedder, sentences, on_progress
        self.rows = {sentence: row for row, sentence in enumerate(sentences)}

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """``(sentences, layers, poolings, dim)``."""
        encoder = self.embedder.encoder
        shape = (encoder.layer_count + 1, len(POOLINGS), encoder.dim)
        vectors = torch.empty(len(self.sentences), *shape)
        with fast_products(encoder.model.device):
            for rows in in_parts(self.sentences, self.on_progress):
                ids = encoder.tokenize([self.sentences[row] for row in rows])
                vectors[rows] = map_rows(encoder, ids, self._read, shape=shape)
        return np.asarray(vectors.numpy(), dtype=np.float32)

    def _read(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = run_states(self.embedder.encoder.model, ids, mask)
        pooled = [torch.stack([pool(layer, mask) for pool in POOLINGS.values()], dim=1) for layer in states.hidden]
        return torch.stack(pooled, dim=1)


@final
class _SweptLayer:
    """One layer and pooling of swept text, as an embedder."""

    def __init__(self, swept: _SweptText, layer: int, pooling: str) -> None:
        self.swept, self.layer, self.pooling = swept, layer, pooling
        self.name = PooledEmbedder(swept.embedder.encoder, pooling=pooling, layer=layer).name

    @property
    def protocol(self) -> dict[str, Any]:
        """As of the pooled embedder that it stands for, and that it is one of many."""
        return {**self.swept.embedder.protocol, "pooling": self.pooling, "layers": [self.layer], "swept": True}

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        rows = [self.swept.rows[sentence] for sentence in sentences]
        return self.swept.vectors[rows, self.layer, list(POOLINGS).index(self.pooling)]
