"""``selfguide benchmark``: all comparisons one after the other, as a table and a JSON file."""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch

from selfguide.benchmark.config import MEASURES, BenchmarkConfig
from selfguide.benchmark.encoding import compare_encoding, difference, with_cls_pooling
from selfguide.benchmark.int8 import OpenvinoPeer, compare_int8, cosines
from selfguide.benchmark.processes import compare_memory, compare_starts
from selfguide.benchmark.rounds import Comparison, Timing, take_turns
from selfguide.benchmark.texts import dev_file, mixed_texts, repeated, short_texts
from selfguide.benchmark.training import compare_runs, compare_steps
from selfguide.devices import choose_device
from selfguide.encoders.loading import load_encoder
from selfguide.environment import describe_environment
from selfguide.files import write_json

logger = logging.getLogger(__name__)

ALL_SENTENCES = 100_000
_SENTENCES = {"cpu": 400, "mps": 4000, "cuda": 30_000}
_STEPS = {"cpu": 64, "mps": 64, "cuda": 1000}
_STEPS_OF_A_PEER = 12
_SMALL = 20_000_000
"""Parameters of an encoder for which these samples are meant on a CPU; of a larger one, they are smaller."""


@final
@dataclass
class Bench:
    """A model, the text, and a folder for what is written meanwhile."""

    config: BenchmarkConfig
    device: torch.device
    texts: list[str]
    scratch: Path

    @property
    def is_gpu(self) -> bool:
        """Whether ours computes in half the precision, as one does there."""
        return self.device.type == "cuda"

    @property
    def count(self) -> int:
        """Sentences to encode."""
        return self.config.sentences or (
            ALL_SENTENCES if self.config.full else self._sampled(_SENTENCES[self.device.type], 48)
        )

    @property
    def steps(self) -> int:
        """Our training steps in a round."""
        return self.config.steps or self._sampled(_STEPS[self.device.type], 8)

    @property
    def peer_steps(self) -> int:
        """Training steps of a peer in a round."""
        return min(self.steps, self._sampled(_STEPS_OF_A_PEER, 3))

    def _sampled(self, count: int, least: int) -> int:
        share = min(1.0, _SMALL / self._parameters) if self.device.type == "cpu" else 1.0
        return max(least, int(share * count))

    @cached_property
    def _parameters(self) -> int:
        return sum(parameter.numel() for parameter in load_encoder(self.config.model).model.parameters())

    @cached_property
    def folder(self) -> Path:
        """The model as a sentence-transformers folder."""
        return with_cls_pooling(self.config.model, self.scratch / "model")


def run_benchmark(config: BenchmarkConfig) -> list[Timing]:
    """Measure what was asked for; writes the figures where asked.

    Raises:
        InputError: when there is no such model, text or device.
    """
    device = choose_device(config.device)
    found: list[Timing] = []
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(config, device, short_texts(config.data), Path(scratch))
        for name in config.measures or MEASURES:
            for comparison in _MEASURES[name](bench):
                found.append(take_turns(comparison, config.rounds))
                if config.output:  # after each, so that an interrupted run leaves what it has
                    write_json(Path(config.output).expanduser(), _record(found, config, device))
        if config.output:  # once more: some facts come after the last round
            write_json(Path(config.output).expanduser(), _record(found, config, device))
    return found


def _encode(bench: Bench) -> Iterator[Comparison]:
    precision = "fp16" if bench.is_gpu else "float32"
    kinds = {"short sentences": repeated(bench.texts, bench.count), "4 to 128 tokens": mixed_texts(bench.texts, bench.count)}
    folder = bench.folder
    for kind, texts in kinds.items():
        comparison = compare_encoding(
            f"encode {precision}, {kind}",
            texts,
            model=folder,
            device=bench.device,
            scratch=bench.scratch,
            precision=precision,
        )
        yield comparison
        comparison.facts.update(difference(bench.scratch))


def _encode_int8(bench: Bench) -> Iterator[Comparison]:
    if bench.is_gpu:
        logger.info("encode-int8: int8 is for a CPU, and left out (--device cpu measures it)")
        return
    python = bench.config.peer_python
    kinds = {
        "short sentences": repeated(bench.texts, bench.count),
        "4 to 128 tokens": mixed_texts(bench.texts, max(1, bench.count // 4)),
    }
    folder = bench.folder
    with OpenvinoPeer(python, model=folder, texts=bench.texts, scratch=bench.scratch) if python else nullcontext() as peer:
        for kind, texts in kinds.items():
            comparison = compare_int8(f"encode int8, {kind}", texts, model=folder, scratch=bench.scratch, peer=peer)
            yield comparison
            comparison.facts.update(cosines(bench.scratch))


def _training_step(bench: Bench) -> Iterator[Comparison]:
    yield compare_steps(
        bench.texts,
        model=bench.config.model,
        device=bench.device,
        steps=bench.steps,
        peer_steps=bench.peer_steps,
        scratch=bench.scratch,
    )


def _run(bench: Bench) -> Iterator[Comparison]:
    if not bench.is_gpu and not bench.config.full:
        logger.info("run: a whole run takes long on this device, and is left out without --full")
        return
    yield compare_runs(
        bench.texts,
        dev_file(bench.config.data),
        model=bench.config.model,
        device=bench.device,
        scratch=bench.scratch,
        steps=bench.config.steps,
    )


def _memory(bench: Bench) -> Iterator[Comparison]:
    fewer, more = (100_000, 1_000_000) if bench.config.full else (10_000, 100_000)
    yield compare_memory(bench.texts, fewer=fewer, more=more, scratch=bench.scratch)


def _start(bench: Bench) -> Iterator[Comparison]:
    yield compare_starts(bench.texts, model=bench.folder, scratch=bench.scratch)


_MEASURES: dict[str, Callable[[Bench], Iterator[Comparison]]] = {
    "encode": _encode,
    "encode-int8": _encode_int8,
    "training-step": _training_step,
    "run": _run,
    "memory": _memory,
    "start": _start,
}
"""What each of ``config.MEASURES`` compares."""


def _record(timings: list[Timing], config: BenchmarkConfig, device: torch.device) -> dict[str, Any]:
    return {
        "comparisons": [
            {
                **asdict(timing),
                "ratios": {peer: round(timing.ratio(peer), 3) for peer in list(timing.costs)[1:]},
            }
            for timing in timings
        ],
        "settings": {name: value for name, value in asdict(config).items() if name not in ("output", "peer_python", "data")},
        "environment": describe_environment(str(device)),
    }


def as_text(timings: list[Timing]) -> str:
    """A table: medians, and how many times as much each peer costs."""
    lines = [f"{'':44}{'median':>12}{'rounds':>24}{'ratio':>8}{'of a round':>16}"]
    for timing in timings:
        lines.append(f"{timing.what} ({timing.unit})")
        for name, costs in timing.costs.items():
            spread = f"{min(costs):.4g} to {max(costs):.4g}"
            low, high = timing.ratio_range(name)
            ratio = "" if name == timing.ours else f"{timing.ratio(name):8.2f}{f'{low:.2f} to {high:.2f}':>16}"
            lines.append(f"  {name:42}{timing.median(name):12.4g}{spread:>24}{ratio}")
        lines += [f"  {name}: {value}" for name, value in timing.facts.items()]
    return "\n".join(lines) + "\n"
