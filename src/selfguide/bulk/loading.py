"""From a model's name to the quickest coder that gives its vectors."""

from pathlib import Path

import torch
from safetensors import SafetensorError

from selfguide.bulk.coders import Coder, FirstTokenCoder, PlainCoder
from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.folder_map import FolderMap, MappedCoder, read_map
from selfguide.devices import choose_device
from selfguide.embedders.folder import RECORD, is_embedder_folder, is_exported
from selfguide.embedders.protocol import Embedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.first_token import has_known_layers
from selfguide.encoders.loading import BUNDLED, load_encoder
from selfguide.errors import InputError
from selfguide.files import read_json


def load_coder(config: EncodeConfig) -> Coder:
    """Load the model of the settings.

    Raises:
        InputError: when there is no such model, or it is broken, or has no precision to choose.
    """
    device = choose_device(config.device)
    found = _first_token_map(config)
    if found is not None or reads_first_token(config.model, config.embedder):
        # no embedder is imported: that, and sentence-transformers, would take longer than to encode some sentences
        encoder = load_encoder(
            config.model,
            max_length=config.max_length,
            revision=config.revision,
            trust_remote_code=config.trust_remote_code,
            is_part=found is not None,
        )
        encoder.model.to(device)  # type: ignore[arg-type]
        if has_known_layers(encoder.model) and _is_own_encoder(config.model, encoder):
            coder = FirstTokenCoder(encoder, batch_tokens=config.batch_tokens)
            return coder if found is None else MappedCoder(coder, found)
        if found is not None:
            return _coder_of_embedder(config, device)
        from selfguide.embedders.pooled import PooledEmbedder

        return _plain(PooledEmbedder(encoder), device, config)
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
        return _is_cls_folder(folder, behind=())
    return (folder / "config.json").is_file() and not is_embedder_folder(folder) and not is_exported(folder)


def _first_token_map(config: EncodeConfig) -> FolderMap | None:
    """The linear map behind [CLS], where a folder is just these two, as after ``train --dimensions`` or ``fit``."""
    folder = Path(config.model).expanduser()
    if config.embedder is not None or config.model == BUNDLED or not (folder / "modules.json").is_file():
        return None
    try:
        modules = read_json(folder / "modules.json")
        behind = tuple(module["type"].rsplit(".", 1)[-1] for module in modules[2:])
        return read_map(folder, modules[2:]) if _is_cls_folder(folder, behind=behind) else None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # sentence-transformers will say what is wrong
        return None


def _is_own_encoder(model: str, encoder: Encoder) -> bool:
    """Whether a fitted embedder's folder holds the encoder that it was fitted on; the embedder itself tells if not."""
    folder = Path(model).expanduser()
    return not is_embedder_folder(folder) or (
        _read_if_there(folder / RECORD).get("encoder_sha256") == weights_sha256(encoder.model)
    )


def _is_cls_folder(folder: Path, *, behind: tuple[str, ...]) -> bool:
    """Whether a sentence-transformers folder is a transformer, [CLS], and these modules; the text is read as it is."""
    try:
        kinds, paths = zip(*((entry["type"], entry["path"]) for entry in read_json(folder / "modules.json")), strict=True)
        if [kind.rsplit(".", 1)[-1] for kind in kinds] != ["Transformer", "Pooling", *behind]:
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
    return _plain(embedder, device, config)


def _plain(embedder: Embedder, device: torch.device, config: EncodeConfig) -> PlainCoder:
    if config.batch_tokens is not None:
        raise InputError(
            f"--batch-tokens is for [CLS] vectors of BERT-like encoders, and '{config.model}' makes its own batches; "
            "leave it out"
        )
    return PlainCoder(embedder, device)


def _first_token_encoder(embedder: object) -> Encoder | None:
    """The encoder of an embedder that reads the last states of [CLS], as a hub name can turn out to be."""
    from selfguide.embedders.pooled import PooledEmbedder

    if not isinstance(embedder, PooledEmbedder) or not has_known_layers(embedder.encoder.model):
        return None
    pooling = embedder.layer_pooling
    return embedder.encoder if pooling.pooling == "cls" and pooling.layers == (embedder.encoder.layer_count,) else None
