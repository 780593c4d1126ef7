"""From a model's name to an embedder: the one place that decides what a name means."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfguide.data.texts import Texts
from selfguide.data.word_vectors import is_word_vector_folder
from selfguide.devices import choose_device
from selfguide.embedders.catalogue import KINDS, make_embedder
from selfguide.embedders.folder import is_embedder_folder, load_folder
from selfguide.embedders.layer_pooling import LAYER_AVERAGES, is_pooling_name
from selfguide.embedders.onnx import is_onnx, load_onnx
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.embedders.sentence_transformers import is_sentence_transformer, load_sentence_transformer
from selfguide.embedders.word_vectors import load_word_vectors
from selfguide.encoders.loading import BUNDLED, load_encoder, saved_pooling
from selfguide.errors import InputError
from selfguide.pooling import POOLINGS
from selfguide.settings import flag_of

SENTENCE_TRANSFORMERS, WORD_VECTORS, ONNX, SAVED = "sentence-transformers", "word-vectors", "onnx", "saved"
"""Embedders that do not begin with an encoder; ``saved`` is a folder that an embedder of the catalogue wrote."""
NAMES = (*POOLINGS, *LAYER_AVERAGES, *KINDS, SENTENCE_TRANSFORMERS, WORD_VECTORS, ONNX)
"""What ``embedder`` can be."""


def load(path: str | Path, *, device: str = "auto") -> Embedder:
    """Load any embedder: a trained or fitted folder, a sentence-transformers model, word vectors, or an encoder's [CLS].

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
    parameters: Mapping[str, Any] | None = None,
    read_text: Callable[[], Texts] | None = None,
    device: str = "auto",
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Embedder:
    """Load a model as an embedder.

    Args:
        model: A folder, a file of word vectors, a hub name, or ``mini`` (the bundled encoder).
        embedder: A pooling of an encoder (``cls``, ``mean``, ``max``, ``last-K``, ``first-last``, ``embeddings-last``),
            another way to read one (``wk``, ``prompt``), one that learns from text (``flow``, ``whitening``, ``pca``),
            ``sentence-transformers``, ``word-vectors`` or ``onnx``. By default what the model is: a file ``.onnx`` or
            ``.xml``, a folder that ``selfguide export`` wrote, or one with a graph and without a ``config.json``, is a graph
            with its pooling inside, any other file holds word vectors, a folder that an embedder was saved to is that
            embedder, a model with a ``modules.json`` is one of sentence-transformers, and of any other the last [CLS] state
            is taken.
        layer: Layer that ``cls``, ``mean`` and ``max`` pool; the last one by default.
        parameters: Of an embedder that is more than a pooling, by the names in its constructor.
        read_text: Gives the sentences for an embedder that learns from text; others do not call it.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        max_length: Longest input in tokens; by default what the model says, or 128.
        revision: Commit, tag or branch of a hub model.
        trust_remote_code: Run code that comes with the model.

    Raises:
        InputError: when there is no such model or embedder, or the model is broken.
    """
    name = str(model)
    kind = embedder or _kind_of(name, layer, revision)
    if kind not in (*NAMES, SAVED) and not is_pooling_name(kind):
        raise InputError(f"embedder '{kind}' is not known; choose one of: {', '.join(NAMES)}")
    _check_options(kind, layer=layer, parameters=parameters or {}, has_text=read_text is not None)
    if kind == WORD_VECTORS:
        return load_word_vectors(Path(name).expanduser())
    place = choose_device(device)
    if kind == ONNX:
        return load_onnx(Path(name).expanduser(), device=place.type, max_length=max_length)
    if kind == SAVED:
        folder = Path(name).expanduser()
        return load_folder(folder, KINDS, device=place, max_length=max_length, trust_remote_code=trust_remote_code)
    if kind == SENTENCE_TRANSFORMERS:
        return load_sentence_transformer(
            name, device=place, max_length=max_length, revision=revision, trust_remote_code=trust_remote_code
        )
    encoder = load_encoder(name, max_length=max_length, revision=revision, trust_remote_code=trust_remote_code)
    encoder.model.to(place)  # type: ignore[arg-type]
    if kind not in KINDS:
        return PooledEmbedder(encoder, pooling=kind, layer=layer)
    longest = KINDS[kind].default_max_length
    if max_length is None and longest is not None:
        encoder = dataclasses.replace(encoder, max_length=min(longest, encoder.max_length))
    given = dict(parameters or {})
    if kind == PcaEmbedder.kind and "pooling" not in given:
        given["pooling"] = _own_pooling(name, revision)
    made = make_embedder(kind, encoder, given)
    return made.fit(read_text()) if read_text else made


def _own_pooling(name: str, revision: str | None) -> str:
    """The pooling of a model as it is: what its folder asks for, and of a plain encoder [CLS]."""
    is_folder = name == BUNDLED or Path(name).expanduser().exists()
    if not is_folder and is_sentence_transformer(name, revision):
        raise InputError(f"'{name}' has a pooling of its own on the hub; name it with --pooling: {', '.join(POOLINGS)}")
    return saved_pooling(name) or "cls"


def _kind_of(name: str, layer: int | None, revision: str | None) -> str:
    """What a model is when nobody says; a layer can only be chosen of an encoder."""
    if name == BUNDLED or layer is not None:
        return "cls"
    path = Path(name).expanduser()
    if is_onnx(path):
        return ONNX
    if path.is_file() or is_word_vector_folder(path):
        return WORD_VECTORS
    if is_embedder_folder(path):
        return SAVED
    return SENTENCE_TRANSFORMERS if is_sentence_transformer(name, revision) else "cls"


def _check_options(kind: str, *, layer: int | None, parameters: Mapping[str, Any], has_text: bool) -> None:
    """Refuse a layer, parameters or text where they would do nothing, and an embedder that has nothing to learn from."""
    if layer is not None and kind in (SENTENCE_TRANSFORMERS, WORD_VECTORS, ONNX, SAVED, *KINDS):
        raise InputError(f"layer {layer} was asked for, but '{kind}' has no layer to choose; give cls, mean or max as well")
    if parameters and kind not in KINDS:
        flags = ", ".join(map(flag_of, parameters))
        raise InputError(f"{flags} does not go with '{kind}'; it is for --embedder {', '.join(KINDS)}")
    learning = [name for name, embedder in KINDS.items() if embedder.learned]
    if kind in learning and not has_text:
        raise InputError(
            f"'{kind}' learns from text: give sentences with --fit-on F, or fit it once with 'selfguide fit' and give the "
            "folder that it writes"
        )
    if has_text and kind not in learning:
        raise InputError(
            f"--fit-on does not go with '{kind}', which learns nothing; it is for --embedder {', '.join(learning)}"
        )
