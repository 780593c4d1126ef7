"""``selfguide evaluate``: a model in, score rows out."""

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from selfguide.choices import LEARNING_EMBEDDERS
from selfguide.data.sentences import Sentences, read_sentences
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.embedders.sentence_transformers import SentenceTransformerEmbedder
from selfguide.embedders.stored import SAMPLE, StoredVectors
from selfguide.errors import InputError, MissingDataError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import choose_glue
from selfguide.evaluation.glue import glue_scores
from selfguide.evaluation.layer_sweep import sweep_layers
from selfguide.evaluation.score_file import ScoreFile
from selfguide.evaluation.suite import plan_tasks, run_suite
from selfguide.progress import progress_on
from selfguide.scores import ScoreRow
from selfguide.settings import as_setting, unknown_names

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)

_LISTS = ("tasks", "pairs", "fit_on")
"""Settings that may also be a single text."""
_OF_LOADING = ("embedder", "layer", "pooling", "dimensions", "template", "max_length", "revision", "trust_remote_code")
"""Settings that say how a model is loaded, and nothing about one that is loaded already."""


@final
@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation."""

    rows: list[ScoreRow]
    missing: Mapping[str, str]
    """Data set that could not be scored -> why."""


def evaluate(
    model: "str | Path | Embedder | SentenceTransformer" = "mini",
    *,
    progress: bool = True,
    **settings: Any,  # noqa: ANN401 - the fields of EvaluationConfig, checked by name
) -> list[ScoreRow]:
    """Score a model on STS and other tasks.

    Args:
        model: A folder, a hub name, a word-vector file, ``mini`` (the bundled encoder), a ``SentenceTransformer``, or any
            object with ``name``, ``protocol`` and ``encode(sentences)`` (:class:`selfguide.embedders.protocol.Embedder`).
        progress: Show a bar on stderr, where that is a terminal.
        settings: Any other field of :class:`selfguide.evaluation.config.EvaluationConfig`, such as ``tasks=("sts",)``,
            ``data="DIR"``, ``embedder="mean"`` or ``output="scores.jsonl"``; ``tasks`` and ``pairs`` may be a single text.

    Returns:
        One row a number, in the order of the tables. A data set that is missing is told by a warning.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    problems = unknown_names(settings, EvaluationConfig, "in the arguments")
    if problems:
        raise InputError("; ".join(problems))
    given: dict[str, Any] = {
        name: _as_tuple(value) if name in _LISTS else as_setting(value) for name, value in settings.items()
    }
    embedder = None if isinstance(model, str | Path) else _as_embedder(model)
    config = EvaluationConfig(model=embedder.name if embedder else str(model), **given)
    if embedder is not None:
        _check_for_object(config)
    evaluation = run_evaluation(config, embedder=embedder, progress=progress)
    for reason in evaluation.missing.values():
        logger.warning("not scored: %s", reason)
    return evaluation.rows


