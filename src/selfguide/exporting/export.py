"""``selfguide export``: a model as ONNX or OpenVINO, its pooling inside the graph and its tokenizer beside it."""

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

from tokenizers import Tokenizer

from selfguide import bundled
from selfguide.bulk.first_token_graph import to_openvino
from selfguide.data.sources import read_texts
from selfguide.embedders.folder import EXPORTED
from selfguide.embedders.loading import SENTENCE_TRANSFORMERS, load_embedder
from selfguide.embedders.onnx import GRAPHS, load_onnx
from selfguide.embedders.onnx_inputs import TOKENIZER
from selfguide.embedders.openvino_graph import import_openvino, round_weights
from selfguide.embedders.protocol import Embedder
from selfguide.environment import package_versions
from selfguide.errors import InputError
from selfguide.exporting.agreement import Agreement, measure
from selfguide.exporting.config import ExportConfig
from selfguide.exporting.onnx_file import write_onnx
from selfguide.exporting.source import Source, source_of
from selfguide.files import atomic_folder, check_can_write, write_json
from selfguide.settings import as_setting, unknown_names

logger = logging.getLogger(__name__)

SAMPLE = 128
"""Sentences that vectors are compared on."""


@final
@dataclass(frozen=True)
class Exported:
    """What was written; the same stands in ``export.json``.

    Attributes:
        output: The folder.
        graph: The file in it that a runtime opens.
        dimension: Of a vector.
        agreement: With PyTorch's vectors, as measured.
        tolerance: What was allowed.
    """

    output: Path
    graph: str
    dimension: int
    agreement: Agreement
    tolerance: float


def export(
    model: str | Path,
    output: str | Path,
    *,
    data: str | Path | Iterable[str | Path] | None = None,
    overwrite: bool = False,
    **settings: Any,  # noqa: ANN401 - the fields of ExportConfig, checked by name
) -> Exported:
    """Write a model as ONNX or OpenVINO, from token ids to sentence vectors; refused when the vectors differ.

    Args:
        model: A folder, a hub name, or ``mini``.
        output: Folder for the graph, ``tokenizer.json``, ``config.json`` and ``export.json``.
        data: Sentences to compare vectors on: a path, a list of paths (as ``Path``), a hub dataset name, an iterable of
            sentences, or a ``datasets.Dataset``; by default bundled ones.
        overwrite: Replace what an earlier export wrote.
        settings: Any other field of :class:`selfguide.exporting.config.ExportConfig`, such as ``format="openvino"``.

    Returns:
        What was written, and how far its vectors are from PyTorch's.

    Raises:
        InputError: when something in the input or the settings is wrong, or the vectors differ; nothing is left behind.
    """
    problems = unknown_names(settings, ExportConfig, "in the arguments")
    if problems:
        raise InputError("; ".join(problems))
    given = {name: as_setting(value) for name, value in settings.items()}
    is_name = isinstance(data, str | Path)
    config = ExportConfig(model=str(model), output=str(output), data=(str(data),) if is_name else (), **given)
    return run_export(config, source=None if is_name else data, overwrite=overwrite)


def run_export(config: ExportConfig, *, source: Any = None, overwrite: bool = False) -> Exported:  # noqa: ANN401
    """Do the whole job; the command line and :func:`export` both come here.

    Args:
        config: The settings.
        source: Sentences that are not named in the settings: whatever :func:`selfguide.data.sources.read_texts` takes.
        overwrite: Replace what an earlier export wrote.

    Raises:
        InputError: when something in the input or the settings is wrong, or the vectors differ; nothing is left behind.
        StorageError: when there is no room.
    """
    output = Path(config.output).expanduser()
    _check_output(output, overwrite=overwrite)
    sentences = _sentences(config, source)
    exact = _load(config)
    model = source_of(exact, config.model)
    with atomic_folder(output) as scratch:
        _write_files(model, scratch)
        _write_graph(model, scratch, config)
        found = load_onnx(scratch / GRAPHS[config.format], device="cpu", max_length=model.max_length)
        agreement = measure(exact, found, sentences)
        _check(agreement, config)
        dimension = int(found.encode([]).shape[1])
        done = Exported(output, GRAPHS[config.format], dimension, agreement, config.allowed)
        write_json(scratch / EXPORTED, _record(done, exact, model, config))
    return done


