"""The settings of ``selfguide export``; imports nothing heavy, so that ``--help`` is quick."""

from dataclasses import dataclass
from typing import final

from selfguide.errors import InputError
from selfguide.settings import check_values, setting

FORMATS = ("onnx", "openvino")
PRECISIONS = ("float32", "int8")
TOLERANCES = {"float32": 1e-4, "int8": 0.01}
"""How far the vectors may be from PyTorch's: the largest difference of two numbers for float32, 1 - mean cosine for int8."""


@final
@dataclass(frozen=True)
class ExportConfig:
    """Which model is written in which format, and how near its vectors must be to PyTorch's."""

    model: str = setting("mini", "a folder, a hub name, or 'mini' (the bundled encoder)")
    embedder: str | None = setting(None, "pooling of an encoder: cls, mean, max .. (default: what the model is, else cls)")
    output: str = setting("", "folder for the exported model", metavar="DIR")
    format: str = setting("onnx", "what is written", choices=FORMATS)
    precision: str = setting("float32", "of the products", choices=PRECISIONS)
    data: tuple[str, ...] = setting((), "your own sentences, to measure on (default: bundled ones)", metavar="F")
    tolerance: float | None = setting(
        None, "largest difference allowed (float32: of any two numbers, 0.0001; int8: 1 - mean cosine, 0.01)"
    )

    column: tuple[str, ...] = setting((), "text columns of --data: names, or numbers for a file without header")
    split: str = setting("train", "split of a hub dataset")
    max_length: int | None = setting(None, "longest input in tokens (default: what the model says, or 128)")
    revision: str | None = setting(None, "commit, tag or branch of a hub model")
    trust_remote_code: bool = setting(False, "run code that comes with a hub model")

    def __post_init__(self) -> None:
        wrong = check_values(self)
        problems = list(wrong.values())
        if not self.output:
            problems.append("no output folder was given; name one with --output DIR")
        if "tolerance" not in wrong and self.tolerance is not None and self.tolerance < 0:
            problems.append(f"--tolerance is {self.tolerance}; it must be 0 or more")
        if problems:
            raise InputError("; ".join(problems))

    @property
    def allowed(self) -> float:
        """The tolerance that was asked for, or that of the precision."""
        return TOLERANCES[self.precision] if self.tolerance is None else self.tolerance
