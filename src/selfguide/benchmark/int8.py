"""Encoding in int8 on a CPU, against sentence-transformers' defaults and its own OpenVINO int8 in its best setting."""

import csv
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
import torch

from selfguide.benchmark import openvino_peer
from selfguide.benchmark.encoding import DEFAULTS, load_peer, peer_way
from selfguide.benchmark.rounds import Comparison, Way
from selfguide.bulk.coders import FirstTokenCoder, all_vectors
from selfguide.bulk.int8 import int8_coder
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from selfguide.similarity import paired_cosines

OURS, OPENVINO = "selfguide, int8", "sentence-transformers, OpenVINO int8, best batch size"
BATCH_SIZES = (8, 16, 32, 64)
"""Of which the quickest is the peer's best; it sorts by length itself."""
_CALIBRATION = 300


@final
class OpenvinoPeer:
    """sentence-transformers' OpenVINO int8 in an environment of its own, which waits for its turn."""

    def __init__(self, python: str, *, model: Path, texts: Sequence[str], scratch: Path) -> None:
        """Start it; this quantises the model, which takes minutes.

        Args:
            python: Of an environment with sentence-transformers, optimum-intel, openvino, nncf and datasets.
            model: A sentence-transformers folder.
            texts: What it is calibrated on.
            scratch: Folder for files.

        Raises:
            InputError: when it does not start.
        """
        calibration = scratch / "calibration"
        calibration.mkdir(exist_ok=True)
        with (calibration / "train.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["sentence"], *([text] for text in texts[:_CALIBRATION])])
        hidden = ("PYTHONPATH", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in hidden} | {"HF_HUB_OFFLINE": "1"}
        self._scratch = scratch
        self._process = subprocess.Popen(
            [python, openvino_peer.__file__, str(model), str(calibration), str(scratch / "peer")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            text=True,
        )
        self.versions: dict[str, str] = self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def best_size(self, texts: Sequence[str]) -> int:
        """The quickest of some batch sizes."""
        ways = {size: self.way(texts, size) for size in BATCH_SIZES}
        for way in ways.values():
            way()
        return min(ways, key=lambda size: ways[size]())

    def way(self, texts: Sequence[str], size: int) -> Way:
        """Encode these with this batch size."""
        source = self._scratch / f"peer-{abs(hash(tuple(texts)))}.txt"
        source.write_text("\n".join(texts) + "\n", encoding="utf-8")

        def work() -> float:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{source}\t{size}\t{self._scratch / 'openvino.npy'}\n")
            self._process.stdin.flush()
            return float(self._answer()) / len(texts)

        return work

    def _answer(self) -> Any:  # noqa: ANN401 - any JSON value
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise InputError(
            "sentence-transformers with OpenVINO ended before it answered; the Python of --peer-python needs: pip install "
            "sentence-transformers optimum-intel openvino nncf datasets"
        )


def compare_int8(what: str, texts: Sequence[str], *, model: Path, scratch: Path, peer: OpenvinoPeer | None) -> Comparison:
    """Ours from texts to a file of vectors, models loaded before; without ``peer`` against the defaults alone.

    Args:
        what: Name of the comparison.
        texts: What is encoded.
        model: A sentence-transformers folder with [CLS] pooling.
        scratch: Folder for files.
        peer: The OpenVINO int8 of sentence-transformers.
    """
    facts: dict[str, Any] = {"sentences": len(texts)}
    ways: dict[str, Way] = {
        OURS: _our_way(texts, model, scratch),
        DEFAULTS: peer_way(texts, load_peer(model, torch.device("cpu"), torch.float32), scratch / "defaults.npy"),
    }
    if peer is not None:
        size = peer.best_size(texts[: max(1, len(texts) // 2)])
        facts |= {"best batch size": size, "its environment": peer.versions}
        ways[OPENVINO] = peer.way(texts, size)
    return Comparison(what, "seconds a sentence", ways, facts)


def cosines(scratch: Path) -> dict[str, float]:
    """Mean cosine with the vectors of float32, of ours and of the peer, as all were last written."""
    exact = np.load(scratch / "defaults.npy")
    names = {OURS: "int8.npy", OPENVINO: "openvino.npy"}
    return {
        f"mean cosine with float32, {name}": float(paired_cosines(exact, np.load(scratch / file)).mean())
        for name, file in names.items()
        if (scratch / file).is_file()
    }


def _our_way(texts: Sequence[str], model: Path, scratch: Path) -> Way:
    """What ``selfguide encode --precision int8`` does with a shard, one step after the other."""
    coder = int8_coder(FirstTokenCoder(load_encoder(str(model))), str(model))

    def work() -> float:
        began = time.perf_counter()
        np.save(scratch / "int8.npy", all_vectors(coder, texts))
        return (time.perf_counter() - began) / len(texts)

    return work
