"""Tiny models with something that a reader may lose: a prompt inside the tokenizer, other bases of rotary positions."""

import shutil
from pathlib import Path

from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from selfguide.files import read_json, write_json


def with_template(source: Path, folder: Path) -> Path:
    """A copy of a BERT whose tokenizer reads every sentence inside a prompt, with [MASK] in front in place of [CLS]."""
    shutil.copytree(source, folder)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    pieces = [(piece, tokenizer.token_to_id(piece)) for piece in ("[MASK]", "near", "the", "park", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[MASK] $A near the park [SEP]", special_tokens=pieces)
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    ).save_pretrained(folder)
    return folder


def with_rotary_bases(source: Path, folder: Path, *, full: float, sliding: float) -> Path:
    """A copy of a ModernBERT with other bases, as mmBERT has them."""
    shutil.copytree(source, folder)
    config = read_json(folder / "config.json")
    config["rope_parameters"]["full_attention"]["rope_theta"] = full
    config["rope_parameters"]["sliding_attention"]["rope_theta"] = sliding
    write_json(folder / "config.json", config)
    return folder
