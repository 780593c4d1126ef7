"""``selfguide backtranslate``: sentences in, each with another wording out, by way of another language."""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from selfguide.data.lines import JSON_LINES
from selfguide.data.pairs import Paraphrases
from selfguide.data.sentences import Sentences, read_sentences
from selfguide.errors import InputError, SelfguideError
from selfguide.files import write_text
from selfguide.progress import OnProgress, progress_on
from selfguide.settings import as_setting, unknown_names
from selfguide.translation.cache import Cache, is_unfinished
from selfguide.translation.config import BacktranslationConfig
from selfguide.translation.engines import Translator, load_translators

logger = logging.getLogger(__name__)

_BREAKS = re.compile(r"[\t\r\n]+")
_WORDS = re.compile(r"\w+")


@final
@dataclass(frozen=True)
class Backtranslation:
    """What came of a back-translation.

    Attributes:
        output: The file that was written.
        paraphrases: What it holds; ``dropped`` are the sentences of which nothing came back.
        cached: Number of sentences that were translated before, in an earlier call.
    """

    output: Path
    paraphrases: Paraphrases
    cached: int

    @property
    def unchanged(self) -> int:
        """Number of sentences that came back as they were."""
        pairs = zip(self.paraphrases.sentences, self.paraphrases.paraphrases, strict=True)
        return sum(sentence == paraphrase for sentence, paraphrase in pairs)

    @property
    def overlap(self) -> float:
        """Mean word overlap of sentence and paraphrase."""
        pairs = zip(self.paraphrases.sentences, self.paraphrases.paraphrases, strict=True)
        return sum(word_overlap(sentence, paraphrase) for sentence, paraphrase in pairs) / len(self.paraphrases)


