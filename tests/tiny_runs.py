"""What the tests of training and the command line share: tiny text, tiny pairs, and short looks at what a run has written."""

import hashlib
import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
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


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny products gain nothing from more threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
