"""What an embedder is: anything that turns sentences into vectors."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Sentences in, vectors out."""

    @property
    def name(self) -> str:
        """Name in score rows, such as ``bert-base-uncased/cls``."""

    @property
    def protocol(self) -> dict[str, Any]:
        """What the vectors depend on, for score rows: pooling, layers, longest input, and so on.

        With ``weights`` (a hash of what was learned) in it, scores that a file already holds are not computed again;
        ``training_seed`` is the seed of the run that made the embedder, where there was one.
        """

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
