"""What all embedders of this package share: scikit-learn's conventions, and a folder to be saved to."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import Module

from selfguide.data.texts import Texts
from selfguide.devices import fast_products, product_precision
from selfguide.embedders.folder import save_folder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.fingerprint import arrays_sha256, weights_sha256
from selfguide.encoders.template import template_text
from selfguide.errors import InputError

Vectors = npt.NDArray[np.float32]


class BaseEmbedder(BaseEstimator, TransformerMixin, ABC):  # type: ignore[misc]
    """Parameters in the constructor, and what ``fit`` learns in attributes that end in ``_``.

    With ``name`` and ``protocol``, which each class has in its own way, it is an
    :class:`selfguide.embedders.protocol.Embedder`.
    """

    @abstractmethod
    def encode(self, sentences: Sequence[str]) -> Vectors:
        """Vectors of sentences, ``(n, dim)``, in the order given."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write what :func:`selfguide.load` loads, whole or not at all."""

    def fit(self, sentences: Texts, y: object = None) -> Self:
        """Learn from sentences; an embedder that has nothing to learn stays as it is. ``y`` is never looked at."""
        return self

    def transform(self, sentences: Sequence[str]) -> Vectors:
        """The same as ``encode``, by the name that scikit-learn's pipelines call."""
        return self.encode(sentences)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it can encode."""
        return True

    def __sklearn_clone__(self) -> Self:
        """The same parameters, nothing learned; a model among the parameters is shared, not copied."""
        return type(self)(**self.get_params(deep=False))


class EncoderEmbedder(BaseEmbedder):
    """An embedder that reads the states of an encoder, which is the first parameter of its constructor."""

    kind: ClassVar[str]
    """Name of the embedder in ``--embedder`` and in saved folders."""
    learned: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that ``fit`` sets, each with an underscore at its end."""
    default_max_length: ClassVar[int | None] = None
    """Longest input unless the user says otherwise; None for what the encoder says."""
    encoder: Encoder
    _hashed: tuple[Module, str]

    @property
    def name(self) -> str:
        """Such as ``bert-base-uncased/wk``."""
        return f"{Path(self.encoder.name).name}/{self.kind}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the constructor, but for the encoder."""
        return {name: value for name, value in self.get_params(deep=False).items() if name != "encoder"}

    @property
    def protocol(self) -> dict[str, Any]:
        """The parameters, longest input, precision of the products, and the hash of all that was learned."""
        return {
            "embedder": self.kind,
            "pooling": self.kind,
            **self.parameters,
            **self._template(),
            "max_length": self.encoder.max_length,
            "precision": product_precision(self.encoder.model.device),
            "weights": self._weights(),
        }

    def encode(self, sentences: Sequence[str]) -> Vectors:
        """Vectors of sentences, ``(n, dim)``, in the order given.

        Raises:
            InputError: when it has to be fitted first, or the sentences are a single text.
        """
        check_sentences(sentences)
        self.check_fitted()
        with fast_products(self.encoder.model.device):
            vectors = self._vectors(sentences)
        return np.asarray(vectors.numpy(), dtype=np.float32)

    @abstractmethod
    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        """Vectors ``(n, dim)`` on the CPU; only called when all is learned."""

    def save(self, folder: str | Path) -> None:
        """Write a folder that :func:`selfguide.load` loads: parameters, what was learned, and the encoder.

        sentence-transformers cannot express this embedder, and refuses the folder rather than pool in another way.

        Raises:
            InputError: when it has to be fitted first.
        """
        save_folder(self, Path(folder).expanduser())

    def learned_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What ``fit`` learned, by name; empty before."""
        return {name: np.asarray(getattr(self, name)) for name in self.learned if hasattr(self, name)}

    def check_fitted(self) -> None:
        """Refuse to go on before ``fit``.

        Raises:
            InputError: when it has to be fitted first.
        """
        if not self.__sklearn_is_fitted__():
            raise InputError(
                f"'{self.name}' was not fitted; it learns from sentences first: call fit(sentences), or use 'selfguide fit'"
            )

    def check_learned(self) -> None:
        """Refuse what was learned with other parameters, as after ``set_params``, or by a file that was changed.

        Raises:
            InputError: when the sizes do not fit.
        """

    def __sklearn_is_fitted__(self) -> bool:
        """Whether all that has to be learned was learned."""
        return all(hasattr(self, name) for name in self.learned)

    def _template(self) -> dict[str, Any]:
        """The template inside the tokenizer, where there is one: with the same weights it gives other vectors."""
        text = template_text(self.encoder)
        return {} if text is None else {"reads": text}

    def _weights(self) -> str:
        learned = self.learned_arrays()
        if not learned:
            return self._encoder_weights
        return hashlib.sha256((self._encoder_weights + arrays_sha256(learned)).encode()).hexdigest()

    @property
    def _encoder_weights(self) -> str:
        """The hash, kept until there is another encoder."""
        if not hasattr(self, "_hashed") or self._hashed[0] is not self.encoder.model:
            self._hashed = (self.encoder.model, weights_sha256(self.encoder.model))
        return self._hashed[1]


def check_sentences(sentences: Texts) -> None:
    """Refuse a single text, whose letters would be taken for sentences, what has no length, and items that are no text.

    Raises:
        InputError: for a single text, or something that is no list of texts.
    """
    if not isinstance(sentences, Sized):
        raise InputError(f"sentences are a {type(sentences).__name__}; give a list of texts, such as list(sentences)")
    if isinstance(sentences, str):
        raise InputError(f"a single text was given ({sentences[:40]!r}); give a list of sentences, such as [text]")
    if isinstance(sentences, list | tuple):  # texts that were read from files are checked there
        for number, text in enumerate(sentences):
            if not isinstance(text, str):
                raise InputError(f"sentence at index {number} is of type {type(text).__name__}; only str is a sentence")


def in_parts(sentences: Texts, size: int = 4096) -> Iterator[list[str]]:
    """Sentences in lists of this size, so that memory does not grow with their number."""
    remaining = iter(cast("Iterable[str]", sentences))  # anything with positions can be gone through
    while part := list(islice(remaining, size)):
        yield part
