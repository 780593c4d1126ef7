"""BERT-flow (Li et al., 2020): pooled vectors of a frozen encoder, mapped to where they are standard normal."""

import logging
import math
from collections.abc import Sequence
from typing import Any, Self, final

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters

from selfguide.data.texts import Texts
from selfguide.devices import fast_products
from selfguide.embedders.base import EncoderEmbedder, check_sentences
from selfguide.embedders.glow import Glow
from selfguide.embedders.layer_pooling import LayerPooling, parse_layer_pooling
from selfguide.embedders.pooled import check_finite, pooled_vectors
from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError

logger = logging.getLogger(__name__)

WEIGHT_DECAY, LARGEST_GRADIENT = 0.01, 1.0
HIGHEST_SEED = 2**32 - 1
VECTORS_AT_ONCE = 8192
"""Vectors that go through a fitted flow together."""


@final
class FlowEmbedder(EncoderEmbedder):
    """The latent vectors of a flow that learned the density of pooled vectors; the encoder stays as it is.

    The paper says that it averages the last two layers, but its code takes the first and the last one: its numbers are those
    of ``first-last``, the default, and ``last-2`` is what its text says.

    After ``fit``, ``flow_`` holds the parameters of the flow, one after the other.
    """

    kind = "flow"
    learned = ("flow_",)
    default_max_length = 64

    def __init__(
        self,
        encoder: Encoder,
        *,
        pooling: str = "first-last",
        levels: int = 3,
        depth: int = 3,
        width: int = 32,
        epochs: int = 1,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        init_sentences: int = 512,
        seed: int = 1,
    ) -> None:
        """Describe a flow over the vectors of an encoder.

        Args:
            encoder: Gives the vectors; used where it is.
            pooling: What the flow works on; see :func:`selfguide.embedders.layer_pooling.parse_layer_pooling`.
            levels: Levels of the flow; after each but the last, half of the channels leave.
            depth: Steps in a level.
            width: Hidden units of the nets.
            epochs: Passes over the sentences.
            batch_size: Sentences in a batch.
            learning_rate: Of AdamW; it stays the same.
            init_sentences: Sentences, drawn at random, on which the flow begins with zero mean and unit variance.
            seed: Of weights and order.

        Raises:
            InputError: when a value is not allowed, or does not go with the encoder.
        """
        self.encoder, self.pooling = encoder, pooling
        self.levels, self.depth, self.width = levels, depth, width
        self.epochs, self.batch_size, self.learning_rate = epochs, batch_size, learning_rate
        self.init_sentences, self.seed = init_sentences, seed
        self._check_numbers()
        _ = self.layer_pooling, self._new_flow(torch.Generator())  # what does not go with the encoder is told at once

    @property
    def layer_pooling(self) -> LayerPooling:
        """The layers, and the pooling over tokens."""
        return parse_layer_pooling(self.pooling, layer=None, layer_count=self.encoder.layer_count)

    @property
    def protocol(self) -> dict[str, Any]:
        """The parameters, layers, longest input, precision of the products, hash of all that was learned, and the seed."""
        return {**super().protocol, "layers": list(self.layer_pooling.layers), "training_seed": self.seed}

    def fit(self, sentences: Texts, y: object = None) -> Self:
        """Train the flow on the density of the sentences' vectors, which are computed once.

        Raises:
            InputError: when there are fewer sentences than channels, or the training diverges.
        """
        check_sentences(sentences)
        self._check_numbers()  # once more, as set_params may have changed them
        texts = [sentences[position] for position in range(len(sentences))]
        if len(texts) < self.encoder.dim:
            raise InputError(
                f"{len(texts)} sentences were given to fit a flow on vectors of {self.encoder.dim}; give at least "
                f"{self.encoder.dim}, better thousands"
            )
        with fast_products(self.encoder.model.device):
            vectors = pooled_vectors(self.encoder, texts, self.layer_pooling)
        check_finite(vectors, texts, self.encoder)
        if torch.equal(vectors, vectors[:1].expand_as(vectors)):
            raise InputError(f"the vectors of '{self.name}' are the same for all sentences; give sentences that differ")
        generator = torch.Generator().manual_seed(self.seed)
        flow = self._new_flow(generator).to(self.encoder.model.device)
        train_flow(
            flow,
            vectors,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            init_vectors=self.init_sentences,
            generator=generator,
        )
        self.flow_ = parameters_to_vector(flow.parameters()).detach().cpu().numpy()
        return self

    @torch.no_grad()
    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        flow, device = self._fitted_flow(), self.encoder.model.device
        vectors = pooled_vectors(self.encoder, sentences, self.layer_pooling)
        return torch.cat([flow(part.to(device))[0].cpu() for part in torch.split(vectors, VECTORS_AT_ONCE)])

    def _new_flow(self, generator: torch.Generator) -> Glow:
        return Glow(self.encoder.dim, levels=self.levels, depth=self.depth, width=self.width, generator=generator)

    def check_learned(self) -> None:
        """Refuse parameters that do not go with the sizes of the flow.

        Raises:
            InputError: when they do not.
        """
        self._fitted_flow()

    def _fitted_flow(self) -> Glow:
        flow = self._new_flow(torch.Generator())
        size = sum(parameter.numel() for parameter in flow.parameters())
        if self.flow_.shape != (size,):
            raise InputError(
                f"the fitted flow has {self.flow_.size} parameters, but {self.levels} levels of depth {self.depth}, width "
                f"{self.width} have {size}; fit it again, or put the numbers back"
            )
        vector_to_parameters(torch.tensor(self.flow_), flow.parameters())
        return flow.to(self.encoder.model.device)

    def _check_numbers(self) -> None:
        least = {"levels": 1, "depth": 1, "width": 1, "epochs": 1, "batch_size": 1, "init_sentences": 2}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise InputError(f"{name} is {getattr(self, name)}; a flow takes {smallest} or more")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate is {self.learning_rate}; a flow takes one above 0, such as 0.001")
        if not 0 <= self.seed <= HIGHEST_SEED:
            raise InputError(f"seed is {self.seed}; a flow takes one from 0 to {HIGHEST_SEED}")


