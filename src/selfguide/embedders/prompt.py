"""The prompt readout: the sentence inside a text with a mask token, whose last state is the vector."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from selfguide.choices import READOUT_TEMPLATE
from selfguide.embedders.base import EncoderEmbedder
from selfguide.encoders.encoder import Encoder, map_rows, run_last
from selfguide.encoders.template import split_template, template_of, with_template
from selfguide.errors import InputError

_ENDS = (".", "?", '"', "'")
"""A sentence that ends in one of these gets no full stop."""


@final
class PromptEmbedder(EncoderEmbedder):
    """Last state of the mask token in a template around the sentence; nothing is trained.

    Jiang et al. (2022), *PromptBERT*. Their BERT-base gives 67.85 on the seven STS sets in SentEval's tokenised text.
    """

    kind = "prompt"
    _made: tuple[Encoder, str, Encoder, int]

    def __init__(self, encoder: Encoder, *, template: str = READOUT_TEMPLATE, full_stop: bool = True) -> None:
        """Read an encoder by a template.

        Args:
            encoder: Read where it is; a template inside its tokenizer gives way to this one.
            template: Text with ``{sentence}`` and ``{mask}``, see :func:`selfguide.encoders.template.with_template`.
            full_stop: Whether a sentence that does not end in one of ``. ? " '`` gets a full stop.

        Raises:
            InputError: when the text is no template, or has no ``{mask}``.
        """
        self.encoder, self.template, self.full_stop = encoder, template, full_stop
        _check_template(template)

    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        encoder, position = self._prompted()

        def read(ids: Tensor, mask: Tensor) -> Tensor:
            lengths = mask.sum(dim=1)
            places = lengths + position if position < 0 else torch.full_like(lengths, position)
            return run_last(encoder.model, ids, mask)[torch.arange(len(ids), device=ids.device), places]

        texts = [_ended(sentence) for sentence in sentences] if self.full_stop else sentences
        return map_rows(encoder, encoder.tokenize(texts), read, shape=(encoder.dim,))

    def _template(self) -> dict[str, Any]:
        """Nothing beside the parameter: a template inside the tokenizer gives way to it."""
        return {}

    def _prompted(self) -> tuple[Encoder, int]:
        """The encoder with the template in its tokenizer, and the place of the mask token; kept, as it takes a moment."""
        if not hasattr(self, "_made") or self._made[0] is not self.encoder or self._made[1] != self.template:
            _check_template(self.template)  # once more, as set_params may have changed it
            encoder = with_template(self.encoder, self.template)
            found = template_of(encoder)
            assert found is not None and found.mask_position is not None  # as checked
            self._made = (self.encoder, self.template, encoder, found.mask_position)
        return self._made[2:]


def _check_template(template: str) -> None:
    if not any("{mask}" in part for part in split_template(template)):
        raise InputError(f"the template '{template}' holds no {{mask}}, whose state is the vector; put it in once")


def _ended(sentence: str) -> str:
    text = sentence.rstrip()
    return f"{text}." if text and not text.endswith(_ENDS) else text