def run_evaluation(config: EvaluationConfig, *, embedder: Embedder | None = None, progress: bool = True) -> Evaluation:
    """Read the data, load the embedder unless it is given, and score it.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    planned, missing = plan_tasks(config)
    if planned and embedder is None:  # what cannot be loaded is told before a long fine-tuning
        embedder = load_configured(config)
    elif embedder is not None and config.is_stored:
        embedder = _as_stored(embedder, config)
    rows, lacking = _glue_rows(config, is_rest_planned=bool(planned), progress=progress)
    missing = {**missing, **lacking}
    if not planned or embedder is None:
        return Evaluation(rows, missing)
    if config.output and Path(config.output).expanduser().is_file() and not config.recompute:
        logger.info("rows that '%s' already holds are taken from it; --recompute scores them again", config.output)
    began = time.monotonic()
    with progress_on(sys.stderr, "embedding", enabled=progress) as on_progress:
        if not config.sweep:
            rows += run_suite(embedder, planned, config, on_progress=on_progress)
        elif isinstance(embedder, PooledEmbedder):
            rows += sweep_layers(embedder, planned, config, on_progress=on_progress)
        else:
            raise InputError(f"a sweep goes through the layers of an encoder; '{embedder.name}' is not a pooled one")
    logger.info("%s: %d tasks in %.1f s, once loaded", embedder.name, len(planned), time.monotonic() - began)
    return Evaluation(rows, missing)


def _glue_rows(config: EvaluationConfig, *, is_rest_planned: bool, progress: bool) -> tuple[list[ScoreRow], dict[str, str]]:
    """Rows of the GLUE tasks asked for, each by fine-tuning a copy of the encoder; and the tasks whose data is missing."""
    rows: list[ScoreRow] = []
    missing: dict[str, str] = {}
    file = ScoreFile(Path(config.output) if config.output else None)
    tasks = choose_glue(config.task_names)
    if tasks and config.is_stored:
        raise InputError(
            f"{', '.join(tasks)} fine-tunes an encoder and has no vectors; leave --vectors and --truncate-dim out"
        )
    if tasks and config.sweep:
        raise InputError(f"a sweep is for STS; {', '.join(tasks)} would fine-tune every layer")
    for task in tasks:
        known = () if config.recompute else file.rows()
        try:
            found = _fine_tuned(task, config, known, progress=progress)
        except MissingDataError as error:
            missing[task] = str(error)
            continue
        file.add(found)
        rows += found
    if missing and not rows and not is_rest_planned:
        raise InputError(f"none of the data sets is there: {'; '.join(missing.values())}")
    return rows, missing


def _fine_tuned(task: str, config: EvaluationConfig, known: Sequence[ScoreRow], *, progress: bool) -> list[ScoreRow]:
    """Rows of one GLUE task; a bar goes from start to end for every training."""
    with progress_on(sys.stderr, f"fine-tuning on {task}", unit="steps", enabled=progress) as on_progress:
        return glue_scores(
            config.model,
            [task],
            data=Path(config.data).expanduser() if config.data else None,
            seeds=[config.seed],
            device=config.device,
            max_length=config.max_length or 128,
            revision=config.revision,
            trust_remote_code=config.trust_remote_code,
            embedder=config.name,
            known=known,
            progress=lambda what, step, steps: on_progress(step, steps),
        )


def load_configured(config: EvaluationConfig) -> Embedder:
    """The embedder that a configuration names, its vectors as they are to be stored.

    Raises:
        InputError: when there is no such model or embedder, or the model is broken.
    """
    # int8 vectors take their scale from the text, also where the embedder itself has nothing to learn
    is_for_embedder = bool(config.fit_on) and (config.vectors != "int8" or config.embedder in LEARNING_EMBEDDERS)
    embedder = load_embedder(
        config.model,
        embedder="cls" if config.sweep else config.embedder,
        layer=config.layer,
        parameters=config.embedder_parameters,
        read_text=partial(_fitting_text, config) if is_for_embedder else None,
        device=config.device,
        max_length=config.max_length,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
    )
    return _as_stored(embedder, config) if config.is_stored else embedder


def _as_stored(embedder: Embedder, config: EvaluationConfig) -> Embedder:
    sentences = list(islice(iter(_fitting_text(config)), SAMPLE)) if config.vectors == "int8" else None
    return StoredVectors(embedder, vectors=config.vectors, truncate_dim=config.truncate_dim, sentences=sentences)


def _fitting_text(config: EvaluationConfig) -> Sentences:
    return read_sentences([Path(name) for name in config.fit_on])


def _as_tuple(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - what a user gave: a text, a path, or several
    return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))


def _as_embedder(model: Any) -> Embedder:  # noqa: ANN401 - what a user gave
    from sentence_transformers import SentenceTransformer

    if isinstance(model, SentenceTransformer):
        return SentenceTransformerEmbedder(model, name="sentence-transformer")
    lacking = [name for name in ("name", "protocol", "encode") if not hasattr(model, name)]
    if lacking:
        raise InputError(
            f"a {type(model).__name__} cannot be scored: it has no {', '.join(lacking)}; give a folder, a hub name, a "
            "SentenceTransformer, or an object with name, protocol and encode(sentences)"
        )
    embedder: Embedder = model
    return embedder


def _check_for_object(config: EvaluationConfig) -> None:
    """Refuse what has no meaning for a model that is loaded already."""
    defaults = EvaluationConfig()
    names = [name for name in _OF_LOADING if getattr(config, name) != getattr(defaults, name)]
    if config.fit_on and config.vectors != "int8":
        names.append("fit_on")
    if names:
        raise InputError(f"{', '.join(names)} cannot be set for a model that is loaded already; give its folder or name")
    tasks = choose_glue(config.task_names)
    if tasks:
        raise InputError(f"{', '.join(tasks)} fine-tunes an encoder, which is given as a folder or a name")
