"""Finding and loading an encoder: the bundled one, a local folder, a sentence-transformers folder, or a hub name."""

import logging
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from selfguide.encoders.encoder import Encoder
from selfguide.encoders.families import family_of
from selfguide.errors import InputError
from selfguide.files import read_json
from selfguide.pooling import POOLINGS

logger = logging.getLogger(__name__)

BUNDLED = "mini"
"""Name of the encoder that ships inside the package."""

LONGEST = 128
"""Tokens kept of a sentence unless the user says otherwise; an encoder with fewer positions is cut at what it has."""


_POOLING_NAMES = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean"}
"""How sentence-transformers before version 6 has them."""


@dataclass(frozen=True)
class Source:
    """Where the transformer of an encoder lies, and the length that a sentence-transformers folder asks for."""

    location: str
    max_length: int | None = None


def load_encoder(
    name: str | Path,
    *,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    is_part: bool = False,
) -> Encoder:
    """Load an encoder and its tokenizer in float32, whatever precision the checkpoint is stored in.

    Args:
        name: ``mini`` (the bundled encoder), a local folder (also one saved by sentence-transformers), or a hub name.
        max_length: Longest input in tokens; by default what a sentence-transformers folder says, else 128, and less where
            the encoder has fewer positions.
        revision: Commit, tag or branch of a hub model.
        trust_remote_code: Run code that comes with the model.
        is_part: The other modules of a sentence-transformers folder are looked after by the caller; without, what is left
            out is told.

    Raises:
        InputError: when there is no such model, it is no encoder, or it cannot be reached.
    """
    source = locate(str(name), is_part=is_part)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    config = _load_part(AutoConfig.from_pretrained, source, str(name), options)
    family = family_of(config)
    tokenizer = _load_tokenizer(source, str(name), options)
    model, pooler = _load_model(source, str(name), options)
    positions = positions_of(config)
    longest = min(source.max_length or LONGEST, positions) if max_length is None else max_length
    shortest = tokenizer.num_special_tokens_to_add() + 1
    if not shortest <= longest <= positions:
        raise InputError(
            f"max length {longest} was asked for; '{name}' has positions for {positions} tokens and needs {shortest}: "
            f"give a number from {shortest} to {positions}"
        )
    return Encoder(
        model=model,
        tokenizer=tokenizer,
        family=family,
        name=str(name),
        max_length=longest,
        positions=positions,
        pooler=pooler,
    )


def locate(name: str, *, is_part: bool = False) -> Source:
    """The folder or hub name of the transformer behind a model name."""
    if name == BUNDLED:
        return Source(str(files("selfguide") / "bundled" / BUNDLED))
    folder = Path(name).expanduser()
    if not folder.exists():
        return Source(name)
    if folder.is_file():
        raise InputError(f"the model '{name}' is a file; give the folder that holds config.json")
    if (folder / "modules.json").exists():
        return _sentence_transformers_source(folder, is_part=is_part)
    if not (folder / "config.json").exists():
        raise InputError(f"the folder '{name}' holds no config.json, so it is no saved encoder; give the folder that does")
    return Source(str(folder))


def _sentence_transformers_source(folder: Path, *, is_part: bool) -> Source:
    try:
        modules = [(module["type"].rsplit(".", 1)[-1], module["path"]) for module in read_json(folder / "modules.json")]
        (kind, path), *others = modules
        max_length = _saved_max_length(folder / path)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"the folder '{folder}' has a modules.json, but its JSON files are not those of sentence-transformers: "
            f"{type(error).__name__} {error}; save it again, or give the folder of the transformer alone"
        ) from error
    if not kind.startswith("Transformer"):
        raise InputError(f"the first module of '{folder}' is {kind}, not a transformer: there are no layers to use")
    dropped = [kind for kind, _ in others if kind != "Pooling"]
    if dropped and not is_part:
        logger.warning("of the modules in '%s', only the transformer is used (left out: %s)", folder, ", ".join(dropped))
    return Source(str(folder / path), max_length)


