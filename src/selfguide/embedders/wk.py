"""WK pooling (SBERT-WK): the layers of each token are weighted by what is new in them, the tokens by how much they change.

The published code factorises a matrix for every layer of every token. All that it needs are the cosines between the
layers of a token, so that one product, and a few operations on small matrices, serve a whole batch.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from selfguide.embedders.base import EncoderEmbedder
from selfguide.encoders.encoder import Encoder, map_rows, run_states
from selfguide.errors import InputError

TOKENS_AT_ONCE = {"cpu": 512, "cuda": 16384}
"""Tokens whose layers are held in float64 at once; on a CPU, fresh memory for more takes longer than the products."""

ROUNDING = 1e-13
"""Cosines that differ by less are equal: float32 states are known to 6e-8, and cosines near 1 to the square of that."""


@final
class WkEmbedder(EncoderEmbedder):
    """Weighted mean over layers and tokens; see :func:`wk_vectors`."""

    kind = "wk"

    def __init__(self, encoder: Encoder, *, window: int = 2, first_layer: int = 4) -> None:
        """Use an encoder where it is.

        Args:
            encoder: Gives the states.
            window: Layers on each side that a layer is compared with.
            first_layer: Of the layers that are read, up to the last one; 0 is the embedding output.

        Raises:
            InputError: when fewer than ``window + 1`` layers are left.
        """
        self.encoder, self.window, self.first_layer = encoder, window, first_layer
        self._check_layers()

    def _check_layers(self) -> None:
        last, window = self.encoder.layer_count, self.window
        if not 1 <= window <= last:
            raise InputError(f"window {window} was asked for; for an encoder with {last} layers choose 1 to {last}")
        if not 0 <= self.first_layer <= last - window:
            raise InputError(
                f"first_layer {self.first_layer} was asked for; this encoder has layers 0 (embeddings) to {last}, and "
                f"window {window} needs {window + 1} of them: choose 0 to {last - window}"
            )

    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        self._check_layers()  # once more, as set_params may have changed them

        def read(ids: Tensor, mask: Tensor) -> Tensor:
            hidden = run_states(self.encoder.model, ids, mask).hidden[self.first_layer :]
            if ids.device.type == "mps":  # has no float64
                hidden, mask = tuple(layer.cpu() for layer in hidden), mask.cpu()
            return wk_vectors(hidden, mask, window=self.window)

        return map_rows(self.encoder, self.encoder.tokenize(sentences), read, shape=(self.encoder.dim,))


def wk_vectors(states: Tensor | Sequence[Tensor], mask: Tensor, *, window: int = 2) -> Tensor:
    """Vectors of sentences, ``(batch, dim)``, computed in float64.

    For layer k of a token, let N be its neighbours: ``window`` layers to the left, or none where fewer are there, and up
    to ``window`` to the right; p_k the projection of v_k on their span; and cos between the layers of the token::

        novelty_k   = |v_k - p_k| / |v_k|
        alignment_k = |p_k| / |v_k| / (2 (|N| + 1) mean_{j in N} cos(v_j, v_k))

    Each is divided by its sum over the layers; their mean weighs the layers. A token weighs as much as the cosines of
    adjacent layers vary (population variance), divided by the sum over the tokens. The last token ([SEP]) is left out, the
    first one ([CLS]) is not.

    This is what the published code computes by QR. Where that is arbitrary or divides by zero, ours is defined: a neighbour
    in the span of those before it adds nothing (as with a pseudo-inverse), and weights whose sum is 0 or not finite are
    equal.

    Args:
        states: Of at least ``window + 1`` layers, first layer first: ``(layers, batch, tokens, dim)``.
        mask: 1 for tokens, 0 for padding; ``(batch, tokens)``.
        window: Layers on each side that a layer is compared with.
    """
    sentences = max(1, TOKENS_AT_ONCE[mask.device.type] // mask.shape[1])
    parts = zip(*(torch.split(layer, sentences) for layer in (*states, kept_tokens(mask))), strict=True)
    return torch.cat([_part_vectors(layers, kept, window) for *layers, kept in parts])


def kept_tokens(mask: Tensor) -> Tensor:
    """All tokens but the last one of each sentence, unless it is the only one: ``(batch, tokens)``."""
    from_here = mask.flip(1).cumsum(1).flip(1)
    return mask.bool() & ((from_here > 1) | (mask.sum(1, keepdim=True) == 1))


def _part_vectors(layers: list[Tensor], kept: Tensor, window: int) -> Tensor:
    """Each ``(batch, tokens, dim) -> (batch, dim)``."""
    positions = kept.flatten().nonzero().squeeze(1)
    # (tokens kept, layers, dim)
    states = torch.stack([layer.flatten(0, 1).index_select(0, positions) for layer in layers], dim=1).double()
    cosines = layer_cosines(states)
    weights = layer_weights(cosines, window) * token_weights(cosines, kept)
    vectors = states.new_zeros(kept.numel(), states.shape[2])
    vectors[positions] = (weights.T.unsqueeze(1) @ states).squeeze(1)
    return vectors.view(*kept.shape, -1).sum(dim=1).to(layers[0].dtype)


def layer_cosines(states: Tensor) -> Tensor:
    """Between the layers of each token; 0 with a state that is 0: ``(tokens, layers, dim) -> (layers, layers, tokens)``."""
    products = (states @ states.mT).permute(1, 2, 0).contiguous()  # tokens last: quicker from here on
    norms = products.diagonal().T.sqrt()
    scale = torch.where(norms > 0, 1 / norms, 0)
    return products * scale.unsqueeze(0) * scale.unsqueeze(1)


def token_weights(cosines: Tensor, kept: Tensor) -> Tensor:
    """Weights over the tokens of each sentence, those kept in a row: ``(layers, layers, tokens) -> (tokens,)``."""
    variance = cosines.diagonal(offset=1).var(dim=-1, correction=0)
    by_sentence = torch.zeros_like(kept, dtype=variance.dtype)
    by_sentence[kept] = torch.where(variance > ROUNDING**2, variance, 0)
    equal = 1 / kept.sum(dim=1, keepdim=True)
    return _shares(by_sentence, dim=1, otherwise=equal)[kept]


def layer_weights(cosines: Tensor, window: int) -> Tensor:
    """Weights over the layers of each token: ``(layers, layers, tokens) -> (layers, tokens)``."""
    layers = len(cosines)
    members, is_there = (table.to(cosines.device) for table in _windows(layers, window))
    # (members, members, layers, tokens): the cosines in the window of each layer, 0 where a neighbour is missing
    among = cosines[members.unsqueeze(1), members] * (is_there.unsqueeze(1) & is_there).unsqueeze(-1)
    count = is_there.sum(dim=0).unsqueeze(-1)
    unexplained = _unexplained(among)
    mean_cosine = among[-1, :-1].sum(dim=0) / (count - 1)
    alignment = (1 - unexplained).clamp(min=0).sqrt() / (2 * count * mean_cosine)
    novelty_shares, alignment_shares = (_shares(x, dim=0, otherwise=1 / layers) for x in (unexplained.sqrt(), alignment))
    return (novelty_shares + alignment_shares) / 2


def _windows(layers: int, window: int) -> tuple[Tensor, Tensor]:
    """The neighbours of each layer and at last itself, and which of them are there; each ``(2 * window + 1, layers)``."""
    steps = torch.tensor([*range(-window, 0), *range(1, window + 1), 0]).unsqueeze(1)
    layer = torch.arange(layers)
    members = layer + steps
    is_there = (members < layers) & ((steps >= 0) | (layer >= window))  # all of the left side, or none of it
    return members.clamp(0, layers - 1), is_there


def _unexplained(cosines: Tensor) -> Tensor:
    """Squared sine between the last member and the span of the others, by elimination: ``(m, m, ...) -> (...)``."""
    while len(cosines) > 1:
        pivot, column = cosines[0, 0], cosines[0, 1:]
        factors = torch.where(pivot > ROUNDING, column / pivot, 0)
        cosines = cosines[1:, 1:] - factors.unsqueeze(1) * column
    return torch.where(cosines[0, 0] > ROUNDING, cosines[0, 0], 0)


def _shares(values: Tensor, *, dim: int, otherwise: Tensor | float) -> Tensor:
    """Values divided by their sum, where that is finite and not 0."""
    total = values.sum(dim=dim, keepdim=True)
    return torch.where((total != 0) & total.isfinite(), values / total, otherwise)
