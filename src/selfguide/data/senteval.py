"""The transfer tasks of SentEval, read from a folder: a file for each part of a task, a labelled sentence or pair a line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from selfguide.data.lines import clean, expect_fields, read_rows, reported
from selfguide.errors import InputError, MissingDataError
from selfguide.files import sha256_of_file

EMPTY = "."
"""What SentEval puts for an empty sentence."""

SST_TRAIN = {"phrases": "train.tsv", "sentences": "train.sentences.tsv"}
"""What SST2 can be trained on; SentEval takes the phrases."""


@final
@dataclass(frozen=True)
class Layout:
    """What the files of a task hold."""

    parts: Mapping[str, str]
    """File of each part: one that has no official division, or train and test, or train, dev and test."""
    labels: tuple[str, ...] = ("0", "1")
    """Labels, in the order of their numbers."""
    has_finer_labels: bool = False
    """Whether a label is followed by a colon and a finer one, which is left out."""
    sentences: int = 1
    """Sentences on a line."""


_WHOLE = Layout({"all": "all.tsv"})
_TRAIN_AND_TEST = {"train": "train.tsv", "test": "test.tsv"}
LAYOUTS = {
    "MR": _WHOLE,
    "CR": _WHOLE,
    "SUBJ": _WHOLE,
    "MPQA": _WHOLE,
    "SST2": Layout({"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}),
    "TREC": Layout(_TRAIN_AND_TEST, labels=("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"), has_finer_labels=True),
    "MRPC": Layout(_TRAIN_AND_TEST, sentences=2),
}
"""The tasks, in the order of the paper's columns."""


@final
@dataclass(frozen=True)
class LabelledSentences:
    """Sentences, or pairs of them, with a label each."""

    columns: tuple[tuple[str, ...], ...]
    """The sentences; of pairs, the first ones and the second ones."""
    labels: tuple[int, ...]
    source: str
    sha256: str = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)


def read_transfer_task(data_dir: Path, name: str, *, sst_train: str = "phrases") -> dict[str, LabelledSentences]:
    """Read the parts of a task.

    Args:
        data_dir: The folder that holds ``senteval/MR/all.tsv`` and the others.
        name: One of ``LAYOUTS``.
        sst_train: One of ``SST_TRAIN``.

    Raises:
        MissingDataError: A file is missing; the message says what was looked for, and where.
        InputError: A name is not known, or a file is broken.
    """
    if name not in LAYOUTS:
        raise InputError(f"SentEval has no task '{name}' here; choose from: {', '.join(LAYOUTS)}")
    if sst_train not in SST_TRAIN:
        raise InputError(f"SST2 cannot be trained on '{sst_train}'; choose one of: {', '.join(SST_TRAIN)}")
    layout, folder = LAYOUTS[name], data_dir / "senteval" / name
    parts = {**layout.parts, "train": SST_TRAIN[sst_train]} if name == "SST2" else layout.parts
    for file in parts.values():
        if not (folder / file).is_file():
            raise MissingDataError(
                f"SentEval's {name} was looked for as {', '.join(parts.values())} in {folder.absolute()}, but there is no "
                f"{file}; give the folder that holds senteval/{name}"
            )
    return {part: read_labelled(folder / file, layout) for part, file in parts.items()}


def read_labelled(path: Path, layout: Layout) -> LabelledSentences:
    """Read a file of lines ``label<TAB>sentence``, or with two sentences, without header and quoting.

    Raises:
        InputError: The file cannot be read, a line is broken or has another label (it is named), or a label never occurs.
    """
    numbers = {label: number for number, label in enumerate(layout.labels)}
    labels: list[int] = []
    rows: list[list[str]] = []
    for line, (text, *sentences) in read_rows(path):
        expect_fields([text, *sentences], 1 + layout.sentences, f"{path}:{line}")
        label = text.partition(":")[0] if layout.has_finer_labels else text
        if label not in numbers:
            raise InputError(f"{path}:{line}: label {text!r} is not known; allowed are: {', '.join(numbers)}")
        labels.append(numbers[label])
        rows.append([clean(sentence)[0] or EMPTY for sentence in sentences])
    for label, number in numbers.items():
        if number not in labels:
            raise InputError(f"{path}: none of {len(labels)} lines has the label {label}; is the file whole?")
    with reported(path):
        return LabelledSentences(tuple(zip(*rows, strict=True)), tuple(labels), str(path), sha256_of_file(path))
