"""A hash of what a model has learned: the same for the same weights, wherever they came from."""

import hashlib

import torch


def weights_sha256(model: torch.nn.Module) -> str:
    """Hash of the names and values of all parameters and buffers that are saved."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
