"""The embedders that are more than a pooling, by name."""

import inspect
from collections.abc import Mapping
from typing import Any

from selfguide.embedders.base import EncoderEmbedder
from selfguide.embedders.flow import FlowEmbedder
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.prompt import PromptEmbedder
from selfguide.embedders.whitening import WhiteningEmbedder
from selfguide.embedders.wk import WkEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError
from selfguide.settings import flag_of

_CLASSES: tuple[type[EncoderEmbedder], ...] = (WkEmbedder, FlowEmbedder, WhiteningEmbedder, PcaEmbedder, PromptEmbedder)
KINDS = {kind.kind: kind for kind in _CLASSES}


def make_embedder(kind: str, encoder: Encoder, parameters: Mapping[str, Any]) -> EncoderEmbedder:
    """An embedder of the catalogue, not fitted yet.

    Raises:
        InputError: when a parameter does not go with this kind, or has a wrong value.
    """
    known = [name for name in inspect.signature(KINDS[kind]).parameters if name != "encoder"]
    unknown = [flag_of(name) for name in parameters if name not in known]
    if unknown:
        allowed = ", ".join(map(flag_of, known)) or "no parameters"
        raise InputError(f"{', '.join(unknown)} does not go with --embedder {kind}, which takes: {allowed}")
    return KINDS[kind](encoder, **parameters)
