"""What "layer 0" and the first token are in each family of pretrained encoders."""

import logging
from dataclasses import dataclass

from torch import nn
from transformers import PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from selfguide.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Family:
    """One family: which modules make the embedding output (layer 0), and the token whose last state is the anchor."""

    layer_zero: tuple[str, ...]
    """Dotted names of the modules between the token ids and the first transformer layer; some are there only at times."""
    first_token: str
    """Of the family; :attr:`Encoder.first_token` is that of an encoder, whose tokenizer may hold a template."""


_BERT_LIKE = Family(layer_zero=("embeddings",), first_token="[CLS]")
_ROBERTA_LIKE = Family(layer_zero=("embeddings",), first_token="<s>")

FAMILIES: dict[str, Family] = {
    "bert": _BERT_LIKE,
    "roberta": _ROBERTA_LIKE,
    "xlm-roberta": _ROBERTA_LIKE,
    "camembert": _ROBERTA_LIKE,
    "distilbert": _BERT_LIKE,
    "mpnet": _ROBERTA_LIKE,
    # ELECTRA and ALBERT have small word embeddings, mapped to the layers' width: the map is part of layer 0
    "electra": Family(layer_zero=("embeddings", "embeddings_project"), first_token="[CLS]"),
    "albert": Family(layer_zero=("embeddings", "encoder.embedding_hidden_mapping_in"), first_token="[CLS]"),
    # DeBERTa's relative position table (encoder.rel_embeddings) is read inside the layers and is not part of layer 0
    "deberta-v2": _BERT_LIKE,
    "modernbert": _BERT_LIKE,
}
"""Families by the ``model_type`` of their configuration; DeBERTa v3 has the type of v2."""


def family_of(config: PretrainedConfig) -> Family:
    """The family of a model.

    Raises:
        InputError: for a decoder or an encoder-decoder model.
    """
    check_is_encoder(config)
    if config.model_type not in FAMILIES:
        logger.warning(
            "the family '%s' is not among the tested ones (%s): its module 'embeddings' is taken as layer 0",
            config.model_type,
            ", ".join(FAMILIES),
        )
        return _BERT_LIKE
    return FAMILIES[config.model_type]


def check_is_encoder(config: PretrainedConfig) -> None:
    """Refuse models that do not read a sentence in both directions."""
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    kind = None
    if config.is_encoder_decoder:
        kind = "an encoder-decoder model"
    elif (causal and not masked) or getattr(config, "is_decoder", False):
        kind = "a decoder"
    if kind:
        raise InputError(
            f"a model of type '{config.model_type}' is {kind}: self-guidance needs an encoder; "
            f"choose one of these families: {', '.join(FAMILIES)}"
        )


def layer_zero_modules(model: nn.Module, family: Family) -> list[nn.Module]:
    """The modules of layer 0 that this model has.

    Raises:
        InputError: when it has none of them, so that freezing layer 0 would silently freeze nothing.
    """
    modules = dict(model.named_modules())
    found = [modules[name] for name in family.layer_zero if name in modules]
    if not found:
        raise InputError(
            f"{type(model).__name__} has no module named {' or '.join(family.layer_zero)} to freeze as layer 0; "
            f"choose a model of one of these families: {', '.join(FAMILIES)}"
        )
    return found