def _load(config: ExportConfig) -> Embedder:
    """The model in PyTorch; a fitted folder that is also one of sentence-transformers is read as that."""
    is_folder_of_modules = (Path(config.model).expanduser() / "modules.json").is_file()
    return load_embedder(
        config.model,
        embedder=config.embedder or (SENTENCE_TRANSFORMERS if is_folder_of_modules else None),
        device="cpu",
        max_length=config.max_length,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
    )


def _write_graph(model: Source, folder: Path, config: ExportConfig) -> None:
    path = folder / GRAPHS[config.format]
    if config.format == "onnx":
        write_onnx(model, path, int8=config.precision == "int8")
        return
    openvino = import_openvino("an export to OpenVINO")
    if model.is_first_token:
        graph = to_openvino(model.graph, model.inputs)
    else:
        # OpenVINO's own way to read a module of torch keeps the lengths of the example in some families
        write_onnx(model, folder / GRAPHS["onnx"], int8=False)
        graph = openvino.convert_model(str(folder / GRAPHS["onnx"]))
    if config.precision == "int8":
        round_weights(graph)
    openvino.save_model(graph, str(path), compress_to_fp16=False)
    for onnx_file in folder.glob(f"{GRAPHS['onnx']}*"):
        onnx_file.unlink()


def _write_files(model: Source, folder: Path) -> None:
    """The tokenizer, which cuts and pads by itself, and what other programs look for beside a graph."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(
            f"the tokenizer of this {type(model.model).__name__} is written in Python, and an export needs one of the "
            "tokenizers library; use a model that comes with a tokenizer.json"
        )
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.enable_truncation(model.max_length)
    pad = model.tokenizer.pad_token_id
    if pad is not None:
        tokenizer.enable_padding(pad_id=int(pad), pad_token=str(model.tokenizer.pad_token))
    tokenizer.save(str(folder / TOKENIZER))
    specials = {name: str(token) for name, token in model.tokenizer.special_tokens_map.items() if isinstance(token, str)}
    write_json(folder / "special_tokens_map.json", specials)
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.max_length, **specials},
    )
    model.model.config.to_json_file(str(folder / "config.json"))


def _check(agreement: Agreement, config: ExportConfig) -> None:
    distance = agreement.distance(config.precision)
    if distance <= config.allowed:
        return
    measured = "the largest difference" if config.precision == "float32" else "1 - mean cosine"
    advice = "use --precision float32, or a larger --tolerance" if config.precision == "int8" else "use another --format"
    raise InputError(
        f"the {config.format} vectors of '{config.model}' in {config.precision} are not PyTorch's: {measured} over "
        f"{agreement.sentences} sentences is {distance:.1e}, and at most {config.allowed:.1e} is allowed; nothing was "
        f"written: {advice}"
    )


def _sentences(config: ExportConfig, source: Any) -> list[str]:  # noqa: ANN401 - whatever read_texts takes
    paths = [Path(name) for name in config.data]
    given = source if source is not None else paths[0] if len(paths) == 1 else paths or bundled.SENTENCES
    texts = read_texts(given, columns=config.column, split=config.split, revision=None)
    found = list(islice((text.strip() for text in texts if text.strip()), SAMPLE))
    if not found:
        raise InputError(f"{', '.join(config.data) or 'the source'} holds no sentences; give text with at least one line")
    return found


def _check_output(output: Path, *, overwrite: bool) -> None:
    check_can_write(output)
    if not output.exists():
        return
    if not output.is_dir():
        raise InputError(f"the output '{output}' is a file; choose a folder")
    is_empty = not any(output.iterdir())
    if not is_empty and not (overwrite and (output / EXPORTED).is_file()):
        advice = "choose another folder" + (", or --overwrite" if (output / EXPORTED).is_file() else "")
        raise InputError(f"the output '{output}' exists already; {advice}")


def _record(done: Exported, exact: Embedder, model: Source, config: ExportConfig) -> dict[str, Any]:
    return {
        "name": f"{exact.name}/{config.format}-{config.precision}",
        "max_length": model.max_length,
        "format": config.format,
        "precision": config.precision,
        "graph": done.graph,
        "inputs": list(model.inputs),
        "dimension": done.dimension,
        "tolerance": done.tolerance,
        "agreement": asdict(done.agreement),
        "exported_from": exact.protocol,
        "packages": {**package_versions(), **_runtime_versions()},
    }


def _runtime_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("onnx", "onnxruntime", "openvino"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
