"""The output folder: what may be written where, and what is written when a run is done."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfguide.embedders.pca import PcaEmbedder
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import atomic_folder, check_can_write, read_json, write_json, write_json_lines
from selfguide.report.run import write_run_page
from selfguide.scores import ScoreRow
from selfguide.training.artefacts import Artefacts
from selfguide.training.card import RunSummary, summary_as_json, write_card

TRACKER_PROJECT = "selfguide"
"""Name of our runs in a tracker; TensorBoard makes it a folder beside the checkpoints."""


def checkpoint_folder(output: Path) -> Path:
    """Where the checkpoints of an unfinished run lie."""
    return output.with_name(output.name + ".checkpoints")


def check_output(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Make sure that the run may write to ``output``; nothing is written yet.

    Raises:
        InputError: when something is there already that would be lost, or the place cannot be written to.
    """
    if resume and overwrite:
        raise InputError("--resume and --overwrite were both given; choose one: to go on with a run, or to start anew")
    if output.name in ("", ".."):
        raise InputError(f"the output '{output}' has no name of its own; give the folder a name, as in 'my-encoder'")
    _check_finished(output, resume=resume, overwrite=overwrite)
    _check_unfinished(output, resume=resume, overwrite=overwrite)
    check_can_write(output)


def _check_finished(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse to take the place of anything but an earlier run, and of that only when asked."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not is_run(output):
        raise InputError(
            f"the output '{output}' exists already and is not a run of selfguide, so it is left alone; choose another folder"
        )
    if not resume and not overwrite:
        raise InputError(
            f"the output '{output}' holds a finished run already; choose another folder, or --overwrite to replace that run"
        )


def _check_unfinished(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse to drop an unfinished run unless asked, and whatever else lies where the checkpoints go."""
    checkpoints = checkpoint_folder(output)
    if resume and not has_checkpoint(output):
        state = "is finished" if is_run(output) else "was never begun"
        raise InputError(f"there is nothing to resume: '{checkpoints}' holds no checkpoint, the run of '{output}' {state}")
    if resume or not checkpoints.exists():
        return
    if not _is_begun_run(checkpoints):
        raise InputError(
            f"checkpoints would go to '{checkpoints}', which holds something else; move that away or choose another --output"
        )
    if has_checkpoint(output) and not overwrite:
        raise InputError(
            f"'{checkpoints}' holds an unfinished run; use --resume to go on with it or --overwrite to start anew"
        )


def begin_output(output: Path, description: dict[str, Any]) -> None:
    """Make the checkpoint folder of a new run and note what the run is; what an earlier run left there goes."""
    folder = checkpoint_folder(output)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_json(folder / "config.json", description)


def has_checkpoint(output: Path) -> bool:
    """Whether an unfinished run can go on."""
    return any(checkpoint_folder(output).glob("step-*"))


def is_run(folder: Path) -> bool:
    """Whether a folder is the output of a finished run."""
    return (folder / "selfguide" / "config.json").is_file()


def _is_begun_run(checkpoints: Path) -> bool:
    """Whether a folder is what ``begin_output`` made, and not somebody else's."""
    if not checkpoints.is_dir():
        return False
    if not any(checkpoints.iterdir()):
        return True
    try:
        return {"config", "fingerprint"} <= set(read_json(checkpoints / "config.json"))
    except (OSError, ValueError, TypeError):
        return False


def write_output(
    output: Path,
    encoder: Encoder,
    summary: RunSummary,
    *,
    small: PcaEmbedder | None,
    logs: Path,
    environment: dict[str, Any],
    scores: list[ScoreRow],
    artefacts: Artefacts,
) -> None:
    """Write the encoder, its card and the record of the run, of which ``logs`` holds some; all or nothing.

    With ``small`` the vectors of the folder are those of that embedder.
    """
    anchor = summary.config.anchor
    with atomic_folder(output) as folder:
        save_encoder(encoder, folder, pooling=anchor, dense=small.dense() if small else None)
        write_card(folder, summary)
        record = folder / "selfguide"
        record.mkdir()
        write_json(record / "config.json", asdict(summary.config))
        write_json(record / "summary.json", summary_as_json(summary))
        write_json(record / "environment.json", environment)
        write_json_lines(record / "scores.jsonl", [row.as_json() for row in scores])
        shutil.copy(logs / "metrics.jsonl", record / "metrics.jsonl")
        if (logs / TRACKER_PROJECT).is_dir():  # TensorBoard's
            shutil.copytree(logs / TRACKER_PROJECT, record / "tensorboard")
        artefacts.write(record, small or PooledEmbedder(encoder, pooling=anchor))
        write_run_page(record)