def saved_pooling(name: str) -> str | None:
    """The pooling that a sentence-transformers folder asks for; None for any other model, whose pooling is free.

    Raises:
        InputError: when it is none of ours.
    """
    folder = Path(name).expanduser()
    if name == BUNDLED or not (folder / "modules.json").is_file():
        return None
    entries = [entry for entry in read_json(folder / "modules.json") if entry["type"].endswith(".Pooling")]
    config = read_json(folder / entries[0]["path"] / "config.json") if entries else {}
    found = {_POOLING_NAMES.get(key, key) for key, value in config.items() if key.startswith("pooling_mode_") and value}
    found |= {str(config["pooling_mode"])} if "pooling_mode" in config else set()
    known = [pooling for pooling in POOLINGS if found == {pooling}]
    if not known:
        said = ", ".join(sorted(found)) or "not known"
        raise InputError(f"the pooling of '{name}' is {said}; name one with --pooling: {', '.join(POOLINGS)}")
    return known[0]


def _saved_max_length(folder: Path) -> int | None:
    """Longest input that sentence-transformers saved: in a file of its own, or, as version 6 does, with the tokenizer."""
    for file, key in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        saved = read_json(folder / file).get(key) if (folder / file).exists() else None
        if saved:
            return int(saved)
    return None


def _load_tokenizer(source: Source, name: str, options: dict[str, Any]) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase = _load_part(AutoTokenizer.from_pretrained, source, name, options)
    # without tokenizer files transformers makes one up that knows no words, and does not say so
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise InputError(
            f"the tokenizer of '{name}' has no vocabulary, only special tokens; the model must come with its tokenizer.json "
            "or with the vocabulary that this is made from"
        )
    return tokenizer


def _load_model(source: Source, name: str, options: dict[str, Any]) -> tuple[PreTrainedModel, torch.nn.Module | None]:
    """The model without its pooler, and the pooler, or None where the checkpoint has no weights for one."""
    # shapes that differ are reported, not raised on, so that the error below can name them
    options = {**options, "dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = _load_part(AutoModel.from_pretrained, source, name, options)
    unfit = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    lacking = sorted(key for key in unfit if not key.startswith("pooler."))
    if lacking:
        raise InputError(
            f"the weights of '{name}' lack {len(lacking)} tensors of {type(model).__name__}, or have them in another shape "
            f"(first: {lacking[0]}); the checkpoint is incomplete or of another architecture"
        )
    if "pooler" not in dict(model.named_children()):
        return model, None
    pooler, model.pooler = model.pooler, None
    return model, None if unfit else pooler


def _load_part(load: Any, source: Source, name: str, options: dict[str, Any]) -> Any:  # noqa: ANN401 - transformers' loaders
    try:
        return load(source.location, **options)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        if "trust_remote_code=True" in str(error):
            raise InputError(
                f"the model '{name}' needs code that comes with it, and that code was not run; read it, and if you trust it "
                "ask for trust_remote_code (--trust-remote-code)"
            ) from error
        reason = " ".join(str(error).split())[:300]
        if Path(source.location).exists():
            raise InputError(f"the model folder '{name}' cannot be loaded: {reason}") from error
        raise InputError(
            f"the model '{name}' is not a local folder and could not be had from the Hugging Face hub; give a folder that "
            f"holds config.json, the name '{BUNDLED}' (the bundled encoder), or check the name and the network ({reason})"
        ) from error


def positions_of(config: PretrainedConfig) -> int:
    """Tokens that fit into a model."""
    return usable_positions(int(config.max_position_embeddings), config.model_type, config.pad_token_id)


def usable_positions(positions: int, family: str, pad_id: int | None) -> int:
    """Tokens that fit; RoBERTa-like models count positions from the padding id on and so lose the first two."""
    return positions - (pad_id or 0) - 1 if family in ("roberta", "xlm-roberta", "camembert", "mpnet") else positions
