"""What an embedder is: anything that turns sentences into vectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Sentences in, vectors out."""

    @property
    def name(self) -> str:
        """Name in score rows, such as ``bert-base-uncased/cls``."""

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
