"""The folder of an embedder that is more than a pooling: parameters, what it learned, and the encoder that it reads."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    longest = max_length or record["max_length"]
    encoder = load_encoder(place, max_length=longest, trust_remote_code=trust_remote_code, is_part=True)
    encoder = dataclasses.replace(encoder, name=record["model"])
    if weights_sha256(encoder.model) != record["encoder_sha256"]:
        raise InputError(
            f"'{folder}' was made with another encoder than the one in '{place}': the weights differ; "
            "fit it again on this encoder, or put the first one back"
        )
    encoder.model.to(device)  # type: ignore[arg-type]
    try:
        embedder = kinds[record["embedder"]](encoder, **record["parameters"])
    except TypeError as error:
        raise InputError(f"{folder / RECORD}: parameters that this version does not know ({error})") from error
    for name, array in _read_learned(folder, embedder.learned).items():
        setattr(embedder, name, array)
    return embedder


def _read_record(folder: Path, kinds: "Mapping[str, type[EncoderEmbedder]]") -> dict[str, Any]:
    path = folder / RECORD
    try:
        record: dict[str, Any] = read_json(path)
        missing = {"embedder", "parameters", "model", "encoder", "encoder_sha256", "max_length"} - set(record)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not the record of an embedder ({type(error).__name__} {error})") from error
    if missing:
        raise InputError(f"{path}: not the record of an embedder, it lacks {', '.join(sorted(missing))}")
    if record["embedder"] not in kinds:
        raise InputError(
            f"{path}: the embedder '{record['embedder']}' is not known to this version; it knows: {', '.join(kinds)}"
        )
    return record


def _read_learned(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    if not names:
        return {}
    path = folder / LEARNED
    try:
        arrays = load_file(path)
        return {name: arrays[name] for name in names}
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(f"{path}: what the embedder learned cannot be read ({type(error).__name__} {error})") from error
