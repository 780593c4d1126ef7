"""Translation models of transformers that know one pair of languages: Marian (OPUS-MT) and FSMT (fairseq's WMT19)."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from selfguide.devices import TOKENS_PER_BATCH, choose_device
from selfguide.errors import InputError, MissingExtraError
from selfguide.files import sha256_of_file
from selfguide.translation.engines import Translator

logger = logging.getLogger(__name__)

FAMILIES = ("marian", "fsmt")
"""Others need a language code or a prompt with each sentence."""

_PACKAGES = ("sacremoses", "sentencepiece")
"""What the tokenizers of these families need, and transformers does not bring."""


@final
class NeuralTranslator(Translator):
    """A translation model, found at once and loaded when it first translates."""

    def __init__(
        self, name: str, *, beam: int = 5, max_length: int = 256, batch_tokens: int | None = None, device: str = "auto"
    ) -> None:
        """Find the model and check that it can do the job.

        Args:
            name: A hub name, or a local folder.
            beam: Beams of the search.
            max_length: Longest sentence and translation in tokens.
            batch_tokens: Padded tokens times beams that go through the model at once; by default what suits the device.
            device: Where to run.

        Raises:
            InputError: when there is no such model, it is no translation model, or a package is missing.
        """
        missing = [package for package in _PACKAGES if find_spec(package) is None]
        if missing:
            needed = " and ".join(missing)
            raise MissingExtraError(f"--engine neural needs {needed}, not installed: pip install 'selfguide[translate]'")
        self.name, self.beam, self.max_length = name, beam, max_length
        self.device = choose_device(device)
        # fairseq trained these models in float16; elsewhere half precision is slow
        self.dtype = torch.float16 if self.device.type == "cuda" else torch.float32
        self.batch_tokens = batch_tokens or TOKENS_PER_BATCH[self.device.type]
        self._location = _locate(name)
        self._config = _load(AutoConfig, name, self._location)
        _check(self._config, name, max_length)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Model, search and precision."""
        return {
            "engine": "neural",
            "model": _identity(self.name, self._location, self._config),
            "beam": self.beam,
            "max_length": self.max_length,
            "dtype": str(self.dtype).removeprefix("torch."),
        }

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Translate in batches of similar length."""
        rows: list[list[int]] = self._tokenizer(list(sentences), truncation=True, max_length=self.max_length)["input_ids"]
        cut = sum(len(row) == self.max_length for row in rows)
        if cut:
            logger.warning("%d of %d sentences fill --max-length %d, or were cut there", cut, len(rows), self.max_length)
        translations = [""] * len(rows)
        for positions in self._batches([len(row) for row in rows]):
            texts = self._generate([rows[position] for position in positions])
            for position, text in zip(positions, texts, strict=True):
                translations[position] = text
        return translations

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - transformers' tokenizers are untyped
        return _load(AutoTokenizer, self.name, self._location)

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - transformers' models are untyped
        options = {"dtype": self.dtype, "output_loading_info": True}
        model, report = _load(AutoModelForSeq2SeqLM, self.name, self._location, **options)
        # transformers would go on with random ones; positions are computed where they are not stored
        lacking = sorted(key for key in report["missing_keys"] if "embed_positions" not in key)
        if lacking:
            raise InputError(f"the weights of '{self.name}' lack {len(lacking)} tensors (first: {lacking[0]})")
        return model.to(self.device).eval()

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Positions, the longest first, in groups that keep to ``batch_tokens``; a single sentence may exceed it."""
        order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
        while order:
            size = max(1, self.batch_tokens // (self.beam * lengths[order[0]]))
            yield order[:size]
            order = order[size:]

    @torch.inference_mode()
    def _generate(self, rows: list[list[int]]) -> list[str]:
        inputs = self._tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(self.device)
        found = self._model.generate(**inputs, num_beams=self.beam, do_sample=False, max_length=self.max_length)
        texts: list[str] = self._tokenizer.batch_decode(found, skip_special_tokens=True)
        return [text.strip() for text in texts]


def _locate(name: str) -> str:
    """The folder of a model where there is one, else the hub name."""
    folder = Path(name).expanduser()
    if not folder.exists():
        return name
    if not (folder / "config.json").is_file():
        raise InputError(f"'{name}' holds no config.json, so it is no saved translation model; give the folder that does")
    return str(folder)


def _identity(name: str, location: str, config: Any) -> str:  # noqa: ANN401 - a configuration of transformers
    """What tells a model from any other: its commit on the hub, or a hash of all files of its folder."""
    folder = Path(location)
    if not folder.is_dir():
        return f"{name}@{config._commit_hash}"
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    sums = "".join(f"{path.name} {sha256_of_file(path)}\n" for path in files)
    return hashlib.sha256(sums.encode()).hexdigest()


def _check(config: Any, name: str, max_length: int) -> None:  # noqa: ANN401 - a configuration of transformers
    if config.model_type not in FAMILIES:
        raise InputError(
            f"'{name}' is a model of type '{config.model_type}', which is no translation model of one pair of languages; "
            f"those are {' and '.join(FAMILIES)}, such as Helsinki-NLP/opus-mt-en-de and facebook/wmt19-en-de"
        )
    positions = config.max_position_embeddings
    if max_length > positions:
        raise InputError(f"--max-length is {max_length}, but '{name}' has {positions} positions; give at most that")


def _load(kind: Any, name: str, location: str, **options: Any) -> Any:  # noqa: ANN401 - transformers' loaders
    try:
        return kind.from_pretrained(location, **options)
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        if Path(location).is_dir():
            raise InputError(f"the translation model in '{name}' cannot be loaded: {reason}") from error
        raise InputError(
            f"the translation model '{name}' is not a local folder and could not be had from the Hugging Face hub; check "
            f"the name and the network, give a folder, or use --engine apertium ({reason})"
        ) from error
