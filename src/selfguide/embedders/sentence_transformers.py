"""Any sentence-transformers model, with its own pooling and its own length, as an embedder."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError

from selfguide.devices import fast_products, product_precision
from selfguide.embedders.base import BaseEmbedder, check_sentences
from selfguide.embedders.training_record import TrainingRecord, read_training_record
from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.loading import positions_of
from selfguide.errors import InputError
from selfguide.files import atomic_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_SENTENCES_PER_BATCH = {"cpu": 64, "cuda": 512, "mps": 128}


@final
class SentenceTransformerEmbedder(BaseEmbedder):
    """Vectors as ``SentenceTransformer.encode`` gives them; it batches by length and keeps the order."""

    def __init__(self, model: "SentenceTransformer", *, name: str, record: TrainingRecord | None = None) -> None:
        self.model, self.name, self.record = model, name, record

    @property
    def protocol(self) -> dict[str, Any]:
        """Pooling, modules, longest input, the prompt if there is one, the hash of the weights, and how it was trained."""
        from sentence_transformers.sentence_transformer.modules import Pooling

        poolings = [module.get_config_dict()["pooling_mode"] for module in self.model if isinstance(module, Pooling)]
        return {
            "pooling": str(poolings[0]) if poolings else None,
            "modules": [type(module).__name__ for module in self.model],
            "max_length": self.model.max_seq_length,
            "precision": product_precision(torch.device(self.model.device)),
            **({"prompt": self.model.default_prompt_name} if self.model.default_prompt_name else {}),
            "weights": self._weights,
            **(self.record.protocol if self.record else {}),
        }

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given."""
        check_sentences(sentences)
        if not len(sentences):
            return np.empty((0, int(self.model.get_embedding_dimension() or 0)), dtype=np.float32)
        device = torch.device(self.model.device)
        with fast_products(device):
            vectors = self.model.encode(
                list(sentences), batch_size=_SENTENCES_PER_BATCH.get(device.type, 64), show_progress_bar=False
            )
        return np.asarray(vectors, dtype=np.float32)

    def save(self, folder: str | Path) -> None:
        """Write the model as sentence-transformers does; the record of its training is not part of that."""
        with atomic_folder(Path(folder).expanduser()) as scratch:
            self.model.save_pretrained(str(scratch))

    @cached_property
    def _weights(self) -> str:
        return weights_sha256(self.model)


def load_sentence_transformer(
    name: str,
    *,
    device: torch.device,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> SentenceTransformerEmbedder:
    """Load a folder or hub model in float32, whatever precision it is stored in.

    Raises:
        InputError: when there is no such model, it is broken, or it cannot be reached.
    """
    from sentence_transformers import SentenceTransformer

    folder = Path(name).expanduser()
    if folder.exists() and not (folder / "modules.json").is_file():
        raise InputError(
            f"'{name}' has no modules.json: sentence-transformers would take the mean over tokens without a word; ask for a "
            "pooling (--embedder cls, mean or max)"
        )
    try:
        model = SentenceTransformer(
            str(folder) if folder.exists() else name,
            device=str(device),
            revision=revision,
            trust_remote_code=trust_remote_code,
            model_kwargs={"dtype": torch.float32},
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"'{name}' cannot be loaded as a sentence-transformers model: {reason}") from error
    if max_length is not None:
        positions = _positions(model)
        if max_length < 1 or (positions is not None and max_length > positions):
            allowed = f"a number from 1 to {positions}" if positions else "1 or more"
            raise InputError(f"max length {max_length} was asked for; '{name}' takes {allowed}")
        model.max_seq_length = max_length
    record = read_training_record(folder)
    return SentenceTransformerEmbedder(model, name=record.name if record else folder.name, record=record)


def _positions(model: Any) -> int | None:  # noqa: ANN401 - untyped
    """Tokens that fit; None for a model that reads text of any length."""
    config: Any = getattr(getattr(model[0], "auto_model", None), "config", None)
    return positions_of(config) if hasattr(config, "max_position_embeddings") else None


def is_sentence_transformer(name: str, revision: str | None = None) -> bool:
    """Whether a folder, or a hub model that is in the cache or can be reached, has the list of modules of one."""
    from sentence_transformers.util import is_sentence_transformer_model

    folder = Path(name).expanduser()
    if folder.exists():
        return (folder / "modules.json").is_file()
    try:
        return bool(is_sentence_transformer_model(name, revision=revision))
    except (OSError, ValueError):  # not there, or the hub cannot be reached: loading the encoder will say so
        return False
