"""The output folder: what may be written where, and what is written when a run is done."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfguide.encoders.encoder import Encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import atomic_folder, write_json, write_json_lines
from selfguide.scores import ScoreRow
from selfguide.training.card import RunSummary, summary_as_json, write_card


def checkpoint_folder(output: Path) -> Path:
    """Where the checkpoints of an unfinished run lie."""
    return output.with_name(output.name + ".checkpoints")


def check_output(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Make sure that the run may write to ``output``; nothing is written yet.

    Raises:
        InputError: when something is there already that would be lost, or the place cannot be written to.
    """
    checkpoints = checkpoint_folder(output)
    if resume and not has_checkpoint(output):
        state = "is finished" if is_run(output) else "was never begun"
        raise InputError(f"there is nothing to resume: '{checkpoints}' holds no checkpoint, the run of '{output}' {state}")
    if output.exists() and not resume and not (output.is_dir() and not any(output.iterdir())):
        if not overwrite:
            raise InputError(
                f"the output '{output}' exists already; choose another folder, or --overwrite to replace the run in it"
            )
        if not is_run(output):
            raise InputError(
                f"the output '{output}' is not a run of selfguide, so --overwrite leaves it; choose another folder"
            )
    if has_checkpoint(output) and not resume and not overwrite:
        raise InputError(
            f"'{checkpoints}' holds an unfinished run; use --resume to go on with it or --overwrite to start anew"
        )
    parent = next(folder for folder in output.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"the output '{output}' cannot be written: '{parent}' is no folder that allows it; choose another")


def begin_output(output: Path, description: dict[str, Any]) -> None:
    """Make the checkpoint folder of a new run and note what the run is; what an earlier run left there goes."""
    folder = checkpoint_folder(output)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_json(folder / "config.json", description)


def has_checkpoint(output: Path) -> bool:
    """Whether an unfinished run can go on."""
    return any(checkpoint_folder(output).glob("step-*"))


def is_run(folder: Path) -> bool:
    """Whether a folder is the output of a finished run."""
    return (folder / "selfguide" / "config.json").is_file()


def write_output(
    output: Path,
    encoder: Encoder,
    summary: RunSummary,
    *,
    metrics: Path,
    environment: dict[str, Any],
    scores: list[ScoreRow],
) -> None:
    """Write the encoder, its card and the record of the run; all or nothing."""
    with atomic_folder(output) as folder:
        save_encoder(encoder, folder, pooling=summary.config.anchor)
        write_card(folder, summary)
        record = folder / "selfguide"
        record.mkdir()
        write_json(record / "config.json", asdict(summary.config))
        write_json(record / "summary.json", summary_as_json(summary))
        write_json(record / "environment.json", environment)
        write_json_lines(record / "scores.jsonl", [row.as_json() for row in scores])
        shutil.copy(metrics, record / "metrics.jsonl")
