"""From a model's name to the quickest coder that gives its vectors."""

from pathlib import Path

import torch

from selfguide.bulk.coders import Coder, FirstTokenCoder, PlainCoder
from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.first_token import has_known_layers
from selfguide.devices import choose_device
from selfguide.embedders.folder import is_embedder_folder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.loading import BUNDLED, load_encoder
from selfguide.errors import InputError
from selfguide.files import read_json


def load_coder(config: EncodeConfig) -> Coder:
    """Load the model of the settings.

    Raises:
        InputError: when there is no such model, or it is broken, or has no precision to choose.
    """
    device = choose_device(config.device)
    if reads_first_token(config.model, config.embedder):
        # no embedder is imported: that, and sentence-transformers, would take longer than to encode some sentences
        encoder = load_encoder(
            config.model,
            max_length=config.max_length,
            revision=config.revision,
            trust_remote_code=config.trust_remote_code,
        )
        encoder.model.to(device)  # type: ignore[arg-type]
        if has_known_layers(encoder.model):
            return FirstTokenCoder(encoder, batch_tokens=config.batch_tokens)
        from selfguide.embedders.pooled import PooledEmbedder

        return PlainCoder(PooledEmbedder(encoder), device)
    return _coder_of_embedder(config, device)


def reads_first_token(model: str, embedder: str | None) -> bool:
    """Whether it is plain, without loading anything, that the vectors are the last states of [CLS]."""
    if embedder == "cls":
        return True
    if embedder is not None:
        return False
    folder = Path(model).expanduser()
    if model == BUNDLED:
        return True
    if (folder / "modules.json").is_file():
        return _is_cls_folder(folder)
    return (folder / "config.json").is_file() and not is_embedder_folder(folder)


def _is_cls_folder(folder: Path) -> bool:
    """Whether a sentence-transformers folder is a transformer and [CLS], and nothing else is done to text or vectors."""
    try:
        kinds, paths = zip(*((entry["type"], entry["path"]) for entry in read_json(folder / "modules.json")), strict=True)
        if [kind.rsplit(".", 1)[-1] for kind in kinds] != ["Transformer", "Pooling"]:
            return False
        pooling = read_json(folder / paths[1] / "config.json")
        reading = _read_if_there(folder / paths[0] / "sentence_bert_config.json")
        prompts = _read_if_there(folder / "config_sentence_transformers.json")
    except (OSError, ValueError, KeyError, TypeError):  # sentence-transformers will say what is wrong
        return False
    modes = {key for key, value in pooling.items() if key.startswith("pooling_mode") and value not in (False, None)}
    is_cls = pooling.get("pooling_mode") == "cls" or modes == {"pooling_mode_cls_token"}
    return is_cls and not reading.get("do_lower_case") and not prompts.get("default_prompt_name")


def _read_if_there(path: Path) -> dict[str, object]:
    found = read_json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _coder_of_embedder(config: EncodeConfig, device: torch.device) -> Coder:
    from selfguide.embedders.base import EncoderEmbedder
    from selfguide.embedders.loading import load_embedder
    from selfguide.embedders.sentence_transformers import SentenceTransformerEmbedder

    embedder = load_embedder(
        config.model,
        embedder=config.embedder,
        device=config.device,
        max_length=config.max_length,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
    )
    encoder = _first_token_encoder(embedder)
    if encoder is not None:
        return FirstTokenCoder(encoder, batch_tokens=config.batch_tokens)
    if config.precision != "float32" and not isinstance(embedder, EncoderEmbedder | SentenceTransformerEmbedder):
        raise InputError(
            f"--precision {config.precision} does not go with '{config.model}', which has no weights to round; use float32"
        )
    return PlainCoder(embedder, device)


def _first_token_encoder(embedder: object) -> Encoder | None:
    """The encoder of an embedder that reads the last states of [CLS], as a hub name can turn out to be."""
    from selfguide.embedders.pooled import PooledEmbedder

    if not isinstance(embedder, PooledEmbedder) or not has_known_layers(embedder.encoder.model):
        return None
    pooling = embedder.layer_pooling
    return embedder.encoder if pooling.pooling == "cls" and pooling.layers == (embedder.encoder.layer_count,) else None
