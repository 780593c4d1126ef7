"""A hash of what a model has learned: the same for the same weights, wherever they came from."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


def weights_sha256(model: torch.nn.Module) -> str:
    """Hash of the names and values of all parameters and buffers that are saved."""
    return arrays_sha256({name: _bytes_of(tensor) for name, tensor in model.state_dict().items()})


def arrays_sha256(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Hash of the names and values of arrays."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _bytes_of(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """The bytes of a tensor; numpy does not know all of torch's types."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
