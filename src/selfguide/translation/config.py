"""The settings of a back-translation; imports nothing heavy, so that ``--help`` is quick."""

from collections.abc import Container
from dataclasses import dataclass
from typing import final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, flag_of, setting

_THERE_AND_BACK = {
    "neural": ("de", "facebook/wmt19-en-{}", "facebook/wmt19-{}-en"),
    "apertium": ("spa", "eng-{}", "{}-eng"),
}
"""Of each engine: the usual pivot language, and what translates to it and back."""

_AT_ONCE = {"neural": 256, "apertium": 2000}
"""Sentences between two times of storing: seconds of work, and enough of it to make up for starting apertium."""

_AT_LEAST = {"beam": 1, "max_length": 3, "batch_size": 1, "batch_tokens": 1}


@final
@dataclass(frozen=True)
class BacktranslationConfig:
    """What is translated, and how. The defaults are the paper's models with a beam that is quicker than its 100."""

    data: tuple[str, ...] = setting((), "sentences: files, folders, '-' for standard input, or a hub dataset", metavar="F")
    output: str = setting("", "file for sentences and paraphrases, .tsv or .jsonl", metavar="F")
    engine: str = setting("neural", "models of transformers, or the rule-based apertium", choices=choices.ENGINES)
    pivot: str | None = setting(None, "language between (default: de; with apertium spa)", metavar="LANGUAGE")
    forward: str | None = setting(
        None, "model to the pivot, a hub name or a folder; with apertium a mode (default: facebook/wmt19-en-de; eng-spa)"
    )
    backward: str | None = setting(None, "the same for the way back (default: facebook/wmt19-de-en; spa-eng)")
    beam: int = setting(5, "beams of the search for a translation; the paper has 100 (neural)")
    max_length: int = setting(256, "longest sentence and translation in tokens; the rest is cut (neural)")

    column: tuple[str, ...] = setting((), "text columns of --data: names, or numbers for a file without header")
    split: str = setting("train", "split of a hub dataset")
    cache: str | None = setting(None, "folder that keeps translations (default: the name of --output with .cache)")
    batch_size: int | None = setting(
        None, "sentences that are translated, then stored, at a time (default: 256; with apertium 2000)"
    )
    batch_tokens: int | None = setting(None, "tokens times beams in the model at once (default: by device; neural)")
    device: str = setting("auto", "where to run", choices=choices.DEVICES)

    def __post_init__(self) -> None:
        wrong = check_values(self)
        problems = [*wrong.values(), *_range_problems(self, wrong)]
        if not any(name in wrong for name in ("pivot", "forward", "backward")):
            problems += _conflicts(self)
        if problems:
            raise InputError("; ".join(problems))

    @property
    def translators(self) -> tuple[str, str]:
        """Names of what translates there, and back."""
        usual, forward, backward = _THERE_AND_BACK[self.engine]
        pivot = self.pivot or usual
        return self.forward or forward.format(pivot), self.backward or backward.format(pivot)

    @property
    def sentences_at_once(self) -> int:
        """Sentences that are translated, then stored, at a time."""
        return self.batch_size or _AT_ONCE[self.engine]


def _range_problems(config: BacktranslationConfig, wrong: Container[str]) -> list[str]:
    values = {name: getattr(config, name) for name in _AT_LEAST if name not in wrong}
    return [
        f"{flag_of(name)} is {value}; it must be {_AT_LEAST[name]} or more"
        for name, value in values.items()
        if value is not None and value < _AT_LEAST[name]
    ]


def _conflicts(config: BacktranslationConfig) -> list[str]:
    if (config.forward is None) != (config.backward is None):
        return ["--forward and --backward go together: what goes to a language must come back from the same"]
    if config.pivot and config.forward:
        return ["--pivot chooses both translators, --forward and --backward name them; give the one or the others"]
    return []
