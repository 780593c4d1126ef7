"""The folder of an embedder that is more than a pooling: parameters, what it learned, and the encoder that it reads."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_transformer
from selfguide.errors import InputError
from selfguide.files import atomic_folder, read_json, write_json

if TYPE_CHECKING:
    from selfguide.embedders.base import EncoderEmbedder

RECORD, LEARNED = "embedder.json", "learned.safetensors"

_TYPES: dict[str, type] = {
    "embedder": str,
    "parameters": dict,
    "model": str,
    "encoder": str,
    "encoder_sha256": str,
    "max_length": int,
}
"""What a record holds."""
EXPORTED = "export.json"
"""What ``selfguide export`` notes beside a graph; name and longest input among it."""


def is_exported(folder: Path) -> bool:
    """Whether a folder was written by ``selfguide export``."""
    return (folder / EXPORTED).is_file()


def is_embedder_folder(folder: Path) -> bool:
    """Whether a folder was written by ``save`` of such an embedder."""
    return (folder / RECORD).is_file()


def save_folder(embedder: "EncoderEmbedder", target: Path) -> None:
    """Write an embedder, its encoder in a folder inside; all or nothing.

    Raises:
        InputError: when the embedder was not fitted.
    """
    embedder.check_fitted()
    with atomic_folder(target) as folder:
        # not in the folder itself: sentence-transformers would load it as an encoder, and take the mean over tokens
        (folder / "encoder").mkdir()
        save_transformer(embedder.encoder, folder / "encoder")
        write_record(embedder, folder, encoder="encoder")


def write_record(embedder: "EncoderEmbedder", folder: Path, *, encoder: str) -> None:
    """Write all but the encoder, which lies in the folder of that name inside."""
    record = {
        "embedder": embedder.kind,
        "parameters": embedder.parameters,
        "model": embedder.encoder.name,
        "encoder": encoder,
        "encoder_sha256": weights_sha256(embedder.encoder.model),
        "max_length": embedder.encoder.max_length,
    }
    write_json(folder / RECORD, record)
    if embedder.learned:
        save_file(embedder.learned_arrays(), folder / LEARNED)


def load_folder(
    folder: Path,
    kinds: "Mapping[str, type[EncoderEmbedder]]",
    *,
    device: torch.device,
    max_length: int | None = None,
    trust_remote_code: bool = False,
) -> "EncoderEmbedder":
    """Load an embedder that was saved; ``kinds`` are those that are known, by name.

    Raises:
        InputError: when the folder is broken, or its encoder is not the one that the embedder was fitted on.
    """
    record = _read_record(folder, kinds)
    place = folder / record["encoder"]
    longest = record["max_length"] if max_length is None else max_length
    encoder = load_encoder(place, max_length=longest, trust_remote_code=trust_remote_code, is_part=True)
    encoder = dataclasses.replace(encoder, name=record["model"])
    if weights_sha256(encoder.model) != record["encoder_sha256"]:
        raise InputError(
            f"'{folder}' was made with another encoder than the one in '{place}': the weights differ; "
            "fit it again on this encoder, or put the first one back"
        )
    encoder.model.to(device)  # type: ignore[arg-type]
    kind = kinds[record["embedder"]]
    _check_parameters(record["parameters"], kind, folder / RECORD)
    embedder = kind(encoder, **record["parameters"])
    for name, array in _read_learned(folder, embedder.learned).items():
        setattr(embedder, name, array)
    embedder.check_learned()
    return embedder


def _read_record(folder: Path, kinds: "Mapping[str, type[EncoderEmbedder]]") -> dict[str, Any]:
    path = folder / RECORD
    try:
        record: dict[str, Any] = dict(read_json(path))
        missing = _TYPES.keys() - record.keys()
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not the record of an embedder ({type(error).__name__} {error})") from error
    if missing:
        raise InputError(f"{path}: not the record of an embedder, it lacks {', '.join(sorted(missing))}")
    for name, kind in _TYPES.items():
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            raise InputError(f"{path}: not the record of an embedder, its {name} is {record[name]!r}; fit it again")
    if record["embedder"] not in kinds:
        raise InputError(
            f"{path}: the embedder '{record['embedder']}' is not known to this version; it knows: {', '.join(kinds)}"
        )
    return record


def _check_parameters(parameters: Mapping[str, Any], kind: "type[EncoderEmbedder]", path: Path) -> None:
    """Refuse names and types that the constructor does not have; a whole number may stand for a float."""
    hints = get_type_hints(kind.__init__)
    known = [name for name in inspect.signature(kind).parameters if name != "encoder"]
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise InputError(f"{path}: parameters that this version does not know ({', '.join(unknown)}); fit it again")
    for name, value in parameters.items():
        types = get_args(hints[name]) or (hints[name],)
        allowed = (*types, int) if float in types else types
        if type(value) not in allowed:
            raise InputError(f"{path}: the parameter {name} is {value!r}, which is of another type; fit it again")


def _read_learned(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    if not names:
        return {}
    path = folder / LEARNED
    try:
        arrays = load_file(path)
        learned = {name: arrays[name] for name in names}
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(f"{path}: what the embedder learned cannot be read ({type(error).__name__} {error})") from error
    for name, array in learned.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise InputError(f"{path}: {name} holds something else than finite numbers of float32; fit the embedder again")
    return learned
