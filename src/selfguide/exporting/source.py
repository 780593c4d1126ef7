"""What is exported: a model and its pooling as one module from token ids to vectors, and the tokenizer before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from selfguide.bulk.first_token_graph import FirstTokenGraph
from selfguide.embedders.layer_pooling import LayerPooling
from selfguide.embedders.onnx_inputs import IDS, MASK, TYPES
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.embedders.sentence_transformers import SentenceTransformerEmbedder
from selfguide.encoders.encoder import run_states
from selfguide.encoders.first_token import has_known_layers
from selfguide.errors import InputError

_MODULES = ("WeightedLayerPooling", "Pooling", "Dense", "Normalize")
"""Modules of sentence-transformers behind the transformer that work on tensors alone."""


@final
@dataclass(frozen=True)
class Source:
    """A model as it is exported."""

    graph: nn.Module
    """Takes the inputs in their order, each ``(n, tokens)``, and gives vectors ``(n, dim)``."""
    inputs: tuple[str, ...]
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int

    @property
    def is_first_token(self) -> bool:
        """Whether it is [CLS] of a BERT-like encoder, whose graph we wrote ourselves."""
        return isinstance(self.graph, FirstTokenGraph | _ModulesGraph)


def source_of(embedder: Embedder, name: str) -> Source:
    """What is exported of an embedder.

    Raises:
        InputError: when it is neither a pooled encoder nor a sentence-transformers model, or does something to the text.
    """
    if isinstance(embedder, PooledEmbedder):
        encoder = embedder.encoder
        layers = embedder.layer_pooling
        graph = _graph_of_pooling(encoder.model, layers, is_last=layers.layers == (encoder.layer_count,))
        return _source(graph, encoder.model, encoder.tokenizer, encoder.max_length)
    if isinstance(embedder, SentenceTransformerEmbedder):
        return _source_of_modules(embedder, name)
    raise InputError(
        f"'{name}' is neither a pooled encoder nor a sentence-transformers folder, and has no graph; export the encoder "
        "that it was made from, with --embedder cls, mean or max"
    )


def _source(graph: nn.Module, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Source:
    model.train(False)
    has_types = TYPES in tokenizer.model_input_names and getattr(model.config, "type_vocab_size", 0) > 0
    return Source(graph.eval(), (IDS, MASK, *([TYPES] if has_types else [])), model, tokenizer, max_length)


def _graph_of_pooling(model: PreTrainedModel, layers: LayerPooling, *, is_last: bool) -> nn.Module:
    if is_last and layers.pooling == "cls" and has_known_layers(model):
        return FirstTokenGraph(model)
    return _PooledGraph(model, layers)


def _source_of_modules(embedder: SentenceTransformerEmbedder, name: str) -> Source:
    modules: list[Any] = list(embedder.model)
    transformer, *rest = modules
    kinds = [type(module).__name__ for module in rest]
    unknown = [kind for kind in (type(transformer).__name__, *kinds) if kind not in ("Transformer", *_MODULES)]
    if unknown or "Pooling" not in kinds:
        raise InputError(
            f"'{name}' is made of {', '.join([type(transformer).__name__, *kinds])}; what can be exported is a Transformer "
            f"with a Pooling, and around it: {', '.join(_MODULES)}"
        )
    if embedder.model.default_prompt_name or transformer.do_lower_case:
        raise InputError(
            f"'{name}' changes the text before its tokenizer (a prompt, or lower case), which a graph cannot; take that out "
            "of its configuration, and do it to your text"
        )
    model = transformer.auto_model
    is_cls = kinds[0] == "Pooling" and rest[0].get_config_dict()["pooling_mode"] == "cls"
    if is_cls and has_known_layers(model):
        graph: nn.Module = _ModulesGraph(FirstTokenGraph(model), rest[1:])
    else:
        graph = _StatesGraph(model, rest)
    return _source(graph, model, embedder.model.tokenizer, int(transformer.max_seq_length))


@final
class _PooledGraph(nn.Module):
    """An encoder with a pooling of one or several layers."""

    def __init__(self, model: PreTrainedModel, layers: LayerPooling) -> None:
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.layers.vectors(run_states(_WithTypes(self.model, types), input_ids, attention_mask))


class _WithTypes(nn.Module):
    """A model that is given the types of tokens as well."""

    def __init__(self, model: nn.Module, types: dict[str, Tensor]) -> None:
        super().__init__()
        self.model, self.types = model, types

    def forward(self, **inputs: Any) -> Any:  # noqa: ANN401 - whatever the model takes and gives
        return self.model(**inputs, **self.types)


@final
class _ModulesGraph(nn.Module):
    """Vectors, and the modules of sentence-transformers that follow."""

    def __init__(self, vectors: nn.Module, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.vectors, self.rest = vectors, nn.ModuleList(modules)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        features = {"sentence_embedding": self.vectors(input_ids, attention_mask, token_type_ids)}
        return _through(self.rest, features)


@final
class _StatesGraph(nn.Module):
    """A transformer, and the modules of sentence-transformers that follow."""

    def __init__(self, model: PreTrainedModel, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.model, self.rest = model, nn.ModuleList(modules)
        self.needs_layers = any(type(module).__name__ == "WeightedLayerPooling" for module in modules)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        output: Any = self.model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=self.needs_layers, **types
        )
        features = {"token_embeddings": output.last_hidden_state, "attention_mask": attention_mask}
        if self.needs_layers:
            features["all_layer_embeddings"] = output.hidden_states
        return _through(self.rest, features)


def _through(modules: nn.ModuleList, features: dict[str, Any]) -> Tensor:
    for module in modules:
        features = module(features)
    vectors: Tensor = features["sentence_embedding"]
    return vectors.to(torch.float32)
