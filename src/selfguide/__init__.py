"""selfguide: raw sentences and any pretrained encoder in, a better sentence encoder out. No labels.

The public names are resolved when they are first used, so that ``selfguide --help`` does not wait for torch.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfguide import objectives
    from selfguide.bulk.encode import encode_files
    from selfguide.embedders.fitting import fit
    from selfguide.embedders.loading import load
    from selfguide.errors import InputError, SelfguideError
    from selfguide.evaluation.evaluate import evaluate
    from selfguide.exporting.export import export
    from selfguide.integrations.sentence_transformers import SelfGuidedLoss
    from selfguide.training.train import train
    from selfguide.translation.backtranslate import backtranslate

__all__ = [
    "InputError",
    "SelfGuidedLoss",
    "SelfguideError",
    "__version__",
    "backtranslate",
    "encode_files",
    "evaluate",
    "export",
    "fit",
    "load",
    "objectives",
    "train",
]

_HOMES = {
    "InputError": "selfguide.errors",
    "SelfguideError": "selfguide.errors",
    "SelfGuidedLoss": "selfguide.integrations.sentence_transformers",
    "backtranslate": "selfguide.translation.backtranslate",
    "encode_files": "selfguide.bulk.encode",
    "evaluate": "selfguide.evaluation.evaluate",
    "export": "selfguide.exporting.export",
    "fit": "selfguide.embedders.fitting",
    "load": "selfguide.embedders.loading",
    "train": "selfguide.training.train",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if name == "__version__":
        return version("selfguide")
    if name == "objectives":
        return import_module("selfguide.objectives")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'selfguide' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
