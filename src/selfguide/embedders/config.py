"""The settings of ``selfguide fit``; imports nothing heavy, so that ``--help`` is quick."""

from dataclasses import dataclass
from typing import Any, final

from selfguide import choices
from selfguide.errors import InputError
from selfguide.settings import check_values, setting


@final
@dataclass(frozen=True)
class FitConfig:
    """Which embedder learns from which text, and where it is saved."""

    model: str = setting("mini", "encoder: a hub name, a local folder, or 'mini' (the bundled one)")
    embedder: str = setting("whitening", "what to fit", choices=choices.LEARNING_EMBEDDERS)
    data: tuple[str, ...] = setting((), "sentences: files, folders, '-' for standard input, or a hub dataset", metavar="F")
    output: str = setting("", "folder for the fitted embedder", metavar="DIR")

    pooling: str | None = setting(
        None, "pooling that it works on (default: first-last, the mean of layers 1 and l; of pca, the model's own)"
    )
    dimensions: int | None = setting(None, "whitening, pca: dimensions to keep (default: all)")
    epochs: int | None = setting(None, "flow: passes over the sentences (default: 1)")
    batch_size: int | None = setting(None, "flow: sentences in a batch (default: 32)")
    learning_rate: float | None = setting(None, "flow: learning rate (default: 0.001)")
    seed: int | None = setting(None, "flow: seed of weights and order (default: 1)")

    column: tuple[str, ...] = setting((), "text columns of --data: names, or numbers for a file without header")
    split: str = setting("train", "split of a hub dataset")
    deduplicate: bool = setting(True, "drop sentences that occur again")
    max_length: int | None = setting(None, "longest input in tokens (default: flow 64, others 128)")
    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    revision: str | None = setting(None, "commit, tag or branch of a hub model")
    trust_remote_code: bool = setting(False, "run code that comes with a hub model")

    def __post_init__(self) -> None:
        problems = list(check_values(self).values())
        if not self.data:
            problems.append("no sentences were given; name a file with --data F")
        if not self.output:
            problems.append("no output folder was given; name one with --output DIR")
        if problems:
            raise InputError("; ".join(problems))

    @property
    def parameters(self) -> dict[str, Any]:
        """What was said about the embedder."""
        names = ("pooling", "dimensions", "epochs", "batch_size", "learning_rate", "seed")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
