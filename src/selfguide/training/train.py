"""``selfguide train``: from sentences and an encoder to a better encoder."""

import dataclasses
import hashlib
import json
import logging
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfguide.data.pairs import ScoredPairs, read_pairs
from selfguide.devices import choose_device
from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.loading import BUNDLED, load_encoder
from selfguide.encoders.template import with_template
from selfguide.environment import describe_environment
from selfguide.errors import InputError
from selfguide.files import only_one, read_json
from selfguide.scores import ScoreRow
from selfguide.settings import as_setting
from selfguide.similarity import paired_cosines, spearman
from selfguide.training.artefacts import Artefacts
from selfguide.training.assembly import Run, Score
from selfguide.training.card import RunSummary
from selfguide.training.config import TrainingConfig, resolve
from selfguide.training.devices import accelerated, check_tracker, choose_precision
from selfguide.training.output import begin_output, check_output, checkpoint_folder, write_output
from selfguide.training.progress import Progress, Silent, progress_for
from selfguide.training.reduction import check_reduction, reduced
from selfguide.training.text import TrainingText, read_text

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)


def train(
    model: str | Path = "mini",
    data: str | Path | Iterable[str | Path] | None = None,
    output: str | Path = "",
    *,
    score: Score | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,  # noqa: ANN401 - the fields of TrainingConfig, checked by name
) -> "SentenceTransformer":
    """Train an encoder on raw sentences and save it as a sentence-transformers folder.

    Args:
        model: Encoder to start from: a hub name, a local folder, or ``mini`` (the bundled one).
        data: A path, a list of paths (as ``Path``), a hub dataset name, an iterable of sentences, or a ``datasets.Dataset``.
        output: Folder for the trained encoder.
        score: Called every ``score_every`` steps with an embedder (``encode(sentences) -> array``) in place of ``dev``; the
            step with the highest value is kept.
        resume: Go on with the interrupted run of ``output``.
        overwrite: Replace an earlier run in ``output``.
        progress: Show progress on stderr.
        settings: Any other field of :class:`selfguide.training.config.TrainingConfig`, such as ``preset="paper"``.

    Returns:
        The trained model, loaded from ``output``.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    from sentence_transformers import SentenceTransformer

    given = {"model": str(model), "output": str(output), **{name: as_setting(value) for name, value in settings.items()}}
    if resume and model == BUNDLED:
        given.pop("model")  # the default, so perhaps not asked for: the interrupted run knows its model
    if isinstance(data, str | Path):
        given["data"] = (str(data),)
    summary = run_training(
        given,
        source=None if isinstance(data, str | Path) else data,
        score=score,
        resume=resume,
        overwrite=overwrite,
        progress=progress_for(sys.stderr) if progress else Silent(),
    )
    return SentenceTransformer(str(Path(output).expanduser()), trust_remote_code=summary.config.trust_remote_code)


def run_training(
    given: Mapping[str, Any],
    *,
    from_file: Mapping[str, Any] | None = None,
    source: Any = None,  # noqa: ANN401 - whatever read_sentences takes
    score: Score | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress,
) -> RunSummary:
    """Do a whole run; the command line and :func:`train` both come here."""
    config = resolve(given, from_file)
    if not config.output:
        raise InputError("no output folder was given; name one with --output DIR")
    output = Path(config.output).expanduser()
    check_output(output, resume=resume, overwrite=overwrite)
    if resume:
        config = _stored_config(output, {**(from_file or {}), **given})
    device = choose_device(config.device)
    precision = choose_precision(config.precision, device)
    check_tracker(config.tracker)
    text = read_text(config, source)
    pairs = read_pairs(config.dev) if config.dev else None
    encoder = _load(config)
    check_reduction(config, text.sentences, encoder)
    with (
        accelerated(config, device, precision, checkpoint_folder(output)) as accelerator,
        only_one(output) if accelerator.is_main_process else nullcontext(),
    ):
        is_main = accelerator.is_main_process
        if is_main:
            check_output(output, resume=resume, overwrite=overwrite)  # once more, as another run may have ended since
        shown = progress if is_main else Silent()
        run = Run(config, text, encoder, accelerator, precision=precision, pairs=pairs, score=score, progress=shown)
        description = {"config": asdict(config), "fingerprint": text.fingerprint, "scored_by": _scored_by(pairs, score)}
        if resume:
            _check_same(output, description)
        elif is_main:
            begin_output(output, description)
        accelerator.wait_for_everyone()  # the folder is there
        # also when a run goes on: the checkpoint is not loaded yet
        artefacts = Artefacts(PooledEmbedder(encoder, pooling=config.anchor), text.sentences, pairs) if is_main else None
        summary = run.train(resume=resume)
        accelerator.wait_for_everyone()  # nobody reads in it any more
        if artefacts is not None:
            small = reduced(config, text.sentences, encoder)
            if small is not None:
                summary = dataclasses.replace(summary, dim=small.kept, after_cut=_score_of(small, pairs, score))
            write_output(
                output,
                encoder,
                summary,
                small=small,
                logs=run.folder,
                environment={**describe_environment(str(device)), "precision": precision},
                scores=_score_rows(config, text, pairs, summary),
                artefacts=artefacts,
            )
            shutil.rmtree(run.folder)
        accelerator.wait_for_everyone()  # the encoder can be loaded
    logger.info("the encoder is in '%s'", output)
    return summary


def _load(config: TrainingConfig) -> Encoder:
    """The encoder as it is before training, reading each sentence inside the template where there is one."""
    encoder = load_encoder(
        config.model, max_length=config.max_length, revision=config.revision, trust_remote_code=config.trust_remote_code
    )
    return with_template(encoder, config.template) if config.template else encoder


def _stored_config(output: Path, given: Mapping[str, Any]) -> TrainingConfig:
    """The configuration of the interrupted run; what is given besides must agree with it."""
    path = checkpoint_folder(output) / "config.json"
    try:
        stored: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in read_json(path)["config"].items()
        }
        config = dataclasses.replace(TrainingConfig(**stored), output=str(output))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"'{path}' is damaged ({reason}); delete '{path.parent}' to start anew") from error
    different = [
        f"{name} (was {stored[name]!r}, now {value!r})"
        for name, value in given.items()
        if name in stored and name != "output" and stored[name] != value
    ]
    if different:
        raise InputError(f"--resume goes on with the settings of the interrupted run; these differ: {', '.join(different)}")
    return config


def _score_of(embedder: PcaEmbedder, pairs: ScoredPairs | None, score: Score | None) -> float | None:
    """The dev score of what is saved; none where nothing scores."""
    if score is not None:
        return float(score(embedder))
    if pairs is None:
        return None
    cosines = paired_cosines(embedder.encode(pairs.sentences1), embedder.encode(pairs.sentences2))
    return spearman(cosines, pairs.scores)


def _scored_by(pairs: ScoredPairs | None, score: Score | None) -> str | None:
    """What the dev scores of a run depend on."""
    return pairs.sha256 if pairs else "a function" if score else None


def _check_same(output: Path, description: Mapping[str, Any]) -> None:
    """Refuse to go on with other text or other scores than before."""
    stored = read_json(checkpoint_folder(output) / "config.json")
    names = {"fingerprint": "training sentences", "scored_by": "dev pairs or score function"}
    changed = [what for key, what in names.items() if stored.get(key) != description[key]]
    if changed:
        raise InputError(
            f"--resume needs the same {' and '.join(changed)} as before, and these have changed; --overwrite starts anew"
        )


def _score_rows(
    config: TrainingConfig, text: TrainingText, pairs: ScoredPairs | None, summary: RunSummary
) -> list[ScoreRow]:
    if pairs is None or summary.before is None or summary.after is None:
        return []
    run_id = hashlib.sha256(json.dumps([asdict(config), text.fingerprint], sort_keys=True).encode()).hexdigest()[:12]
    name = Path(config.model).name
    template = {"template": summary.template} if summary.template else {}
    sides: list[tuple[str, float, bool, int, dict[str, int]]] = [
        (config.anchor, summary.before, False, 0, {}),
        (config.objective, summary.after, True, summary.kept_step, {}),
    ]
    if summary.after_cut is not None:
        label = f"{config.objective}-{summary.dim}d"
        sides.append((label, summary.after_cut, True, summary.kept_step, {"dimensions": summary.dim}))
    return [
        ScoreRow(
            embedder=f"{name}/{label}",
            dataset=Path(pairs.source).stem,
            revision=pairs.sha256,
            split="dev",
            metric="spearman",
            value=value,
            seed=config.seed if is_trained else None,
            run_id=run_id,
            protocol={"pooling": config.anchor, **cut, **template, "selected_by_labels": is_trained, "step": step},
        )
        for label, value, is_trained, step, cut in sides
    ]
