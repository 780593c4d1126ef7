"""Saving an encoder as a folder that sentence-transformers, AutoModel and the serving tools load as it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from selfguide.encoders.encoder import Encoder
from selfguide.encoders.template import template_of
from selfguide.errors import InputError
from selfguide.files import read_json, write_json

Array = npt.NDArray[np.float32]

# The name under which sentence-transformers 3 to 6, text-embeddings-inference and infinity all know its modules;
# current sentence-transformers would write newer ones, which the others cannot read. Keys of settings are the old ones, too.
_MODULE_TYPE = "sentence_transformers.models.{}"
_POOLING_KEYS = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}
_OTHER_POOLING_KEYS = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken")


def save_encoder(
    encoder: Encoder,
    folder: Path,
    *,
    pooling: str = "cls",
    layers: Sequence[int] | None = None,
    dense: tuple[Array, Array] | None = None,
) -> None:
    """Write the weights (safetensors, float32), the tokenizer, and the pooling in a spelling that every reader knows.

    Args:
        encoder: What is saved.
        folder: Where to; it exists.
        pooling: Over the tokens.
        layers: Layers whose mean states are pooled; the last one by default.
        dense: Weight ``(out, dim)`` and bias ``(out,)`` of a linear map behind the pooling; its vectors are normalised.

    Raises:
        InputError: for a pooling that is not known.
    """
    if pooling not in _POOLING_KEYS:
        raise InputError(f"pooling '{pooling}' is not known; choose one of: {', '.join(_POOLING_KEYS)}")
    modules = [_Module("Pooling", pooling_config(pooling, encoder.dim))]
    if layers is not None and tuple(layers) != (encoder.layer_count,):
        modules.insert(0, _layer_mean(encoder, layers))
    if dense is not None:
        modules += [_linear_map(*dense), _Module("Normalize", {})]
    save_transformer(encoder, folder)
    # without, the states of the layers do not reach the module that averages them, and it does nothing, without a word
    _set_in_config(folder, output_hidden_states=modules[0].kind != "Pooling")
    _save_modules(modules, folder)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": encoder.max_length, "do_lower_case": False})
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )


def save_transformer(encoder: Encoder, folder: Path) -> None:
    """Write the weights and the tokenizer alone, as ``AutoModel`` and ``AutoTokenizer`` load them."""
    _save_model(encoder, folder)
    _save_tokenizer(encoder, folder)


def pooling_config(pooling: str, dim: int) -> dict[str, Any]:
    """The content of ``1_Pooling/config.json``."""
    modes = {key: name == pooling for name, key in _POOLING_KEYS.items()} | dict.fromkeys(_OTHER_POOLING_KEYS, False)
    return {"word_embedding_dimension": dim, **modes}


@dataclass(frozen=True)
class _Module:
    """A module of sentence-transformers behind the transformer."""

    kind: str
    config: dict[str, Any]
    weights: dict[str, Array] = field(default_factory=dict)


def _layer_mean(encoder: Encoder, layers: Sequence[int]) -> _Module:
    count = encoder.layer_count
    config = {"word_embedding_dimension": encoder.dim, "layer_start": 0, "num_hidden_layers": count}
    weights = np.isin(np.arange(count + 1), list(layers)).astype(np.float32)
    return _Module("WeightedLayerPooling", config, {"layer_weights": weights})


def _linear_map(weight: Array, bias: Array) -> _Module:
    sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": True}
    config = {**sizes, "activation_function": "torch.nn.modules.linear.Identity"}
    return _Module("Dense", config, {"linear.weight": np.ascontiguousarray(weight), "linear.bias": bias})


def _save_modules(modules: Sequence[_Module], folder: Path) -> None:
    entries = [{"idx": 0, "name": "0", "path": "", "type": _MODULE_TYPE.format("Transformer")}]
    for number, module in enumerate(modules, start=1):
        path = f"{number}_{module.kind}"
        entries.append({"idx": number, "name": str(number), "path": path, "type": _MODULE_TYPE.format(module.kind)})
        (folder / path).mkdir(exist_ok=True)
        write_json(folder / path / "config.json", module.config)
        if module.weights:
            save_file(module.weights, folder / path / "model.safetensors")
    write_json(folder / "modules.json", entries)


def _set_in_config(folder: Path, *, output_hidden_states: bool) -> None:
    config = read_json(folder / "config.json")
    config.pop("output_hidden_states", None)
    write_json(folder / "config.json", config | ({"output_hidden_states": True} if output_hidden_states else {}))


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
    has_template = template_of(encoder) is not None
    # transformers 4 does not know the class that transformers 5 names here; both know this one. The class of a family
    # would put its own post-processor in place of a template, without a word.
    if config.get("tokenizer_class") == "TokenizersBackend" or has_template:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config.setdefault("model_input_names", list(encoder.tokenizer.model_input_names))
    if has_template:
        config = {**encoder.tokenizer.special_tokens_map, **config}
        for name in ("add_bos_token", "add_eos_token"):  # with these transformers 5 makes the post-processor anew
            config.pop(name, None)
    # transformers 4 has this list under its old name, and fails on a list under the new one; transformers 5 reads both
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    for local in ("is_local", "local_files_only", "backend"):
        config.pop(local, None)
    write_json(path, config)
