"""The settings of ``selfguide encode``; imports nothing heavy, so that ``--help`` is quick."""

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, flag_of, setting

FORMATS = ("npy", "parquet", "jsonl")
"""Each is also the suffix of its files."""
PRECISIONS = ("float32", "bf16", "fp16", "int8")


@final
@dataclass(frozen=True)
class EncodeConfig:
    """Which sentences become vectors, by which model, and in which file."""

    model: str = setting("mini", "a folder, a hub name, or 'mini' (the bundled encoder)")
    embedder: str | None = setting(None, "how to read the model, as in evaluate (default: what the model is, else cls)")
    data: tuple[str, ...] = setting((), "sentences: files, folders, '-' for standard input, or a hub dataset", metavar="F")
    output: str = setting("", "file for the vectors: .npy, .parquet or .jsonl", metavar="F")
    format: str | None = setting(None, "what is written (default: by the suffix of --output)", choices=FORMATS)
    precision: str = setting("float32", "that the model computes in", choices=PRECISIONS)
    vectors: str = setting("float32", "what is stored: float32, int8 (4 times less) or binary (32)", choices=choices.VECTORS)
    scale_of: str | None = setting(None, "int8: the scale of an earlier encoding, as for queries", metavar="F")
    truncate_dim: int | None = setting(None, "keep only the first dimensions", metavar="K")
    normalize: bool = setting(False, "vectors of length 1")
    shard_size: int = setting(20_000, "sentences that are encoded, then stored, at a time")
    batch_tokens: int | None = setting(None, "tokens in the model at once (default: by device)")

    column: tuple[str, ...] = setting((), "text columns of --data: names, or numbers for a file without header")
    split: str = setting("train", "split of a hub dataset")
    max_length: int | None = setting(None, "longest input in tokens (default: what the model says, or 128)")
    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    revision: str | None = setting(None, "commit, tag or branch of a hub model")
    trust_remote_code: bool = setting(False, "run code that comes with a hub model")

    def __post_init__(self) -> None:
        wrong = check_values(self)
        problems = [*wrong.values(), *_range_problems(self, wrong)]
        if self.scale_of is not None and self.vectors != "int8":
            problems.append(f"--scale-of does not go with --vectors {self.vectors}, which has no scale; it is for int8")
        if not self.output:
            problems.append("no output file was given; name one with --output F.npy")
        elif not wrong and self.file_format not in FORMATS:
            suffixes = ", ".join(f".{name}" for name in FORMATS)
            problems.append(f"the output '{self.output}' ends in none of {suffixes}; choose one, or give --format")
        if problems:
            raise InputError("; ".join(problems))

    @property
    def file_format(self) -> str:
        """What is written: what was asked for, or else what the suffix says."""
        return self.format or Path(self.output).suffix.removeprefix(".")


def _range_problems(config: EncodeConfig, wrong: Container[str]) -> list[str]:
    names = ("truncate_dim", "shard_size", "batch_tokens", "max_length")
    values = {name: getattr(config, name) for name in names if name not in wrong}
    return [
        f"{flag_of(name)} is {value}; it must be 1 or more"
        for name, value in values.items()
        if value is not None and value < 1
    ]
