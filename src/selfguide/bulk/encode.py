"""``selfguide encode``: files of sentences in, one file of vectors out, a vector a sentence in the same order."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, final

import numpy as np

from selfguide.bulk.coders import DTYPES, Coder, OnProgress, Vectors, WaitForVectors, all_vectors
from selfguide.bulk.config import EncodeConfig
from selfguide.bulk.formats import WRITERS, shape_of
from selfguide.bulk.loading import load_coder
from selfguide.bulk.pipeline import one_ahead, one_behind
from selfguide.bulk.progress import progress_on
from selfguide.bulk.shards import Shard, ShardFolder, in_shards
from selfguide.bulk.storing import as_stored, read_scale
from selfguide.bulk.whole_file import whole_file
from selfguide.compact import Scale
from selfguide.data.lines import clean
from selfguide.data.sources import read_texts
from selfguide.devices import choose_device
from selfguide.embedders.openvino_graph import GROUP_SIZE, import_openvino
from selfguide.embedders.trial import check_cpu_computes
from selfguide.environment import package_versions
from selfguide.errors import InputError
from selfguide.files import only_one, write_json
from selfguide.settings import as_setting, unknown_names
from selfguide.similarity import paired_cosines

logger = logging.getLogger(__name__)

SAMPLE = 256
"""Sentences that are also encoded in float32 to tell what another precision does to the vectors."""


@final
@dataclass(frozen=True)
class Distance:
    """How far vectors of another precision are from those of float32.

    Attributes:
        sentences: Number of sentences it was measured on.
        mean_cosine: Of the vectors of the same sentence.
        max_difference: Of any two numbers.
    """

    sentences: int
    mean_cosine: float
    max_difference: float


@final
@dataclass(frozen=True)
class Encoding:
    """What came of an encoding; the same stands in ``OUTPUT.json``.

    Attributes:
        output: The file that was written.
        count: Number of vectors.
        dimension: Of a vector; of ``binary`` vectors the number of bits.
        encoded: Sentences that were encoded now; the others had been before, in an interrupted call.
        sentences_a_second: Of those, from the loaded model to the written file.
        distance: From float32, where the precision is another.
        int8_step: What a step of int8 vectors is worth; None for others.
    """

    output: Path
    count: int
    dimension: int
    encoded: int
    sentences_a_second: float
    distance: Distance | None
    int8_step: float | None = None


def encode_files(
    data: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,  # noqa: ANN401 - the fields of EncodeConfig, checked by name
) -> Encoding:
    """Encode sentences of any number into one file of vectors; goes on where an interrupted call ended.

    Args:
        data: A path, a list of paths (as ``Path``), a hub dataset name, an iterable of sentences, or a ``datasets.Dataset``.
        output: File for the vectors: ``.npy`` (``numpy.load(output, mmap_mode="r")``), ``.parquet`` or ``.jsonl``.
        overwrite: Replace the file where there is one, and what an interrupted call made of other sentences or settings.
        progress: Show progress on stderr.
        settings: Any other field of :class:`selfguide.bulk.config.EncodeConfig`, such as ``model="mini"``.

    Returns:
        What was written, and how fast.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    problems = unknown_names(settings, EncodeConfig, "in the arguments")
    if problems:
        raise InputError("; ".join(problems))
    given = {name: as_setting(value) for name, value in settings.items()}
    is_name = isinstance(data, str | Path)
    config = EncodeConfig(data=(str(data),) if is_name else (), output=str(output), **given)
    return run_encoding(config, source=None if is_name else data, overwrite=overwrite, progress=progress)


def run_encoding(
    config: EncodeConfig,
    *,
    source: Any = None,  # noqa: ANN401 - whatever read_texts takes
    overwrite: bool = False,
    progress: bool = True,
) -> Encoding:
    """Do the whole job; the command line and :func:`encode_files` both come here.

    Raises:
        InputError: when something in the input or the settings is wrong.
        StorageError: when there is no room for the vectors.
    """
    output = Path(config.output).expanduser()
    place = output.with_name(f"{output.name}.shards")
    _check_output(output, place, overwrite=overwrite)
    with only_one(output):
        return _run(config, output, place, source=source, overwrite=overwrite, progress=progress)


def _run(
    config: EncodeConfig,
    output: Path,
    place: Path,
    *,
    source: Any,  # noqa: ANN401
    overwrite: bool,
    progress: bool,
) -> Encoding:
    shards = in_shards(_sentences(config, source), config.shard_size)
    first = next(shards, None)  # what is wrong with the input is told before the model is loaded
    if first is None:
        raise InputError(f"{', '.join(config.data) or 'the source'} holds no sentences; give text with at least one line")
    _check_precision(config)
    scale = read_scale(config.scale_of)
    coder = load_coder(config)
    job = _job(config, coder, scale)
    dimension = _dimension(coder, config)
    coder, distance = _lower(coder, first.sentences[:SAMPLE], config)
    folder = ShardFolder(place, job, replace=overwrite)
    if config.vectors == "int8" and folder.scale is None:
        folder.clear()
    began = time.monotonic()
    with progress_on(sys.stderr, enabled=progress) as on_progress:
        store = partial(_store, config=config, folder=folder, scale=scale)
        shard_count, encoded = _encode(chain([first], shards), coder, folder, store, on_progress)
    paths = folder.paths(shard_count)
    with whole_file(output, folder.scratch) as file:
        WRITERS[config.file_format](file, paths)
    rate = encoded / max(time.monotonic() - began, 1e-9)
    count, stored_numbers = shape_of(paths)
    done = Encoding(
        output,
        count,
        dimension or stored_numbers,
        encoded=encoded,
        sentences_a_second=rate,
        distance=distance,
        int8_step=folder.scale.step if folder.scale else None,
    )
    write_json(output.with_name(f"{output.name}.json"), _record(job, done))
    folder.remove()
    return done


