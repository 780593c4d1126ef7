"""Tiny random models of every family, with real tokenizers, built in code and saved as Hugging Face folders.

4 layers, width 32, 4 heads, 60 to 80 vocabulary entries, room for 48 tokens. Nothing is downloaded.
"""

import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

LAYERS, DIM, HEADS, POSITIONS = 4, 32, 4, 48
EMBEDDING_DIM = 16
"""Size of the word embeddings where a family lets it differ from the layers' width."""

SENTENCES = (
    "the cat sits on the old tree",
    "a dog runs quickly in the park",
    "bird",
    "the small child plays near the river and the woman sleeps in the red house",
    "a man eats",
    "the quickest dogs and the oldest cats",
)
"""Of different lengths; the last one is cut into pieces of words."""

WORDS = "the cat dog man woman child bird sits runs sleeps plays eats on in near red small old house tree park river".split()
MANY = tuple(
    f"the {first} and a {second} near {third}"
    for first, second, third in zip(WORDS * 4, WORDS[3:] * 5, WORDS[8:] * 6, strict=False)
)
"""Different sentences, more than a tiny encoder has dimensions, for embedders that learn."""
LETTERS = list(string.ascii_lowercase)
BRACKETS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ANGLES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def _word_pieces(specials: list[str]) -> dict[str, int]:
    pieces = [*specials, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]
    return {piece: number for number, piece in enumerate(pieces)}


def _unigrams(specials: list[str]) -> list[tuple[str, float]]:
    words = [(f"▁{word}", -2.0) for word in WORDS]
    endings = [(ending, -4.0) for ending in ("ed", "er", "est", "ing", "ly", "ness")]
    return [
        *((special, 0.0) for special in specials),
        ("▁", -3.0),
        *words,
        *endings,
        *((letter, -6.0) for letter in LETTERS),
    ]


def _byte_pair_tokenizer(specials: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=72, special_tokens=specials, initial_alphabet=LETTERS, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def _byte_pairs(specials: list[str]) -> dict[str, Any]:
    """Vocabulary and merges, as the tokenizer classes take them."""
    model = json.loads(_byte_pair_tokenizer(specials).to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _modernbert_tokenizer() -> PreTrainedTokenizerBase:
    tokenizer = _byte_pair_tokenizer(BRACKETS)
    first, last = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[first, last])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )


SIZES = {
    "hidden_size": DIM,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.2,
}
BRACKET_IDS = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
ANGLE_IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": POSITIONS + 2}


@dataclass(frozen=True)
class TinyModel:
    """How one family's tiny model is made."""

    config: Callable[..., PretrainedConfig]
    tokenizer: Callable[[], PreTrainedTokenizerBase]
    options: dict[str, Any]
    """Settings beside the common sizes."""


ENCODERS: dict[str, TinyModel] = {
    "bert": TinyModel(
        transformers.BertConfig, lambda: transformers.BertTokenizer(vocab=_word_pieces(BRACKETS)), BRACKET_IDS
    ),
    "roberta": TinyModel(
        transformers.RobertaConfig, lambda: transformers.RobertaTokenizer(**_byte_pairs(ANGLES)), ANGLE_IDS
    ),
    "xlm-roberta": TinyModel(
        transformers.XLMRobertaConfig, lambda: transformers.XLMRobertaTokenizer(vocab=_unigrams(ANGLES)), ANGLE_IDS
    ),
    "camembert": TinyModel(
        transformers.CamembertConfig, lambda: transformers.CamembertTokenizer(vocab=_unigrams(ANGLES)), ANGLE_IDS
    ),
    "distilbert": TinyModel(
        transformers.DistilBertConfig,
        lambda: transformers.DistilBertTokenizer(vocab=_word_pieces(BRACKETS)),
        {**BRACKET_IDS, "hidden_dim": 64},
    ),
    "mpnet": TinyModel(
        transformers.MPNetConfig,
        lambda: transformers.MPNetTokenizer(vocab=_word_pieces(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])),
        ANGLE_IDS,
    ),
    "electra": TinyModel(
        transformers.ElectraConfig,
        lambda: transformers.BertTokenizer(vocab=_word_pieces(BRACKETS)),
        {**BRACKET_IDS, "embedding_size": EMBEDDING_DIM},
    ),
    "albert": TinyModel(
        transformers.AlbertConfig,
        lambda: transformers.AlbertTokenizer(vocab=_unigrams(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])),
        {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "embedding_size": EMBEDDING_DIM},
    ),
    # as DeBERTa v3: relative positions only, in buckets, with a norm of their own
    "deberta-v2": TinyModel(
        transformers.DebertaV2Config,
        lambda: transformers.DebertaV2Tokenizer(vocab=_unigrams(BRACKETS)),
        {
            **BRACKET_IDS,
            "type_vocab_size": 0,
            "relative_attention": True,
            "position_buckets": 8,
            "max_relative_positions": -1,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
        },
    ),
    # global attention in layers 1 and 4, a window of 4 tokens in the others
    "modernbert": TinyModel(
        transformers.ModernBertConfig,
        _modernbert_tokenizer,
        {
            **BRACKET_IDS,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "global_attn_every_n_layers": 3,
            "local_attention": 4,
        },
    ),
}
"""Encoders by their ``model_type``."""

OTHERS: dict[str, TinyModel] = {
    "gpt2": TinyModel(
        transformers.GPT2Config,
        lambda: transformers.GPT2Tokenizer(**_byte_pairs(["<|endoftext|>"])),
        {"bos_token_id": 0, "eos_token_id": 0},
    ),
    "t5": TinyModel(
        transformers.T5Config,
        lambda: transformers.T5Tokenizer(vocab=_unigrams(["<pad>", "</s>", "<unk>"]), extra_ids=0),
        {"d_model": DIM, "d_kv": 8, "d_ff": 64, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
    ),
    "ernie": TinyModel(
        transformers.ErnieConfig, lambda: transformers.BertTokenizer(vocab=_word_pieces(BRACKETS)), BRACKET_IDS
    ),
}
"""A decoder and an encoder-decoder, which are refused, and an encoder of a family that is not in the list."""


def make_model(family: str, vocab_size: int, *, layers: int = LAYERS) -> PreTrainedModel:
    """A random model in which no parameter is constant: norms and biases are moved from 1 and 0, padding from 0."""
    tiny = (ENCODERS | OTHERS)[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        sizes = {**SIZES, "num_hidden_layers": layers, **tiny.options}
        model = transformers.AutoModel.from_config(tiny.config(vocab_size=vocab_size, **sizes))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def save_tiny_model(family: str, folder: Path) -> None:
    """Write a model and its tokenizer as a Hugging Face folder."""
    tokenizer = (ENCODERS | OTHERS)[family].tokenizer()
    make_model(family, len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
