"""Any ready model that was exported to ONNX or OpenVINO with its pooling inside, as ``selfguide export`` writes it."""

import hashlib
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.base import BaseEmbedder, check_sentences
from selfguide.embedders.folder import EXPORTED, is_exported
from selfguide.embedders.onnx_graph import Graph, choose_output, external_files
from selfguide.embedders.onnx_inputs import TOKENIZER, Inputs, OpenGraph, make_inputs, tokenizer_of
from selfguide.embedders.openvino_graph import OpenvinoGraph
from selfguide.errors import InputError
from selfguide.files import atomic_folder, read_json, sha256_of_file, write_json

GRAPHS = {"onnx": "model.onnx", "openvino": "openvino_model.xml"}
"""File of the graph in a folder, by format."""

_RECORD = "onnx_embedder.json"
_SUFFIXES = (".onnx", ".xml")


@final
class OnnxEmbedder(BaseEmbedder):
    """Vectors as a graph gives them; it is opened when it is first needed.

    A sentence of which the tokenizer leaves nothing gets the zero vector.

    Attributes:
        path: The file of the graph; where it takes token ids, ``tokenizer.json`` lies beside it or one folder above.
        name: In score rows.
        max_length: Longest input in tokens; by default what the tokenizer says, else 128.
        device: ``cuda``, or anything else for the CPU; OpenVINO runs on the CPU in any case.
    """

    def __init__(self, path: str | Path, *, name: str = "onnx", max_length: int | None = None, device: str = "cpu") -> None:
        self.path, self.name, self.max_length, self.device = path, name, max_length, device

    @property
    def protocol(self) -> dict[str, Any]:
        """Output, longest input, precision, and the hash of the graph's file, with its other files where it has some."""
        output, probe = self._probe
        precision = "tf32" if self._graph.is_on_cuda and probe.dtype == np.float32 else str(probe.dtype)
        return {
            "pooling": "inside the graph",
            "output": output,
            "max_length": self._inputs.max_length,
            "precision": precision,
            "weights": self._weights,
        }

    def encode(self, sentences: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of sentences, ``(n, dim)``, in the order given.

        Raises:
            InputError: when the graph or its tokenizer is broken, it gives no sentence vectors, or a single text is given.
        """
        check_sentences(sentences)
        output, probe = self._probe
        vectors = np.zeros((len(sentences), probe.shape[1]), dtype=np.float32)
        for rows, feed in self._inputs.batches(sentences):
            vectors[rows] = self._graph.run(feed, [output])[output][: len(rows)]
        return vectors

    def save(self, folder: str | Path) -> None:
        """Copy the graph, its tokenizer and its name to a folder that :func:`selfguide.load` loads."""
        source = Path(self.path)
        tokenizer = tokenizer_of(source)
        with atomic_folder(Path(folder).expanduser()) as scratch:
            shutil.copyfile(source, scratch / GRAPHS[_format_of(source)])
            for name in _other_files(source):
                target = scratch / (Path(GRAPHS["openvino"]).with_suffix(".bin") if source.suffix == ".xml" else name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source.parent / name, target)
            if tokenizer is not None:
                shutil.copyfile(tokenizer, scratch / TOKENIZER)
            write_json(scratch / _RECORD, {"name": self.name, "max_length": self._inputs.max_length})

    def set_params(self, **parameters: Any) -> Self:  # noqa: ANN401 - as scikit-learn has it
        """Change parameters; the graph is opened again."""
        super().set_params(**parameters)
        for name in vars(self).keys() - self.get_params(deep=False).keys():
            delattr(self, name)
        return self

    def __getstate__(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters  # an open graph cannot be pickled; it is opened again

    @cached_property
    def _graph(self) -> OpenGraph:
        path = Path(self.path)
        return OpenvinoGraph(path) if path.suffix == ".xml" else Graph(path, device=self.device)

    @cached_property
    def _inputs(self) -> Inputs:
        return make_inputs(self._graph, self.max_length)

    @cached_property
    def _probe(self) -> tuple[str, npt.NDArray[Any]]:
        """The output with the sentence vectors, and that of some sentence: a graph need not tell its shapes before."""
        batch = next(self._inputs.batches(["a 0 ."] * 2), None)
        if batch is None:
            raise InputError(f"the tokenizer of '{self.path}' leaves nothing of 'a 0 .'; is it the one of this model?")
        outputs = self._graph.run(batch[1])
        count = len(next(iter(batch[1].values())))
        name = choose_output(outputs, count, Path(self.path))
        return name, outputs[name]

    @cached_property
    def _weights(self) -> str:
        path = Path(self.path)
        digests = [sha256_of_file(path), *(sha256_of_file(path.parent / name) for name in _other_files(path))]
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def load_onnx(place: Path, *, device: str = "cpu", max_length: int | None = None) -> OnnxEmbedder:
    """Load a graph, or the one in a folder, and see whether it gives sentence vectors.

    Raises:
        MissingExtraError: when onnxruntime is not installed.
        InputError: when there is no graph, it is broken, or it gives no sentence vectors.
    """
    graph = _find_graph(place)
    record = next((graph.parent / name for name in (_RECORD, EXPORTED) if (graph.parent / name).is_file()), None)
    name, saved_length = _read_record(record) if record else (_name_of(place), None)
    embedder = OnnxEmbedder(graph, name=name, max_length=saved_length if max_length is None else max_length, device=device)
    embedder.encode([])
    return embedder


def is_onnx(place: Path) -> bool:
    """Whether a path names a graph, or a folder with one that is neither an encoder nor of sentence-transformers."""
    if not place.is_dir():
        return place.suffix in _SUFFIXES
    if is_exported(place):
        return True
    is_other = (place / "config.json").is_file() or (place / "modules.json").is_file()
    return not is_other and bool(_graphs_in(place))


def _graphs_in(folder: Path) -> list[Path]:
    return [path for pattern in ("*.onnx", "*.xml", "onnx/*.onnx") for path in sorted(folder.glob(pattern))]


def _format_of(graph: Path) -> str:
    return "openvino" if graph.suffix == ".xml" else "onnx"


def _other_files(graph: Path) -> list[Path]:
    """The files beside a graph that hold its weights, relative to its folder."""
    return [Path(graph.with_suffix(".bin").name)] if graph.suffix == ".xml" else external_files(graph)


def _find_graph(place: Path) -> Path:
    if place.is_file():
        return place
    if not place.exists():
        raise InputError(f"{place}: no such file or folder; fetch the ONNX model first, and give the folder or file")
    graphs = _graphs_in(place)
    graph = next((graph for graph in graphs if graph.name in GRAPHS.values()), graphs[0] if len(graphs) == 1 else None)
    if graph is None:
        found = ", ".join(str(graph.relative_to(place)) for graph in graphs) or "none"
        raise InputError(f"'{place}' holds neither model.onnx nor onnx/model.onnx; give the file itself (found: {found})")
    return graph


def _name_of(place: Path) -> str:
    """The name of a folder or file; ``model.onnx`` and ``onnx`` go by the folder that they are in."""
    whole = place.absolute()
    parts = (whole.with_suffix("") if place.is_file() else whole).parts
    return [part for part in parts if part not in ("model", "onnx")][-1]


def _read_record(path: Path) -> tuple[str, int | None]:
    try:
        record = read_json(path)
        return str(record["name"]), record["max_length"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the record of an ONNX model ({type(error).__name__} {error})") from error
