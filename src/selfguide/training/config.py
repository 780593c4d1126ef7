"""The configuration of a training run and the presets; imports nothing heavy, so that ``--help`` is quick."""

import dataclasses
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, final

from selfguide import choices
from selfguide.encoders.template import split_template
from selfguide.errors import InputError
from selfguide.settings import check_values, flag_of, setting, unknown_names

STEPS_WITHOUT_LABELS = 300
"""With no labelled pairs nothing can tell the best step; the dev score of the paper's runs is near its best by then."""


@final
@dataclass(frozen=True)
class TrainingConfig:
    """Everything that determines a run. The defaults are the paper's recipe (its table 8), but for repeated sentences."""

    model: str = setting("mini", "encoder to start from: a hub name, a local folder, or 'mini' (the bundled one)")
    data: tuple[str, ...] = setting((), "sentences: files, folders, '-' for standard input, or a hub dataset", metavar="F")
    output: str = setting("", "folder for the trained encoder", metavar="DIR")
    preset: str | None = setting(
        None, "recipe to start from", choices=("paper", "released", "simcse", "senteval", "prompted")
    )
    objective: str = setting("sg-opt", "what is minimised", choices=choices.OBJECTIVES)
    dev: str | None = setting(None, "labelled pairs (tsv, csv, jsonl) that select the checkpoint", metavar="PAIRS")
    seed: int = setting(1, "seed of the run")

    column: tuple[str, ...] = setting((), "text columns of --data: names, or numbers for a file without header")
    split: str = setting("train", "split of a hub dataset")
    deduplicate: bool = setting(True, "drop sentences that occur again (--preset paper keeps them)")
    paraphrases: str | None = setting(None, "two columns, sentence and paraphrase: for bt and bt+sg-opt", metavar="F")
    max_length: int | None = setting(None, "longest input in tokens (default: 128, or what the encoder has)")

    steps: int | None = setting(None, f"training steps (default: --epochs; without --dev {STEPS_WITHOUT_LABELS} steps)")
    epochs: int | None = setting(None, "passes over the data (default: 1)")
    batch_size: int = setting(16, "sentences in a batch; each is a negative for the others")
    accumulation: int = setting(1, "batches whose gradients are added up before a step")
    learning_rate: float = setting(5e-5, "highest learning rate")
    beta1: float = setting(0.9, "AdamW: decay of the mean of gradients")
    beta2: float = setting(0.9, "AdamW: decay of the mean of squared gradients")
    weight_decay: float = setting(0.01, "AdamW: weight decay, not on biases and norms")
    warmup: float = setting(0.1, "share of the steps over which the learning rate rises; then it falls linearly to 0")
    clip: float = setting(1.0, "largest norm of the gradient; 0 for no limit")

    temperature: float = setting(0.01, "temperature of the cosines")
    distance_weight: float = setting(0.1, "weight of the squared distance between encoder and guide")
    pooling: str = setting("max", "pooling of the guide's layers into views", choices=choices.POOLINGS)
    layers: str = setting("all", "layers of the guide that are views: 'all', '4-', '0-6' or '0,1,12' (0: embeddings)")
    anchor: str = setting("cls", "pooling of the encoder's last layer into the embedding", choices=choices.POOLINGS)
    template: str | None = setting(
        None, "what the encoder reads: text with {sentence}, {mask} and {cls} (default: the sentence)", metavar="TEXT"
    )
    dimensions: int | None = setting(
        None, "of the saved vectors, cut by PCA of the training sentences (default: what the encoder has)"
    )
    projection: str = setting("mlp", "head on anchors and views while training", choices=choices.PROJECTIONS)
    projection_width: int = setting(4096, "width of the mlp projection")
    freeze_embeddings: bool = setting(True, "leave layer 0 of the encoder as it is")
    guide_dropout: bool = setting(False, "run the guide with dropout, anew each step")
    simcse_weight: float = setting(0.0, "weight of SimCSE's loss beside the objective")
    mask_duplicates: bool = setting(True, "identical sentences of a batch are not each other's negatives")

    score_every: int = setting(50, "steps between scores on --dev")
    patience: int = setting(10, "scores without a new best before stopping; 0 for never")
    checkpoint_every: int = setting(0, "steps between checkpoints; 0 for by time only")
    checkpoint_minutes: float = setting(5.0, "minutes between checkpoints")

    device: str = setting("auto", "where to run", choices=choices.DEVICES)
    precision: str = setting(
        "auto", "precision of the products (auto: bf16 on CUDA, else float32)", choices=choices.PRECISIONS
    )
    view_cache_mb: int = setting(2048, "memory for the guide's views, in MiB")
    revision: str | None = setting(None, "commit, tag or branch of a hub model")
    trust_remote_code: bool = setting(False, "run code that comes with a hub model")
    tracker: str | None = setting(None, "also log to this tracker", choices=choices.TRACKERS)

    def __post_init__(self) -> None:
        wrong = check_values(self)
        problems = [
            *wrong.values(),
            *_range_problems(self, wrong),
            *_conflicts(self, wrong),
            *_template_problems(self, wrong),
        ]
        if problems:
            raise InputError("; ".join(problems))

    @property
    def reads_paraphrases(self) -> bool:
        """Whether the objective needs pairs of sentence and paraphrase."""
        return self.objective.startswith("bt")

    @property
    def uses_guide(self) -> bool:
        """Whether the objective takes views from the guide."""
        return self.objective not in ("simcse", "bt")


