"""What turns sentences into vectors: a quick way for [CLS] of BERT-like encoders, the embedder's own for all others."""

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt
import torch

from selfguide.bulk.token_rows import TokenRows, batches, tokenize
from selfguide.bulk.tokenizer_pool import SENTENCES_AT_ONCE, TokenizerPool
from selfguide.devices import fast_products, product_precision, sent
from selfguide.embedders.protocol import Embedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.first_token import first_token_states
from selfguide.encoders.template import template_text

Vectors = npt.NDArray[np.float32]
OnProgress = Callable[[int], None]
"""Called with how many sentences were encoded since the last time."""
WaitForVectors = Callable[[], Vectors]
"""Gives vectors ``(n, dim)`` in the order of the sentences; may be called in another thread."""

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65536, "mps": 16384}
"""Fewer on a CPU than elsewhere in this package: nothing is padded, and what fits into its cache is quicker."""
_SENTENCES_AT_ONCE = 4096
_MOST_TOKENIZERS = 12


class Coder(Protocol):
    """A model in two steps, of which the first can run beside the second."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the vectors depend on."""

    def prepare(self, sentences: Sequence[str]) -> Any:  # noqa: ANN401 - what it makes is its own affair
        """What can be done ahead."""

    def begin(self, prepared: Any, on_progress: OnProgress) -> WaitForVectors:  # noqa: ANN401
        """Start; gives what waits for the vectors, as a GPU works beside this process."""

    def lower(self, dtype: torch.dtype) -> None:
        """Compute in half the precision from now on."""


def all_vectors(coder: Coder, sentences: Sequence[str]) -> Vectors:
    """Vectors ``(n, dim)``: prepared, begun and waited for."""
    return coder.begin(coder.prepare(sentences), lambda more: None)()


@final
class FirstTokenCoder:
    """[CLS] of a BERT-like encoder: tokenises ahead, pads nothing."""

    def __init__(self, encoder: Encoder, *, batch_tokens: int | None = None) -> None:
        self.encoder = encoder
        self.device = encoder.model.device
        self.batch_tokens = batch_tokens or TOKENS_PER_BATCH[self.device.type]
        self.pool = _tokenizer_pool(encoder) if self.device.type == "cuda" else None
        if self.pool is not None:
            weakref.finalize(self, self.pool.close)
        encoder.model.train(False)

    @property
    def identity(self) -> dict[str, Any]:
        """Pooling, template, longest input, precision of products and the hash of the weights."""
        template = template_text(self.encoder)
        return {
            "pooling": "cls",
            **({} if template is None else {"reads": template}),
            "max_length": self.encoder.max_length,
            "products": product_precision(self.device),
            "weights": weights_sha256(self.encoder.model),
        }

    def prepare(self, sentences: Sequence[str]) -> TokenRows:
        """Token ids."""
        if self.pool is not None and len(sentences) > SENTENCES_AT_ONCE:
            return self.pool.tokenize(sentences)
        return tokenize(sentences, self.encoder.tokenize)

    def begin(self, prepared: TokenRows, on_progress: OnProgress) -> WaitForVectors:
        """Start; nothing here waits for CUDA."""
        found = torch.zeros((len(prepared), self.encoder.dim), device=self.device)
        with torch.no_grad(), fast_products(self.device):
            for groups in batches(prepared.lengths, self.batch_tokens):
                ids = [sent(torch.from_numpy(prepared.group(positions)), self.device) for positions in groups]
                positions = np.concatenate(groups)
                rows = sent(torch.from_numpy(positions), self.device)
                found[rows] = first_token_states(self.encoder.model, ids).float()
                on_progress(len(positions))
        if self.device.type != "cuda":  # torch lets only CUDA be used by two threads at a time
            vectors = found.cpu().numpy()
            return lambda: vectors
        stream = torch.cuda.current_stream(self.device)  # a thread has one of its own

        def wait() -> Vectors:
            with torch.cuda.stream(stream):
                fetched: Vectors = found.cpu().numpy()
                return fetched

        return wait

    def lower(self, dtype: torch.dtype) -> None:
        """Compute in half the precision from now on: the weights are rounded, too."""
        self.encoder.model.to(dtype)  # type: ignore[arg-type]


def _tokenizer_pool(encoder: Encoder) -> TokenizerPool | None:
    """Processes that tokenise as the encoder does; none where its tokenizer cannot be copied, or there are no cores."""
    processes = min((os.cpu_count() or 1) - 2, _MOST_TOKENIZERS)
    core = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if core is None or core.encode_special_tokens or processes < 2:
        return None
    encoder.tokenize([""])  # sets where it cuts
    return TokenizerPool(core.to_str(), processes)


@final
class PlainCoder:
    """Any embedder, by its own ``encode``."""

    def __init__(self, embedder: Embedder, device: torch.device) -> None:
        self.embedder, self.device = embedder, device
        self.dtype = torch.float32

    @property
    def identity(self) -> dict[str, Any]:
        """The protocol of the embedder."""
        return self.embedder.protocol

    def prepare(self, sentences: Sequence[str]) -> Sequence[str]:
        """Nothing: the embedder tokenises."""
        return sentences

    def begin(self, prepared: Sequence[str], on_progress: OnProgress) -> WaitForVectors:
        """Encode them here; nothing is left to wait for."""
        parts = []
        for start in range(0, len(prepared), _SENTENCES_AT_ONCE):
            part = prepared[start : start + _SENTENCES_AT_ONCE]
            with self._precision():
                parts.append(self.embedder.encode(part))
            on_progress(len(part))
        return lambda: np.concatenate(parts).astype(np.float32, copy=False)

    def lower(self, dtype: torch.dtype) -> None:
        """Compute products in half the precision from now on."""
        self.dtype = dtype

    def _precision(self) -> AbstractContextManager[Any]:
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)
