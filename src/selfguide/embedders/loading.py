"""From a model's name to an embedder: the one place that decides what a name means."""

from pathlib import Path

from selfguide.devices import TOKENS_PER_BATCH, choose_device
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.embedders.sentence_transformers import is_sentence_transformer, load_sentence_transformer
from selfguide.embedders.word_vectors import load_word_vectors
from selfguide.encoders.loading import BUNDLED, load_encoder
from selfguide.errors import InputError

SENTENCE_TRANSFORMERS, WORD_VECTORS = "sentence-transformers", "word-vectors"
"""Embedders that are no pooling."""


def load(path: str | Path, *, device: str = "auto") -> Embedder:
    """Load any embedder: a trained folder, a sentence-transformers model, a word-vector file, or an encoder's [CLS].

    Args:
        path: A folder, a file, a hub name, or ``mini`` (the bundled encoder).
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Raises:
        InputError: when there is no such model, or it is broken.
    """
    return load_embedder(path, device=device)


def load_embedder(
    model: str | Path,
    *,
    embedder: str | None = None,
    layer: int | None = None,
    device: str = "auto",
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Embedder:
    """Load a model as an embedder.

    Args:
        model: A folder, a file of word vectors, a hub name, or ``mini`` (the bundled encoder).
        embedder: A pooling of an encoder (``cls``, ``mean``, ``max``, ``last-K``, ``first-last``, ``embeddings-last``),
            ``sentence-transformers`` or ``word-vectors``. By default what the model is: a file holds word vectors, a model
            with a ``modules.json`` is one of sentence-transformers, and of any other the last [CLS] state is taken.
        layer: Layer that ``cls``, ``mean`` and ``max`` pool; the last one by default.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        max_length: Longest input in tokens; by default what the model says, or 128.
        revision: Commit, tag or branch of a hub model.
        trust_remote_code: Run code that comes with the model.

    Raises:
        InputError: when there is no such model or embedder, or the model is broken.
    """
    name = str(model)
    kind = embedder or _kind_of(name, layer, revision)
    if kind in (SENTENCE_TRANSFORMERS, WORD_VECTORS) and layer is not None:
        raise InputError(f"layer {layer} was asked for, but '{kind}' has no layers to choose from; give a pooling as well")
    if kind == WORD_VECTORS:
        return load_word_vectors(Path(name).expanduser())
    place = choose_device(device)
    if kind == SENTENCE_TRANSFORMERS:
        return load_sentence_transformer(
            name, device=place, max_length=max_length, revision=revision, trust_remote_code=trust_remote_code
        )
    encoder = load_encoder(name, max_length=max_length, revision=revision, trust_remote_code=trust_remote_code)
    encoder.model.to(place)  # type: ignore[arg-type]
    return PooledEmbedder(encoder, pooling=kind, layer=layer, tokens_per_batch=TOKENS_PER_BATCH[place.type])


def _kind_of(name: str, layer: int | None, revision: str | None) -> str:
    """What a model is when nobody says; a layer can only be chosen of an encoder."""
    if name == BUNDLED or layer is not None:
        return "cls"
    if Path(name).expanduser().is_file():
        return WORD_VECTORS
    return SENTENCE_TRANSFORMERS if is_sentence_transformer(name, revision) else "cls"
