"""[CLS] of BERT-like encoders as one module that can be turned into a graph, and that graph in OpenVINO."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from selfguide.embedders.onnx_graph import SENTENCE_OUTPUT
from selfguide.embedders.onnx_inputs import IDS, MASK
from selfguide.embedders.openvino_graph import import_openvino

_LOWEST = -3.0e38
"""Added to what a token must not look at; with any score added, still a number."""


@final
class FirstTokenGraph(nn.Module):
    """Last states of the first tokens of a batch with padding; of the last layer only what they need is computed."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Read a model with known layers (:func:`selfguide.encoders.first_token.has_known_layers`), dropout off."""
        super().__init__()
        self.model: Any = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Vectors ``(n, dim)`` of token ids ``(n, tokens)``; without a mask, nothing is padding."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        states: Tensor = self.model.embeddings(input_ids=input_ids, **types)
        if hasattr(self.model, "embeddings_project"):
            states = self.model.embeddings_project(states)
        bias = None
        if attention_mask is not None:
            bias = (1.0 - attention_mask[:, None, None, :].to(states.dtype)) * _LOWEST
        *layers, last = self.model.encoder.layer
        for layer in layers:
            states = _layer(layer, states, states, bias)
        return _layer(last, states[:, :1], states, bias)[:, 0]


def _layer(layer: Any, reading: Tensor, states: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ANN401 - parts have no types
    """One layer's output for the tokens that read, ``(n, reading tokens, dim)``."""
    attention = layer.attention.self
    heads, size = attention.num_attention_heads, attention.attention_head_size

    def apart(packed: Tensor) -> Tensor:
        return packed.view(packed.shape[0], packed.shape[1], heads, size).transpose(1, 2)

    query, key, value = (apart(part) for part in (attention.query(reading), attention.key(states), attention.value(states)))
    found = scaled_dot_product_attention(query, key, value, attn_mask=bias).transpose(1, 2)
    together = found.reshape(found.shape[0], found.shape[1], heads * size)
    output: Tensor = layer.feed_forward_chunk(layer.attention.output(together, reading))
    return output


def to_openvino(module: nn.Module, inputs: Sequence[str] = (IDS, MASK)) -> Any:  # noqa: ANN401 - openvino has no types
    """A module of token ids as a graph of OpenVINO in float32, for any number and length of rows.

    Raises:
        MissingExtraError: when openvino is not installed.
    """
    openvino = import_openvino("this")
    example = {name: torch.ones(2, 5, dtype=torch.long) for name in inputs}
    shapes = [(name, openvino.PartialShape([-1, -1]), openvino.Type.i64) for name in inputs]
    with torch.no_grad(), no_warnings():
        graph = openvino.convert_model(module, example_input=example, input=shapes)
    for port, name in zip((*graph.inputs, *graph.outputs), (*inputs, SENTENCE_OUTPUT), strict=True):
        port.get_tensor().set_names({name})
    return graph


@contextmanager
def no_warnings() -> Iterator[None]:
    """Keep quiet what libraries say about themselves while they turn a model into a graph; the vectors are checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
