"""The method itself: encoder, projection and objective as one module, a batch and its views in, the loss out.

Our own loop and the loss for sentence-transformers' trainer both run this step.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from selfguide.encoders.encoder import run_last
from selfguide.encoders.first_token import first_token_of_padded, has_known_layers
from selfguide.objectives.catalogue import OBJECTIVES
from selfguide.objectives.cosines import not_negatives, scaled_cosines
from selfguide.objectives.distance import distance, squared_norm
from selfguide.objectives.self_guided import simcse
from selfguide.pooling import POOLINGS
from selfguide.similarity import alignment, in_batch_accuracy, spread, uniformity

MONITORS = ("loss", "objective", "distance", "accuracy", "alignment", "uniformity", "spread")
"""What a step returns, in this order; accuracy to spread are the signs of a collapse."""

SIMCSE_TEMPERATURE = 0.05


@final
@dataclass(frozen=True)
class StepInputs:
    """One batch, on the device of the encoder."""

    ids: Tensor
    """Token ids ``(rows, tokens)``: the batch, and after it the second pass where the objective has one."""
    mask: Tensor
    """1 for tokens, 0 for padding; same shape."""
    views: Tensor | None = None
    """Views of the guide ``(batch, layers, dim)``, or one of each sentence ``(batch, dim)``."""
    same: Tensor | None = None
    """Pairs of identical sentences ``(batch, batch)``, which are not negatives."""


@final
class SelfGuidance(nn.Module):
    """All that is trained, as one module, so that it is moved, saved, resumed and averaged between processes as one."""

    def __init__(
        self,
        encoder: nn.Module,
        projection: nn.Module,
        *,
        objective: str,
        temperature: float,
        distance_weight: float = 0.0,
        simcse_weight: float = 0.0,
        anchor: str = "cls",
        guide: nn.Module | None = None,
        distance_in_backward: bool = True,
        unpadded: bool = False,
    ) -> None:
        """Put the parts together.

        Args:
            encoder: The transformer that is tuned; parameters that are frozen already stay so.
            projection: The head shared by anchors and views.
            objective: Name in the catalogue of objectives.
            temperature: Of the objective.
            distance_weight: Weight of the distance to the parameters of ``guide``.
            simcse_weight: Weight of SimCSE's loss beside the objective, on the vectors themselves.
            anchor: Pooling of the last layer.
            guide: The frozen copy; needed when there is a ``distance_weight``.
            distance_in_backward: Let the backward pass find the gradient of the distance, too. Without,
                :meth:`add_distance_gradient` must be called after it, which goes through the parameters once, not thrice.
            unpadded: Compute nothing for padding, which is at the ends of rows, and of the last layer only what [CLS] needs;
                for the anchor ``cls`` of an encoder with known layers.
        """
        super().__init__()
        self.encoder = encoder
        self.projection = projection
        self.objective = OBJECTIVES[objective]
        self.temperature = temperature
        self.distance_weight = distance_weight
        self.simcse_weight = simcse_weight
        self.pool = POOLINGS[anchor]
        self.distance_in_backward = distance_in_backward
        self.unpadded = unpadded and anchor == "cls" and has_known_layers(encoder)
        self._differences: tuple[Tensor, ...] = ()
        # plain lists: the guide is neither trained nor saved, and a caller may run this with copies of the parameters
        self.moving, self.references = _moving_pairs(encoder, guide) if guide is not None and distance_weight else ([], [])

    @property
    def second_pass(self) -> bool:
        """Whether every batch holds its sentences, or their paraphrases, once more."""
        return self.objective.second_pass or self.simcse_weight > 0

    def forward(self, ids: Tensor, mask: Tensor, views: Tensor | None = None, same: Tensor | None = None) -> Tensor:
        """The monitors of one batch, ``(len(MONITORS),)``; the first is the loss, and the only one with a gradient."""
        vectors = self._vectors(ids, mask)
        anchors, again = vectors.chunk(2) if self.second_pass else (vectors, None)
        positives = again if self.objective.second_pass else views
        assert positives is not None, "an objective with a guide was given no views"
        # one pass of the head over anchors and views together; it gets gradients through both
        projected = self.projection(torch.cat([anchors, positives.flatten(0, -2)]))
        anchors_out, views_out = projected[: len(anchors)], projected[len(anchors) :].unflatten(0, positives.shape[:-1])
        objective = self.objective.function(anchors_out, views_out, temperature=self.temperature, mask=same)
        if self.simcse_weight and again is not None:
            objective = objective + self.simcse_weight * simcse(anchors, again, temperature=SIMCSE_TEMPERATURE, mask=same)
        moved = self.distance()
        loss = objective + self.distance_weight * moved
        return torch.stack([loss, *_monitors(objective, moved, anchors, anchors_out, views_out, same)])

    def _vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Pooled last states, ``(rows, dim)``."""
        if self.unpadded:
            return first_token_of_padded(self.encoder, ids, mask)
        return self.pool(run_last(self.encoder, ids, mask), mask)

    def find_moving(self) -> None:
        """Look for the parameters once more: someone else may have put others in their place."""
        if self.references:
            self.moving = [parameter for parameter in self.encoder.parameters() if parameter.requires_grad]

    def distance(self) -> Tensor:
        """Squared distance between encoder and guide over the parameters that move; frozen ones are at distance 0."""
        if not self.references:
            return torch.zeros((), device=next(self.encoder.parameters()).device)
        if self.distance_in_backward:
            return distance(self.moving, self.references)
        with torch.no_grad():
            self._differences = torch._foreach_sub(self.moving, self.references)
            return squared_norm(self._differences)

    @torch.no_grad()
    def add_distance_gradient(self) -> None:
        """Add the gradient of the weighted distance, as it was in the last forward pass, to those of the parameters."""
        if not self._differences:
            return
        gradients = []
        for parameter in self.moving:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        torch._foreach_add_(gradients, self._differences, alpha=2 * self.distance_weight)


def _moving_pairs(encoder: nn.Module, guide: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Parameters that the encoder trains, and where they are in the guide."""
    pairs = [pair for pair in zip(encoder.parameters(), guide.parameters(), strict=True) if pair[0].requires_grad]
    return [own for own, _ in pairs], [reference.detach() for _, reference in pairs]


@torch.no_grad()
def _monitors(
    objective: Tensor, moved: Tensor, anchors: Tensor, anchors_out: Tensor, views_out: Tensor, same: Tensor | None
) -> list[Tensor]:
    batch = len(anchors)
    anchors, views = anchors.float(), views_out.reshape(batch, -1, views_out.shape[-1])
    cosines = scaled_cosines(anchors_out, views.flatten(0, 1), 1.0).view(batch, batch, -1)
    negatives = ~not_negatives(batch, same, anchors.device)
    own = anchors_out.unsqueeze(1).expand_as(views).float()
    return [
        objective.detach(),
        moved.detach(),
        in_batch_accuracy(cosines, negatives),
        alignment(own, views.float()),
        uniformity(anchors),
        spread(anchors),
    ]