def _encode(
    shards: Iterable[Shard],
    coder: Coder,
    folder: ShardFolder,
    store: Callable[[Shard, WaitForVectors], None],
    on_progress: OnProgress,
) -> tuple[int, int]:
    """Encode and store the shards that are not stored; gives the number of all shards, and of sentences encoded now."""
    count = encoded = 0

    def missing() -> Iterator[Shard]:
        nonlocal count
        for shard in shards:
            count += 1
            if not folder.holds(shard):
                yield shard

    try:
        with one_behind() as later:
            for shard, prepared in one_ahead(missing(), lambda shard: coder.prepare(shard.sentences)):
                later(store, shard, coder.begin(prepared, on_progress))
                encoded += len(shard.sentences)
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(
            f"interrupted; {encoded:,} sentences were encoded and stored, and the same command goes on from there"
        ) from interruption
    return count, encoded


def _store(
    shard: Shard, wait_for_vectors: WaitForVectors, *, config: EncodeConfig, folder: ShardFolder, scale: Scale | None
) -> None:
    folder.write(shard, as_stored(_finished(wait_for_vectors(), config), config, folder, scale))


def _finished(vectors: Vectors, config: EncodeConfig) -> Vectors:
    """Vectors as they are stored, in float32."""
    if config.truncate_dim is not None:
        vectors = vectors[:, : config.truncate_dim]
    if config.normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def _lower(coder: Coder, sentences: list[str], config: EncodeConfig) -> tuple[Coder, Distance | None]:
    """Set the precision; gives the coder of that precision, and how far that moves the vectors."""
    if config.precision == "float32":
        return coder, None
    exact = _sample(coder, sentences, config)
    if config.precision == "int8":
        from selfguide.bulk.int8 import int8_coder

        coder = int8_coder(coder, config.model, batch_tokens=config.batch_tokens)
    else:
        coder.lower(DTYPES[config.precision])
    found = _sample(coder, sentences, config)
    distance = Distance(len(sentences), float(paired_cosines(exact, found).mean()), float(np.abs(exact - found).max()))
    logger.info(
        "%s against float32, %d sentences: mean cosine %.6f, largest difference %.1e",
        config.precision,
        *(distance.sentences, distance.mean_cosine, distance.max_difference),
    )
    return coder, distance


def _sample(coder: Coder, sentences: list[str], config: EncodeConfig) -> Vectors:
    return _finished(all_vectors(coder, sentences), config)


def _sentences(config: EncodeConfig, source: Any) -> Iterator[str]:  # noqa: ANN401 - whatever read_texts takes
    """Every text of the source, also blank ones, so that vector i is that of line i."""
    if source is None and not config.data:
        raise InputError("no sentences were given; name a file with --data F")
    paths = [Path(name) for name in config.data]
    given = source if source is not None else paths[0] if len(paths) == 1 else paths
    texts = read_texts(given, columns=config.column, split=config.split, revision=None)
    return (clean(text)[0] for text in texts)


def _check_output(output: Path, place: Path, *, overwrite: bool) -> None:
    """Make sure that the file may be written, before any work is done."""
    if output.is_dir():
        raise InputError(f"the output '{output}' is a folder; name a file in it")
    if place.exists() and not place.is_dir():
        raise InputError(f"'{place}', where shards are stored, is a file; move it, or choose another output")
    if output.exists() and not overwrite and not place.is_dir():
        raise InputError(f"the output '{output}' exists already; choose another file, or --overwrite to replace it")
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise InputError(
            f"the output '{output}' cannot be written: '{output.parent}' is no folder that allows it; choose another"
        )


def _check_precision(config: EncodeConfig) -> None:
    if config.precision == "int8":
        import_openvino("--precision int8")
    if config.precision != "float32" and choose_device(config.device).type == "cpu":
        check_cpu_computes(config.precision, f"--precision {config.precision}")


def _dimension(coder: Coder, config: EncodeConfig) -> int | None:
    """Of a vector, where that is not just the numbers that it is stored as."""
    if config.truncate_dim is None and config.vectors != "binary":
        return None
    dimension = all_vectors(coder, [""]).shape[1]
    if config.truncate_dim is not None and config.truncate_dim > dimension:
        raise InputError(
            f"--truncate-dim is {config.truncate_dim}; the vectors have {dimension} dimensions: give at most that"
        )
    return config.truncate_dim or dimension


def _job(config: EncodeConfig, coder: Coder, scale: Scale | None) -> dict[str, Any]:
    """All that the stored vectors depend on but for the sentences."""
    names = ("model", "precision", "vectors", "truncate_dim", "normalize", "shard_size")
    given = {} if scale is None else {"int8_step": scale.step}
    groups = {"int8_groups_of": GROUP_SIZE} if config.precision == "int8" else {}
    return {**{name: getattr(config, name) for name in names}, **given, **groups, "embedder": coder.identity}


def _record(job: dict[str, Any], done: Encoding) -> dict[str, Any]:
    found = asdict(done)
    del found["output"]
    found["sentences_a_second"] = round(done.sentences_a_second, 1)
    if done.int8_step is not None:
        found["int8_ranges"] = Scale(done.int8_step).ranges.tolist()  # as sentence-transformers takes them
    return {**job, **found, "packages": package_versions()}