def backtranslate(
    data: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,  # noqa: ANN401 - the fields of BacktranslationConfig, checked by name
) -> Paraphrases:
    """Paraphrase sentences by translating them to another language and back.

    Args:
        data: A path, a list of paths (as ``Path``), a hub dataset name, an iterable of sentences, or a ``datasets.Dataset``.
        output: File for sentences and paraphrases, ``.tsv`` or ``.jsonl``, as ``paraphrases`` of :func:`selfguide.train`.
        overwrite: Replace the file where there is one; translations that are known are used again.
        progress: Show progress on stderr.
        settings: Any other field of :class:`selfguide.translation.config.BacktranslationConfig`, such as ``beam=100``.

    Returns:
        The sentences and their paraphrases, as in the file.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    problems = unknown_names(settings, BacktranslationConfig, "in the arguments")
    if problems:
        raise InputError("; ".join(problems))
    given = {name: as_setting(value) for name, value in settings.items()}
    is_name = isinstance(data, str | Path)
    config = BacktranslationConfig(data=(str(data),) if is_name else (), output=str(output), **given)
    return run_backtranslation(config, source=None if is_name else data, overwrite=overwrite, progress=progress).paraphrases


def run_backtranslation(
    config: BacktranslationConfig,
    *,
    source: Any = None,  # noqa: ANN401 - whatever read_sentences takes
    overwrite: bool = False,
    progress: bool = True,
) -> Backtranslation:
    """Do the whole job; the command line and :func:`backtranslate` both come here.

    Raises:
        InputError: when something in the input or the settings is wrong.
        SelfguideError: when the engine breaks down, or nothing comes back.
    """
    output = Path(config.output).expanduser()
    folder = Path(config.cache or f"{config.output}.cache").expanduser()
    _check_output(output, folder, overwrite=overwrite)
    listed = source if isinstance(source, list | tuple) else ()
    read = [*map(Path, config.data), *(item for item in listed if isinstance(item, Path))]
    if output.exists() and any(path.exists() and output.samefile(path) for path in read):
        raise InputError(f"the output '{output}' is the file of --data, which would be lost; choose another file")
    sentences = _read(config, source)
    there, back = load_translators(config)
    with Cache(folder, {"forward": there.identity, "backward": back.identity}) as cache:
        cache.begin(output)
        # the longest first: what is too large for the memory is too large at once
        pending = sorted((sentence for sentence in sentences if cache.get(sentence) is None), key=len, reverse=True)
        with progress_on(sys.stderr, "translating", lines=True, enabled=progress) as on_progress:
            _translate(pending, there, back, cache, batch_size=config.sentences_at_once, on_progress=on_progress)
        paraphrases = _collect(sentences, cache)
        write_text(output, "".join(_rows(paraphrases, output)))
        cache.finish(output)
    return Backtranslation(output, paraphrases, cached=len(sentences) - len(pending))


def word_overlap(sentence: str, paraphrase: str) -> float:
    """Words that two sentences share, of all their words (Jaccard), whatever their case; 1 where there are none."""
    left, right = (set(_WORDS.findall(text.casefold())) for text in (sentence, paraphrase))
    return len(left & right) / len(left | right) if left | right else 1.0


def _check_output(output: Path, cache: Path, *, overwrite: bool) -> None:
    """Make sure that the file may be written, before any work is done."""
    if not output.name:
        raise InputError("no output file was given; name one with --output F.tsv")
    if output.suffix not in (".tsv", *JSON_LINES):
        raise InputError(f"the output '{output}' ends in '{output.suffix}'; paraphrases are written to .tsv or .jsonl")
    if output.is_dir():
        raise InputError(f"the output '{output}' is a folder; name a file in it")
    if output.exists() and not overwrite and not is_unfinished(cache, output):
        raise InputError(f"the output '{output}' exists already; choose another file, or --overwrite to replace it")
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise InputError(
            f"the output '{output}' cannot be written: '{output.parent}' is no folder that allows it; choose another"
        )


def _read(config: BacktranslationConfig, source: Any) -> Sentences:  # noqa: ANN401 - whatever read_sentences takes
    if source is None and not config.data:
        raise InputError("no sentences were given; name a file with --data F")
    paths = [Path(name) for name in config.data]
    given = source if source is not None else paths[0] if len(paths) == 1 else paths
    found = read_sentences(given, columns=config.column, split=config.split)
    logger.info("%s", found.counts.summary())
    return found


def _translate(
    pending: list[str], there: Translator, back: Translator, cache: Cache, *, batch_size: int, on_progress: OnProgress
) -> None:
    """Translate there and back, and store, batch by batch."""
    began, done = time.monotonic(), 0
    try:
        while done < len(pending):
            on_progress(done, len(pending))
            batch = pending[done : done + batch_size]
            between = _translated(batch, there)
            cache.add(zip(batch, _translated(between, back), strict=True))
            done += len(batch)
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(
            f"interrupted after {done} of {len(pending)} sentences; the same command goes on from there"
        ) from interruption
    if pending:
        seconds = time.monotonic() - began
        logger.info("%d sentences there and back in %.1f s, %.1f a second", done, seconds, done / seconds)


def _translated(sentences: list[str], translator: Translator) -> list[str]:
    """Translations; of an empty one, as can come from the way there, nothing."""
    filled = [sentence for sentence in sentences if sentence]
    translations = iter(translator.translate(filled) if filled else ())
    return [next(translations) if sentence else "" for sentence in sentences]


def _collect(sentences: Iterable[str], cache: Cache) -> Paraphrases:
    """Sentences with what came back, in their order, on one line each."""
    found = [(sentence, cache.get(sentence) or "") for sentence in sentences]
    kept = [(_BREAKS.sub(" ", sentence), _BREAKS.sub(" ", paraphrase)) for sentence, paraphrase in found if paraphrase]
    if not kept:
        raise SelfguideError(f"nothing came back of any of {len(found)} sentences; are they in the right language?")
    kept_sentences, paraphrases = zip(*kept, strict=True)
    return Paraphrases(kept_sentences, paraphrases, dropped=len(found) - len(kept))


def _rows(paraphrases: Paraphrases, output: Path) -> Iterator[str]:
    for sentence, paraphrase in zip(paraphrases.sentences, paraphrases.paraphrases, strict=True):
        if output.suffix in JSON_LINES:
            yield json.dumps({"sentence": sentence, "paraphrase": paraphrase}, ensure_ascii=False) + "\n"
        else:
            yield f"{sentence}\t{paraphrase}\n"
