"""The training texts of the specs, found in a data folder or made of what is there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfguide.data.lines import read_rows
from selfguide.data.sentences import read_sentences
from selfguide.errors import InputError, MissingDataError
from selfguide.experiments.specs import texts
from selfguide.files import write_text
from selfguide.translation.backtranslate import backtranslate

TRANSLATED = "sts-b"
"""The text that is translated."""


def training_settings(name: str, data: Path, work: Path) -> dict[str, Any]:
    """The settings of ``selfguide train`` for a text.

    Args:
        name: Of the text.
        data: The folder of data.
        work: A folder for what has to be made first; it may be there already.

    Raises:
        MissingDataError: when a file of the text is missing.
        InputError: when a text cannot be made.
    """
    text = texts()[name]
    if "data" in text:
        paths = tuple(str(_present(data / part, text["about"])) for part in text["data"])
        return {"data": paths, "column": tuple(text.get("column", ()))}
    if "sentences_of_pairs" in text:
        pairs = _pairs(_present(data / text["sentences_of_pairs"], text["about"]))
        return {"data": (str(_made(work / f"{name}.txt", (sentence for sentence, _ in pairs))),)}
    if "paraphrases_of_pairs" in text:
        pairs = _pairs(_present(data / text["paraphrases_of_pairs"], text["about"]))
        return {"paraphrases": str(_made(work / f"{name}.tsv", ("\t".join(pair) for pair in pairs)))}
    return {"paraphrases": str(_translated(name, data, work))}


def text_file(name: str, data: Path, work: Path) -> Path:
    """A file with the sentences of a text, one a line; the same errors as above."""
    settings = training_settings(name, data, work)
    if "paraphrases" in settings:
        raise InputError(f"the text '{name}' holds paraphrases, which nothing can be fitted on")
    paths = [Path(path) for path in settings["data"]]
    sentences = read_sentences(paths, columns=settings.get("column", ()), deduplicate=False)
    return _made(work / f"{name}.sentences.txt", (sentences[position] for position in range(len(sentences))))


def _translated(name: str, data: Path, work: Path) -> Path:
    """The file of a text that was translated there and back; made when it is not there, which can take long."""
    ready, made = data / texts()[name]["paraphrases"], work / f"{name}.tsv"
    for path in (ready, made):
        if path.is_file():
            return path
    work.mkdir(parents=True, exist_ok=True)
    backtranslate(text_file(TRANSLATED, data, work), made, progress=False, **texts()[name]["translate"])
    return made


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Sentence and paraphrase, of lines with two sentences, each with its paraphrase behind it; empty ones are left out."""
    for number, row in read_rows(path):
        if len(row) != 4:
            raise InputError(f"{path}:{number}: {len(row)} fields; two sentences and their paraphrases are needed")
        for sentence, paraphrase in (row[:2], row[2:]):
            if sentence.strip() and paraphrase.strip():
                yield sentence, paraphrase


def _present(path: Path, about: str) -> Path:
    if not path.exists():
        raise MissingDataError(f"{about}: '{path}' is not there")
    return path


def _made(path: Path, lines: Iterator[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(line + "\n" for line in lines))
    return path
