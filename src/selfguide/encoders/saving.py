"""Saving an encoder as a folder that sentence-transformers, AutoModel and the serving tools load as it stands."""

from pathlib import Path
from typing import Any

from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError
from selfguide.files import read_json, write_json

# The names under which sentence-transformers 3 to 6, text-embeddings-inference and infinity all know these modules;
# current sentence-transformers would write newer ones, which the others cannot read.
_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
_POOLING_KEYS = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}
_OTHER_POOLING_KEYS = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken")


def save_encoder(encoder: Encoder, folder: Path, *, pooling: str = "cls") -> None:
    """Write the weights (safetensors, float32), the tokenizer, and the pooling in a spelling that every reader knows.

    Raises:
        InputError: for a pooling that is not known.
    """
    if pooling not in _POOLING_KEYS:
        raise InputError(f"pooling '{pooling}' is not known; choose one of: {', '.join(_POOLING_KEYS)}")
    _save_model(encoder, folder)
    _save_tokenizer(encoder, folder)
    write_json(folder / "modules.json", _MODULES)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": encoder.max_length, "do_lower_case": False})
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write_json(folder / "1_Pooling" / "config.json", pooling_config(pooling, encoder.dim))


def pooling_config(pooling: str, dim: int) -> dict[str, Any]:
    """The content of ``1_Pooling/config.json``."""
    modes = {key: name == pooling for name, key in _POOLING_KEYS.items()} | dict.fromkeys(_OTHER_POOLING_KEYS, False)
    return {"word_embedding_dimension": dim, **modes}


def _save_model(encoder: Encoder, folder: Path) -> None:
    """Save with the pooler as it was; without the pooler's slot the model runs faster and trains nothing unused."""
    if encoder.pooler is None:
        encoder.model.save_pretrained(folder)
    else:
        encoder.model.pooler = encoder.pooler
        try:
            encoder.model.save_pretrained(folder)
        finally:
            encoder.model.pooler = None  # type: ignore[assignment]
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, **_rotary_bases(config)})


def _rotary_bases(config: dict[str, Any]) -> dict[str, float]:
    """The bases of rotary positions under the names that they had before transformers 5.

    Without these transformers 4 takes its defaults without a word, and text-embeddings-inference fails.
    """
    found: dict[str, Any] = config.get("rope_parameters") or {}
    names = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
    bases = {name: found[kind]["rope_theta"] for kind, name in names.items() if kind in found}
    return bases | ({"rope_theta": found["rope_theta"]} if "rope_theta" in found else {})


def _save_tokenizer(encoder: Encoder, folder: Path) -> None:
    backend = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()  # else the file would carry the limit of the last call
    encoder.tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = read_json(path)
    # transformers 4 does not know the class that transformers 5 names here; both know this one
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config.setdefault("model_input_names", list(encoder.tokenizer.model_input_names))
    # transformers 4 has this list under its old name, and fails on a list under the new one; transformers 5 reads both
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    for local in ("is_local", "local_files_only", "backend"):
        config.pop(local, None)
    write_json(path, config)
