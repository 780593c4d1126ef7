"""What the tests of training and the command line share: tiny text, and short looks at what a run has written."""

import hashlib
import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from selfguide.bulk.coders import Vectors
from selfguide.bulk.shards import Shard, ShardFolder
from tiny_models import WORDS

_DRAWS = random.Random(0)


def _sentence(words: int) -> str:
    return " ".join(_DRAWS.choices(WORDS, k=words))


SENTENCES = tuple(dict.fromkeys(_sentence(_DRAWS.randint(3, 9)) for _ in range(60)))[:40]
"""40 different sentences of 3 to 9 words."""

PARAPHRASES = tuple(f"{sentence} {_sentence(2)}" for sentence in SENTENCES)
PAIRS = tuple((round(_DRAWS.uniform(0, 5), 2), _DRAWS.choice(SENTENCES), _sentence(5)) for _ in range(24))
"""Score and two sentences."""

SMALL = ("--batch-size", "8", "--projection-width", "32", "--checkpoint-minutes", "0")
"""Flags that keep a run small."""


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> dict[str, str]:
    """Paths of sentences, graded pairs and paraphrases, by these names; to be read, never written to."""
    folder = tmp_path_factory.mktemp("text")
    contents = {
        "sentences.txt": "".join(f"{sentence}\n" for sentence in SENTENCES),
        "pairs.tsv": "".join(f"{score}\t{first}\t{second}\n" for score, first, second in PAIRS),
        "paraphrases.tsv": "".join(f"{a}\t{b}\n" for a, b in zip(SENTENCES, PARAPHRASES, strict=True)),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {Path(name).stem: str(folder / name) for name in contents}


@contextmanager
def power_cut(monkeypatch: pytest.MonkeyPatch, *, after: int) -> Iterator[None]:
    """The block encodes, and ends in an error when this many shards are stored."""
    write = ShardFolder.write

    def until_then(self: ShardFolder, shard: Shard, vectors: Vectors) -> None:
        if shard.number == after:
            raise RuntimeError("power cut")
        write(self, shard, vectors)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(ShardFolder, "write", until_then)
        yield


def weights_of(output: Path) -> dict[str, torch.Tensor]:
    """The weights that a run has saved."""
    return load_file(output / "model.safetensors")


def metrics_of(output: Path) -> list[dict[str, float]]:
    """The lines of ``metrics.jsonl``."""
    return [json.loads(line) for line in (output / "selfguide" / "metrics.jsonl").read_text().splitlines()]


def same_bits(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights are equal to the last bit."""
    return left.keys() == right.keys() and all(torch.equal(tensor, right[name]) for name, tensor in left.items())


def tree(folder: Path) -> dict[str, str]:
    """All files and folders below a folder, with a hash of each file."""
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


class Watcher:
    """Progress that shows nothing; tests change what they need."""

    def start(self, step: int, steps: int) -> None:
        pass

    def update(self, step: int, loss: float, sentences: int) -> None:
        pass

    def scored(self, step: int, score: float, *, is_best: bool) -> None:
        pass

    def stop(self) -> None:
        pass


class Interrupter(Watcher):
    """Presses Ctrl-C when a step is done."""

    def __init__(self, step: int) -> None:
        self.step = step

    def update(self, step: int, loss: float, sentences: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)
