"""Finding and loading an encoder: the bundled one, a local folder, a sentence-transformers folder, or a hub name."""

import logging
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedModel

from selfguide.encoders.encoder import Encoder
from selfguide.encoders.families import family_of
from selfguide.errors import InputError
from selfguide.files import read_json

logger = logging.getLogger(__name__)

BUNDLED = "mini"
"""Name of the encoder that ships inside the package."""

LONGEST = 128
"""Tokens kept of a sentence unless the user says otherwise; an encoder with fewer positions is cut at what it has."""


@dataclass(frozen=True)
class Source:
    """Where the transformer of an encoder lies, and the length that a sentence-transformers folder asks for."""

    location: str
    max_length: int | None = None


def load_encoder(
    name: str | Path, *, max_length: int | None = None, revision: str | None = None, trust_remote_code: bool = False
) -> Encoder:
    """Load an encoder and its tokenizer in float32, whatever precision the checkpoint is stored in.

    Args:
        name: ``mini`` (the bundled encoder), a local folder (also one saved by sentence-transformers), or a hub name.
        max_length: Longest input in tokens; by default 128, or less where the encoder has fewer positions.
        revision: Commit, tag or branch of a hub model.
        trust_remote_code: Run code that comes with the model.

    Raises:
        InputError: when there is no such model, it is no encoder, or it cannot be reached.
    """
    source = locate(str(name))
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    config = _load_part(AutoConfig.from_pretrained, source, str(name), options)
    family = family_of(config)
    tokenizer = _load_part(AutoTokenizer.from_pretrained, source, str(name), options)
    model, pooler = _load_model(source, str(name), options)
    positions = _positions(config)
    longest = max_length or min(source.max_length or LONGEST, positions)
    if longest > positions:
        raise InputError(f"max length {longest} was asked for; '{name}' has positions for {positions} tokens")
    return Encoder(model=model, tokenizer=tokenizer, family=family, name=str(name), max_length=longest, pooler=pooler)


def locate(name: str) -> Source:
    """The folder or hub name of the transformer behind a model name."""
    if name == BUNDLED:
        return Source(str(files("selfguide") / "bundled" / BUNDLED))
    folder = Path(name).expanduser()
    if not folder.exists():
        return Source(name)
    if folder.is_file():
        raise InputError(f"the model '{name}' is a file; give the folder that holds config.json")
    modules = folder / "modules.json"
    if modules.exists():
        return _sentence_transformers_source(folder, read_json(modules))
    if not (folder / "config.json").exists():
        raise InputError(f"the folder '{name}' holds no config.json, so it is no saved encoder; give the folder that does")
    return Source(str(folder))


def _sentence_transformers_source(folder: Path, modules: list[dict[str, Any]]) -> Source:
    first, *others = modules
    if not first["type"].rsplit(".", 1)[-1].startswith("Transformer"):
        raise InputError(f"the first module of '{folder}' is {first['type']}, not a transformer: there are no layers to use")
    dropped = [m["type"].rsplit(".", 1)[-1] for m in others if not m["type"].endswith("Pooling")]
    if dropped:
        logger.warning("of the modules in '%s', only the transformer is used (left out: %s)", folder, ", ".join(dropped))
    settings = folder / first["path"] / "sentence_bert_config.json"
    max_length = read_json(settings).get("max_seq_length") if settings.exists() else None
    return Source(str(folder / first["path"]), max_length)


def _load_model(source: Source, name: str, options: dict[str, Any]) -> tuple[PreTrainedModel, torch.nn.Module | None]:
    """The model without its pooler, and the pooler, or None where the checkpoint has no weights for one."""
    loaded = _load_part(
        AutoModel.from_pretrained, source, name, {**options, "dtype": torch.float32, "output_loading_info": True}
    )
    model, report = loaded
    missing = {key for key in report["missing_keys"] if not key.startswith("pooler.")}
    if missing:
        raise InputError(
            f"the weights of '{name}' lack {len(missing)} tensors of {type(model).__name__} "
            f"(first: {sorted(missing)[0]}); the checkpoint is incomplete or of another architecture"
        )
    if "pooler" not in dict(model.named_children()):
        return model, None
    pooler_is_new = any(key.startswith("pooler.") for key in report["missing_keys"])
    pooler, model.pooler = model.pooler, None
    return model, None if pooler_is_new else pooler


def _load_part(load: Any, source: Source, name: str, options: dict[str, Any]) -> Any:  # noqa: ANN401 - transformers' loaders
    try:
        return load(source.location, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        if Path(source.location).exists():
            raise InputError(f"the model folder '{name}' cannot be loaded: {reason}") from error
        raise InputError(
            f"the model '{name}' is not a local folder and could not be had from the Hugging Face hub; give a folder that "
            f"holds config.json, the name '{BUNDLED}' (the bundled encoder), or check the name and the network ({reason})"
        ) from error


def _positions(config: PretrainedConfig) -> int:
    """Tokens that fit; RoBERTa-like models count positions from the padding id on and so lose the first two."""
    positions = int(config.max_position_embeddings)
    if config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= int(config.pad_token_id) + 1
    return positions
