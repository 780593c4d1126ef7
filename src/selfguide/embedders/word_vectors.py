"""The oldest baseline: the mean of a sentence's word vectors."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.data.word_vectors import WordVectors, read_word_vectors

_WORD = re.compile(r"[\w']+")


@final
class WordVectorEmbedder:
    r"""Mean of the vectors of a sentence's words.

    Words are runs of letters, digits, underscores and apostrophes (``[\w']+``); punctuation is left out. A word is looked
    up as it stands, then in lower case; one that is not found is skipped. A sentence without any known word gets the zero
    vector, whose cosine with any other counts as 0.

    Attributes:
        name: The file's name without its suffixes, and ``/word-mean``.
        unknown_sentences: How many of the sentences so far had no known word.
    """

    def __init__(self, vectors: WordVectors, *, name: str) -> None:
        self.vectors, self.name = vectors, name
        self.unknown_sentences = 0

    @property
    def protocol(self) -> dict[str, Any]:
        """What makes the vectors; there is no longest input."""
        return {"pooling": "mean", "words": _WORD.pattern, "max_length": None, "weights": self.vectors.sha256}

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        found = np.zeros((len(sentences), self.vectors.matrix.shape[1]), dtype=np.float32)
        for number, sentence in enumerate(sentences):
            rows = [row for word in _WORD.findall(sentence) if (row := self._row(word)) is not None]
            if rows:
                found[number] = self.vectors.matrix[rows].mean(axis=0)
            else:
                self.unknown_sentences += 1
        return found

    def _row(self, word: str) -> int | None:
        row = self.vectors.rows.get(word)
        return self.vectors.rows.get(word.lower()) if row is None else row


def load_word_vectors(path: Path) -> WordVectorEmbedder:
    """Load a file of word vectors; see :func:`selfguide.data.word_vectors.read_word_vectors` for the formats.

    Raises:
        InputError: when the file is missing or broken.
    """
    return WordVectorEmbedder(read_word_vectors(path), name=f"{path.name.partition('.')[0] or path.name}/word-mean")
