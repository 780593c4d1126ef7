"""Tiny random translation models with real tokenizers, built in code and saved as Hugging Face folders."""

import io
import json
from pathlib import Path

import sentencepiece
import torch
import transformers

from tiny_models import DIM, LETTERS, POSITIONS, SENTENCES, WORDS

_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
_HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
_SIZES = {
    "d_model": DIM,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": POSITIONS,
    "init_std": 0.5,
    **_HEADS,
}


def save_marian(folder: Path, *, seed: int = 1) -> None:
    """Marian, as OPUS-MT has it: a sentencepiece model for each side, one vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 4), model_writer=pieces, vocab_size=50, minloglevel=2, num_threads=1
    )
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(pieces.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces.getvalue())
    names = ["</s>", "<unk>", *(processor.id_to_piece(number) for number in range(3, len(processor))), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    pad = len(names) - 1
    config = transformers.MarianConfig(
        vocab_size=len(names), pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=0, **_SIZES
    )
    _save(transformers.MarianMTModel, config, folder, seed)


def save_fsmt(folder: Path, *, seed: int = 1) -> None:
    """FSMT, as fairseq's WMT19 models have it: Moses' tokens in byte pairs, a vocabulary for each side."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [*_SPECIALS, *LETTERS, *(f"{letter}</w>" for letter in LETTERS), *(f"{word}</w>" for word in WORDS)]
    merges = sorted({merge for word in WORDS for merge in _merges(word)}, key=lambda merge: (len("".join(merge)), merge))
    names += [joined for merge in merges if (joined := "".join(merge)) not in names]
    vocabulary = json.dumps({name: number for number, name in enumerate(names)})
    for side in ("src", "tgt"):
        (folder / f"vocab-{side}.json").write_text(vocabulary)
    (folder / "merges.txt").write_text("".join(f"{left} {right} 1\n" for left, right in merges))
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"]}))
    config = transformers.FSMTConfig(langs=["en", "de"], src_vocab_size=len(names), tgt_vocab_size=len(names), **_SIZES)
    _save(transformers.FSMTForConditionalGeneration, config, folder, seed)


TRANSLATORS = {"marian": save_marian, "fsmt": save_fsmt}


def _merges(word: str) -> list[tuple[str, str]]:
    """The byte pairs that put a word together from its left."""
    signs = [*word[:-1], f"{word[-1]}</w>"]
    return [("".join(signs[:end]), signs[end]) for end in range(1, len(signs))]


def _save(kind: type, config: transformers.PretrainedConfig, folder: Path, seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(config)
    model.generation_config.update(min_length=4, no_repeat_ngram_size=2)  # or random weights say nothing, or one word
    model.save_pretrained(folder)
