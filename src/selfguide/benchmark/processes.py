"""What needs a process of its own: the memory of an encoding, and how long one takes to start."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer, BertConfig, BertModel

from selfguide.benchmark.rounds import Comparison
from selfguide.benchmark.texts import repeated
from selfguide.bundled import ENCODER
from selfguide.errors import SelfguideError

OURS, PEER = "selfguide encode", "sentence-transformers"

_ENCODE = "import sys; from selfguide.cli.main import main; code = main(sys.argv[1:])"
_PEAK = "; from selfguide.benchmark.peak_memory import peak_mib; print(peak_mib()); sys.exit(code)"
_PEER = """
import sys
import numpy
from sentence_transformers import SentenceTransformer
model, source, target = sys.argv[1:]
texts = open(source, encoding="utf-8").read().splitlines()
numpy.save(target, SentenceTransformer(model, device="cpu").encode(texts, show_progress_bar=False))
"""


def compare_memory(texts: Sequence[str], *, fewer: int, more: int, scratch: Path) -> Comparison:
    """Peak memory of encoding many lines, against that of a tenth of them, by a tiny encoder."""
    model = _tiny_encoder(scratch / "tiny")

    def peak(count: int) -> float:
        source = scratch / f"{count}.txt"
        source.write_text("\n".join(repeated(texts, count)) + "\n", encoding="utf-8")
        return float(_run(_ENCODE + _PEAK, *_encoding(model, source, scratch / "memory.npy")).split()[-1])

    ways = {f"{more:,} lines": lambda: peak(more), f"{fewer:,} lines": lambda: peak(fewer)}
    return Comparison("peak memory of encoding", "MiB", ways, warm_up=False)


def compare_starts(texts: Sequence[str], *, model: Path, scratch: Path) -> Comparison:
    """Seconds from nothing to the vectors of ten lines, on the CPU."""
    source, target = scratch / "ten.txt", scratch / "ten.npy"
    source.write_text("\n".join(texts[:10]) + "\n", encoding="utf-8")

    def seconds(code: str, *arguments: str) -> float:
        began = time.perf_counter()
        _run(code, *arguments)
        return time.perf_counter() - began

    ways = {
        OURS: lambda: seconds(_ENCODE + "; sys.exit(code)", *_encoding(model, source, target)),
        PEER: lambda: seconds(_PEER, str(model), str(source), str(target)),
    }
    return Comparison("start: ten lines", "seconds", ways)


def _encoding(model: Path, source: Path, target: Path) -> list[str]:
    files = ["--model", str(model), "--data", str(source), "--output", str(target)]
    return ["encode", *files, "--overwrite", "--device", "cpu"]


def _run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SelfguideError(f"a process that was to be measured failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def _tiny_encoder(folder: Path) -> Path:
    """Two layers of random weights with the bundled tokenizer: all that matters here is what surrounds it."""
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return folder