def train_flow(
    flow: Glow,
    vectors: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    init_vectors: int,
    generator: torch.Generator,
) -> None:
    """Initialize a flow where it is, and train it by the bits per dimension.

    Args:
        flow: Changed in place.
        vectors: What it learns the density of, ``(n, dim)`` on the CPU.
        epochs: Passes over the vectors.
        batch_size: Vectors in a batch.
        learning_rate: Of AdamW; it stays the same.
        init_vectors: Vectors, drawn at random, that the flow is initialized on.
        generator: On the CPU; draws these, and the order.

    Raises:
        InputError: when the training diverges.
    """
    parameters = list(flow.parameters())
    device = parameters[0].device
    first = vectors[torch.randperm(len(vectors), generator=generator)[:init_vectors]].to(device)
    flow.initialize(first)
    logger.info("flow on %d vectors: %.3f bits per dimension once initialized", len(vectors), _bits(flow, first))
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=WEIGHT_DECAY)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(vectors), generator=generator), batch_size):
            optimizer.zero_grad()
            loss = flow.bits_per_dimension(vectors[rows].to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(parameters, LARGEST_GRADIENT)
            optimizer.step()
    bits = _bits(flow, first)  # of the same vectors as before; what is not finite in a step stays so
    logger.info("flow on %d vectors: %.3f bits per dimension after %d epochs", len(vectors), bits, epochs)
    if not math.isfinite(bits):
        raise InputError(f"a flow came to {bits} bits per dimension with learning_rate {learning_rate}; try a smaller one")


@torch.no_grad()
def _bits(flow: Glow, vectors: Tensor) -> float:
    return float(flow.bits_per_dimension(vectors))
