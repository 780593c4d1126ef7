"""What translates: the interface of all engines, and the choice of one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from selfguide.translation.config import BacktranslationConfig


class Translator(ABC):
    """Translates from one language to another; made quickly, and loads what it needs when it first translates."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """All that a translation depends on beside the sentence, as JSON values: other models, other identity."""

    @abstractmethod
    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The translation of each sentence, in their order.

        Raises:
            InputError: when a model cannot be loaded.
            SelfguideError: when the engine breaks down.
        """


def load_translators(config: BacktranslationConfig) -> tuple[Translator, Translator]:
    """The translators there and back that a configuration names.

    Raises:
        InputError: when there is no such translator, or what it needs is not installed.
    """
    there, back = config.translators
    if config.engine == "apertium":
        from selfguide.translation.apertium import ApertiumTranslator

        return ApertiumTranslator(there), ApertiumTranslator(back)
    from selfguide.translation.neural import NeuralTranslator

    options: dict[str, Any] = {
        "beam": config.beam,
        "max_length": config.max_length,
        "batch_tokens": config.batch_tokens,
        "device": config.device,
    }
    return NeuralTranslator(there, **options), NeuralTranslator(back, **options)
