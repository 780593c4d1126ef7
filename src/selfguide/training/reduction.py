"""Fewer dimensions at the end of a run: the trained encoder's vectors through PCA of the training sentences."""

from selfguide.data.texts import Texts
from selfguide.embedders.linear import check_dimensions
from selfguide.embedders.pca import PcaEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError
from selfguide.training.artefacts import evenly
from selfguide.training.config import TrainingConfig

SAMPLE = 5_000
"""Sentences of the training text, at equal distances, that the directions are learned from; some hundred nearly suffice."""


def check_reduction(config: TrainingConfig, sentences: Texts, encoder: Encoder) -> None:
    """Refuse before training what could not be done after it.

    Raises:
        InputError: when the encoder has not so many dimensions, or the sentences are too few to find them.
    """
    check_dimensions(config.dimensions, encoder)
    if config.dimensions is not None and len(sentences) < config.dimensions:
        raise InputError(
            f"--dimensions is {config.dimensions}, but the training data holds {len(sentences)} sentences; "
            f"use --dimensions {len(sentences)} or less, or give more sentences"
        )


def reduced(config: TrainingConfig, sentences: Texts, encoder: Encoder) -> PcaEmbedder | None:
    """The trained encoder with the dimensions that were asked for; None where all are kept."""
    if config.dimensions is None:
        return None
    sample = [sentences[position] for position in evenly(len(sentences), max(SAMPLE, config.dimensions))]
    return PcaEmbedder(encoder, pooling=config.anchor, dimensions=config.dimensions).fit(sample)
