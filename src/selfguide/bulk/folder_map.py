"""The linear map behind the pooling of a sentence-transformers folder, and a coder that puts it behind another one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file

from selfguide.bulk.coders import Coder, OnProgress, Vectors, WaitForVectors
from selfguide.encoders.fingerprint import arrays_sha256
from selfguide.files import read_json

_PLAIN = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
"""Settings of newer versions that must be as they are by default."""


@final
@dataclass(frozen=True, eq=False)
class FolderMap:
    """``x W' + b``, perhaps normalised."""

    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    normalizes: bool

    def apply(self, vectors: Vectors) -> Vectors:
        """Vectors ``(n, dim)`` to ``(n, dimensions)``."""
        found: Vectors = vectors @ self.weight.T + self.bias
        if self.normalizes:
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found


def read_map(folder: Path, modules: Sequence[Mapping[str, str]]) -> FolderMap | None:
    """The map of the modules behind the pooling, where these are a linear one and perhaps a normalisation, and no others.

    Raises:
        OSError, ValueError, KeyError, TypeError: when a file is missing or something else than it should be.
    """
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    if kinds not in (["Dense"], ["Dense", "Normalize"]):
        return None
    place = folder / modules[0]["path"]
    config = read_json(place / "config.json")
    is_plain = all(config.get(name, default) == default for name, default in _PLAIN.items())
    if not is_plain or not config["activation_function"].endswith(".Identity"):
        return None
    arrays = load_file(place / "model.safetensors")
    weight = arrays["linear.weight"].astype(np.float32)
    bias = arrays["linear.bias"].astype(np.float32) if config["bias"] else np.zeros(len(weight), np.float32)
    return FolderMap(weight, bias, normalizes=len(kinds) == 2)


@final
class MappedCoder:
    """Another coder with a map behind it."""

    def __init__(self, coder: Coder, folder_map: FolderMap) -> None:
        self.coder, self.map = coder, folder_map

    @property
    def identity(self) -> dict[str, Any]:
        """That of the coder, and of the map."""
        arrays = {"weight": self.map.weight, "bias": self.map.bias}
        own = {"dimensions": len(self.map.weight), "normalizes": self.map.normalizes, "map": arrays_sha256(arrays)}
        return {**self.coder.identity, **own}

    def prepare(self, sentences: Sequence[str]) -> Any:  # noqa: ANN401 - what the coder makes is its own affair
        """What can be done ahead."""
        return self.coder.prepare(sentences)

    def begin(self, prepared: Any, on_progress: OnProgress) -> WaitForVectors:  # noqa: ANN401
        """Start; gives what waits for the vectors ``(n, dimensions)``."""
        wait = self.coder.begin(prepared, on_progress)
        return lambda: self.map.apply(wait())

    def lower(self, dtype: torch.dtype) -> None:
        """Compute in half the precision from now on; the map stays as it is."""
        self.coder.lower(dtype)