OBJECTIVE_SETTINGS: dict[str, dict[str, Any]] = {
    "simcse": {"temperature": 0.05, "projection": "none", "distance_weight": 0.0},
}
"""What an objective changes by its own definition; a preset, a file or a flag may change it again."""

_AS_IN_THE_PAPER = {"deduplicate": False, "mask_duplicates": False}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": _AS_IN_THE_PAPER,
    "released": {**_AS_IN_THE_PAPER, "pooling": "mean", "guide_dropout": True},
    "simcse": {
        "objective": "simcse",
        "batch_size": 64,
        "learning_rate": 3e-5,
        "warmup": 0.0,
        "beta2": 0.999,
        "freeze_embeddings": False,
        "max_length": 32,
        "temperature": 0.05,
        "projection": "tanh",
        "distance_weight": 0.0,
        "score_every": 125,
    },
    "senteval": {**_AS_IN_THE_PAPER, "pooling": "mean", "layers": "4-"},
    "prompted": {**_AS_IN_THE_PAPER, "template": choices.MEANING_TEMPLATE},
}
"""What each preset changes; with none, the paper's recipe with repeated sentences dropped."""


def resolve(given: Mapping[str, Any], from_file: Mapping[str, Any] | None = None) -> TrainingConfig:
    """Put a configuration together: defaults < objective < preset < TOML file < what was given by flag or argument.

    Raises:
        InputError: for unknown names, or values that are not allowed; all of them in one message.
    """
    problems = unknown_names(given, TrainingConfig, "in the arguments")
    known = {field.name for field in dataclasses.fields(TrainingConfig)}
    chosen = {name: value for name, value in {**(from_file or {}), **given}.items() if name in known}
    chosen = {**_settings_of(PRESETS, chosen.get("preset")), **chosen}
    chosen = {**_settings_of(OBJECTIVE_SETTINGS, chosen.get("objective")), **chosen}
    try:
        config = TrainingConfig(**chosen)
    except InputError as error:
        problems.append(str(error))
    if problems:
        raise InputError("; ".join(problems))
    return config


def _settings_of(table: Mapping[str, dict[str, Any]], name: object) -> dict[str, Any]:
    """What a name stands for; nothing for one that is not known, which the check of all values will tell."""
    return table.get(name, {}) if isinstance(name, str) else {}


def changed_settings(config: TrainingConfig) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    }


_AT_LEAST = {
    "steps": 1,
    "epochs": 1,
    "batch_size": 2,
    "accumulation": 1,
    "score_every": 1,
    "patience": 0,
    "max_length": 3,
    "projection_width": 1,
    "dimensions": 1,
    "weight_decay": 0,
    "clip": 0,
    "distance_weight": 0,
    "simcse_weight": 0,
    "checkpoint_every": 0,
    "checkpoint_minutes": 0,
    "view_cache_mb": 1,
}
_HIGHEST_SEED = 2**32 - 1
"""What the generators of all libraries take."""

_RANGES: dict[str, tuple[float, float, str]] = {
    **{name: (least, math.inf, f"{least} or more") for name, least in _AT_LEAST.items()},
    **dict.fromkeys(("learning_rate", "temperature"), (math.ulp(0.0), math.inf, "greater than 0")),
    **dict.fromkeys(("beta1", "beta2", "warmup"), (0, math.nextafter(1, 0), "from 0 to below 1")),
    "seed": (0, _HIGHEST_SEED, f"from 0 to {_HIGHEST_SEED}"),
}
"""Lowest and highest value, and both in words."""


def _range_problems(config: TrainingConfig, wrong: Container[str]) -> list[str]:
    """What is out of range, of the settings that are not wrong in themselves."""
    values = {name: getattr(config, name) for name in _RANGES if name not in wrong}
    return [
        f"{flag_of(name)} is {value}; it must be {_RANGES[name][2]}"
        for name, value in values.items()
        if value is not None and not _RANGES[name][0] <= value <= _RANGES[name][1]
    ]


def _conflicts(config: TrainingConfig, wrong: Container[str]) -> list[str]:
    """Settings that do not go together; not looked for while one of them is wrong in itself."""
    if any(name in wrong for name in ("steps", "epochs", "objective", "paraphrases", "data", "simcse_weight")):
        return []
    problems = []
    if config.steps and config.epochs:
        problems.append("--steps and --epochs were both given; choose one")
    if config.reads_paraphrases != (config.paraphrases is not None):
        problems.append(
            f"--objective {config.objective} and --paraphrases go together: bt and bt+sg-opt need it, others not"
        )
    if config.paraphrases and config.data:
        problems.append("--data and --paraphrases were both given; the sentences of --paraphrases are the training data")
    if config.objective == "simcse" and config.simcse_weight:
        problems.append("--simcse-weight adds SimCSE's loss to another objective; --objective simcse has it already")
    return problems


def _template_problems(config: TrainingConfig, wrong: Container[str]) -> list[str]:
    """A template that is none, or that leaves no fixed first token to an anchor that reads it."""
    if config.template is None or "template" in wrong:
        return []
    try:
        before, _ = split_template(config.template)
    except InputError as error:
        return [str(error)]
    if before or config.anchor != "cls":
        return []
    return [
        f"--template '{config.template}' begins with the sentence, and --anchor cls reads the first token; "
        "begin with {mask}, {cls} or a word, or choose another anchor"
    ]
