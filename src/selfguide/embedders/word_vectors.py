"""The oldest baseline: the mean of a sentence's word vectors."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.data.word_vectors import WordVectors, read_word_vectors, save_word_vectors, saved_name
from selfguide.embedders.base import BaseEmbedder, check_sentences

logger = logging.getLogger(__name__)

_WORD = re.compile(r"[\w']+")


@final
class WordVectorEmbedder(BaseEmbedder):
    r"""Mean of the vectors of a sentence's words.

    Words are runs of letters, digits, underscores and apostrophes (``[\w']+``); punctuation is left out. A word is looked
    up as it stands, then in lower case; one that is not found is skipped. A sentence without any known word gets the zero
    vector, whose cosine with any other counts as 0.

    Attributes:
        vectors: A vector for each word.
        name: In score rows; of a file, its name without its suffixes, and ``/word-mean``.
    """

    def __init__(self, vectors: WordVectors, *, name: str = "word-mean") -> None:
        self.vectors, self.name = vectors, name

    @property
    def protocol(self) -> dict[str, Any]:
        """What makes the vectors; there is no longest input."""
        return {"pooling": "mean", "words": _WORD.pattern, "max_length": None, "weights": self.vectors.sha256}

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        check_sentences(sentences)
        found = np.zeros((len(sentences), self.vectors.matrix.shape[1]), dtype=np.float32)
        unknown = 0
        for number, sentence in enumerate(sentences):
            rows = [row for word in _WORD.findall(sentence) if (row := self._row(word)) is not None]
            if rows:
                found[number] = self.vectors.matrix[rows].astype(np.float32).mean(axis=0)
            unknown += not rows
        if unknown:
            logger.info("%s: %d of %d sentences have no known word; their vector is 0", self.name, unknown, len(sentences))
        return found

    def save(self, folder: str | Path) -> None:
        """Write the matrix, the words and the name as a folder that :func:`selfguide.load` loads."""
        save_word_vectors(self.vectors, Path(folder).expanduser(), name=self.name)

    def _row(self, word: str) -> int | None:
        row = self.vectors.rows.get(word)
        return self.vectors.rows.get(word.lower()) if row is None else row


def load_word_vectors(path: Path) -> WordVectorEmbedder:
    """Load word vectors; see :func:`selfguide.data.word_vectors.read_word_vectors` for the formats.

    Raises:
        InputError: when the file or folder is missing or broken.
    """
    vectors = read_word_vectors(path)
    name = saved_name(path) if path.is_dir() else f"{path.name.partition('.')[0] or path.name}/word-mean"
    return WordVectorEmbedder(vectors, name=name)
