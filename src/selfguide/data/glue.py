"""Five classification tasks of GLUE, from files or the hub: labelled texts, and the paper's split of the validation set."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.data.digests import files_digest
from selfguide.data.lines import clean, expect_fields, listed, read_rows, text_of
from selfguide.errors import InputError, MissingDataError

HUB_NAME = "nyu-mll/glue"
HUB_REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
"""Commit of the hub's copy."""


@final
@dataclass(frozen=True)
class GlueTask:
    """One task, as the hub and the files name its parts."""

    name: str
    config: str
    """The hub's name of the task."""
    columns: tuple[str, ...]
    """The hub's columns of one text or two."""
    labels: tuple[str, ...]
    """Labels as in GLUE's own files, in the order of the hub's class numbers."""


TASKS = {
    task.name: task
    for task in (
        GlueTask("QNLI", "qnli", ("question", "sentence"), ("entailment", "not_entailment")),
        GlueTask("SST-2", "sst2", ("sentence",), ("0", "1")),
        GlueTask("CoLA", "cola", ("sentence",), ("0", "1")),
        GlueTask("MRPC", "mrpc", ("sentence1", "sentence2"), ("0", "1")),
        GlueTask("RTE", "rte", ("sentence1", "sentence2"), ("entailment", "not_entailment")),
    )
}
"""Tasks by name, in the order of the paper's table 10."""


@final
@dataclass(frozen=True)
class Examples:
    """Texts with their class."""

    texts: tuple[tuple[str, ...], ...]
    """One text each, or two."""
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int) -> "Examples":
        """The examples from ``start`` up to ``stop``."""
        return Examples(self.texts[start:stop], self.labels[start:stop])


@final
@dataclass(frozen=True)
class GlueData:
    """The parts of a task: what is trained on, what selects, and what is scored."""

    task: GlueTask
    train: Examples
    selection: Examples
    """The first 10% of the validation set."""
    test: Examples
    """The last 90% of the validation set; GLUE's own test labels are hidden."""
    revision: str
    """The hub's commit, or the sha256 of both files one after the other (``cat train.tsv dev.tsv | sha256sum``)."""


def read_glue(name: str, data: Path | None = None) -> GlueData:
    """Read a task of GLUE.

    Args:
        name: One of ``TASKS``.
        data: Folder with ``glue/NAME/train.tsv`` and ``dev.tsv`` (label, text and perhaps a second text; no header, no
            quoting); without it the hub's copy is read, at a fixed commit.

    Raises:
        MissingDataError: A file is missing, or the hub is out of reach.
        InputError: The task is not known, or a row is wrong (its line is named).
    """
    if name not in TASKS:
        raise InputError(f"GLUE task {name!r} is not known; choose from: {', '.join(TASKS)}")
    task = TASKS[name]
    if data is None:
        train, validation = (_collect(_hub_rows(task, split), f"{task.config} {split}") for split in ("train", "validation"))
        revision = HUB_REVISION
    else:
        files = [data / "glue" / name / file for file in ("train.tsv", "dev.tsv")]
        _check_present(files, task)
        train, validation = (_collect(_file_rows(file, task), str(file)) for file in files)
        revision = files_digest(files)
    cut = len(validation) // 10
    if not cut:
        raise InputError(f"the validation set of {name} has {len(validation)} examples; its split in 10% and 90% needs 10")
    return GlueData(task, train, validation.part(0, cut), validation.part(cut, len(validation)), revision)


def _collect(rows: Iterable[tuple[str, int, list[object]]], source: str) -> Examples:
    """Examples of rows (where it stands, class, texts)."""
    texts: list[tuple[str, ...]] = []
    labels: list[int] = []
    for where, label, values in rows:
        texts.append(tuple(_text(value, where) for value in values))
        labels.append(label)
    if not labels:
        raise InputError(f"{source} holds no examples")
    return Examples(tuple(texts), tuple(labels))


def _check_present(files: list[Path], task: GlueTask) -> None:
    for file in files:
        if not file.is_file():
            raise MissingDataError(
                f"{file}: no such file; {task.name} is read from {files[0]} and {files[1].name}: put it there, or give no "
                f"data folder, so that the hub's copy ({HUB_NAME}, {task.config}) is used"
            )


def _file_rows(path: Path, task: GlueTask) -> Iterator[tuple[str, int, list[object]]]:
    for number, (label, *texts) in read_rows(path):
        where = f"{path}:{number}"
        expect_fields([label, *texts], 1 + len(task.columns), where)
        if label not in task.labels:
            raise InputError(f"{where}: label {label!r} is not one of {task.name}: {', '.join(task.labels)}")
        yield where, task.labels.index(label), list(texts)


def _hub_rows(task: GlueTask, split: str) -> Iterator[tuple[str, int, list[object]]]:
    table = _load_from_hub(task, split)
    source = f"{HUB_NAME} {task.config} {split}"
    wanted = ("label", *task.columns)
    if not set(wanted) <= set(table.column_names):
        raise InputError(f"{source}: columns {listed(wanted)} are needed; the columns are: {listed(table.column_names)}")
    for number, (label, *texts) in enumerate(zip(*(table[column] for column in wanted), strict=True)):
        where = f"{source} row {number}"
        if label not in range(len(task.labels)):
            raise InputError(f"{where}: label {label!r} is not a class of {task.name}: 0 to {len(task.labels) - 1}")
        yield where, label, texts


def _load_from_hub(task: GlueTask, split: str) -> Any:  # noqa: ANN401 - datasets is imported late
    import datasets

    try:
        return datasets.load_dataset(HUB_NAME, task.config, split=split, revision=HUB_REVISION)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).partition("\n")[0]
        raise MissingDataError(
            f"{task.name} could not be had from the hub ({HUB_NAME}, {task.config}, {split}: {reason}); check the network, "
            f"or give a data folder that holds glue/{task.name}/train.tsv and dev.tsv"
        ) from error


def _text(value: object, where: str) -> str:
    """The text as the files have it: tabs and carriage returns, which would end a field or a line there, are blanks."""
    text, _ = clean(text_of(value, "text", where).replace("\t", " ").replace("\r", " "))
    if not text:
        raise InputError(f"{where}: a text is empty")
    return text
