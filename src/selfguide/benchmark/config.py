"""The settings of ``selfguide benchmark``; imports nothing heavy, so that ``--help`` is quick."""

from dataclasses import dataclass
from typing import final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, flag_of, setting, with_hint

MEASURES = ("encode", "encode-int8", "training-step", "run", "memory", "start")


@final
@dataclass(frozen=True)
class BenchmarkConfig:
    """What is measured, with which model and text, and how often."""

    measures: tuple[str, ...] = setting((), f"what to measure: {', '.join(MEASURES)} (default: all)", metavar="NAME")
    model: str = setting("mini", "encoder: a hub name, a local folder, or 'mini' (the bundled one)")
    data: str | None = setting(
        None, "folder that holds sts/STS-B, whose sentences are used (default: the bundled sentences)", metavar="DIR"
    )
    sentences: int | None = setting(None, "sentences to encode (default: what takes seconds; with --full 100,000)")
    steps: int | None = setting(None, "our training steps in a round (default: what takes seconds)")
    rounds: int = setting(3, "rounds, in each of which all take their turn")
    full: bool = setting(False, "all sentences and lines, also where that takes long")
    peer_python: str | None = setting(
        None, "Python of an environment with sentence-transformers and its OpenVINO, for encode-int8", metavar="F"
    )
    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    output: str | None = setting(None, "JSON file for the figures", metavar="F")

    def __post_init__(self) -> None:
        problems = list(check_values(self).values())
        problems += [
            f"measure {with_hint(name, MEASURES)} is not known; choose from: {', '.join(MEASURES)}"
            for name in self.measures
            if name not in MEASURES
        ]
        if not problems:
            problems += [
                f"{flag_of(name)} is {value}; it must be 1 or more"
                for name in ("sentences", "steps", "rounds")
                if (value := getattr(self, name)) is not None and value < 1
            ]
        if problems:
            raise InputError("; ".join(problems))
