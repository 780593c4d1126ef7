"""Encoding against sentence-transformers: file in, ``.npy`` out, the model loaded before the clock starts."""

import time
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfguide.benchmark.arithmetic import Shape, our_products, padded_products
from selfguide.benchmark.rounds import Comparison, Way
from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.encode import run_encoding
from selfguide.encoders.first_token import has_known_layers
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.similarity import paired_cosines

OURS, DEFAULTS, BEST = "selfguide", "sentence-transformers, its defaults", "sentence-transformers, best settings"
BATCH_SIZES = (128, 512, 2048)
"""Of which the quickest is the peer's best."""


def compare_encoding(
    what: str, texts: Sequence[str], *, model: Path, device: torch.device, scratch: Path, precision: str
) -> Comparison:
    """Ours against the defaults, and on a GPU also against the peer's best settings: float16 and large batches.

    Args:
        what: Name of the comparison.
        texts: What is encoded.
        model: A sentence-transformers folder with [CLS] pooling.
        device: Where.
        scratch: Folder for files.
        precision: Ours; the peer's defaults are float32.
    """
    facts: dict[str, Any] = {"sentences": len(texts), "precision": precision, **_products_of_defaults(texts, model)}
    ways: dict[str, Way] = {
        OURS: our_way(texts, model=model, device=device, scratch=scratch, precision=precision),
        DEFAULTS: peer_way(texts, load_peer(model, device, torch.float32), scratch / "defaults.npy"),
    }
    if device.type == "cuda":
        peer = load_peer(model, device, torch.float16)
        size = _quickest(texts[: max(1, len(texts) // 5)], peer, scratch)
        facts["best settings"] = f"float16, batch size {size}"
        ways[BEST] = peer_way(texts, peer, scratch / "best.npy", batch_size=size)
    return Comparison(what, "seconds a sentence", ways, facts)


def our_way(texts: Sequence[str], *, model: Path, device: torch.device, scratch: Path, precision: str) -> Way:
    """``selfguide encode`` from file to file; its own rate leaves out the loading of the model."""
    source = scratch / "texts.txt"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    config = EncodeConfig(
        model=str(model),
        data=(str(source),),
        output=str(scratch / "ours.npy"),
        device=device.type,
        precision=precision,
    )
    return lambda: 1 / run_encoding(config, overwrite=True, progress=False).sentences_a_second


def load_peer(model: Path, device: torch.device, dtype: torch.dtype) -> Any:  # noqa: ANN401 - untyped
    """The same folder in sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(model), device=str(device), model_kwargs={"dtype": dtype})


def peer_way(texts: Sequence[str], peer: Any, output: Path, **settings: Any) -> Way:  # noqa: ANN401 - untyped
    """``SentenceTransformer.encode``, and the vectors saved."""

    def work() -> float:
        began = time.perf_counter()
        np.save(output, peer.encode(list(texts), show_progress_bar=False, **settings))
        return (time.perf_counter() - began) / len(texts)

    return work


def difference(scratch: Path) -> dict[str, float]:
    """How far our vectors are from those of the peer's defaults, as both were last written."""
    ours, theirs = (np.load(scratch / name) for name in ("ours.npy", "defaults.npy"))
    cosines = paired_cosines(ours, theirs)
    return {"largest difference": float(np.abs(ours - theirs).max()), "smallest cosine": float(cosines.min())}


def with_cls_pooling(model: str, folder: Path) -> Path:
    """A folder that sentence-transformers reads as we do: last states of [CLS], the same longest input."""
    folder.mkdir(exist_ok=True)
    save_encoder(load_encoder(model), folder)
    return folder


def _products_of_defaults(texts: Sequence[str], model: Path) -> dict[str, float]:
    """How much more the peer multiplies, for encoders that ours reads in its quick way."""
    encoder = load_encoder(str(model))
    if not has_known_layers(encoder.model):
        return {}
    shape = Shape.of(encoder.model.config)
    lengths = [len(row) for row in encoder.tokenize(sorted(texts, key=len, reverse=True))]  # the order of the peer
    ratio = padded_products(shape, lengths, batch_size=_default_batch_size()) / our_products(shape, lengths)
    return {"multiplications, its defaults to ours": round(ratio, 3)}


def _default_batch_size() -> int:
    from sentence_transformers import SentenceTransformer

    return int(signature(SentenceTransformer.encode).parameters["batch_size"].default)


def _quickest(texts: Sequence[str], peer: Any, scratch: Path) -> int:  # noqa: ANN401
    def seconds(size: int) -> float:
        work: Callable[[], float] = peer_way(texts, peer, scratch / "best.npy", batch_size=size)
        work()
        return work()

    return min(BATCH_SIZES, key=seconds)
