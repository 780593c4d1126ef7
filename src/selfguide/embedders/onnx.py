"""Any ready model that was exported to ONNX with its pooling inside, such as the Universal Sentence Encoder."""

import hashlib
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.base import BaseEmbedder, check_sentences
from selfguide.embedders.onnx_graph import Graph, choose_output, external_files
from selfguide.embedders.onnx_inputs import TOKENIZER, Inputs, make_inputs, tokenizer_of
from selfguide.errors import InputError
from selfguide.files import atomic_folder, read_json, sha256_of_file, write_json

_GRAPH, _RECORD = "model.onnx", "onnx_embedder.json"


@final
class OnnxEmbedder(BaseEmbedder):
    """Vectors as a graph gives them; it is opened when it is first needed.

    A sentence of which the tokenizer leaves nothing gets the zero vector.

    Attributes:
        path: The file of the graph; where it takes token ids, ``tokenizer.json`` lies beside it or one folder above.
        name: In score rows.
        max_length: Longest input in tokens; by default what the tokenizer says, else 128.
        device: ``cuda``, or anything else for the CPU.
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
            shutil.copyfile(source, scratch / _GRAPH)
            for name in external_files(source):
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source.parent / name, scratch / name)
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
    def _graph(self) -> Graph:
        return Graph(Path(self.path), device=self.device)

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
        digests = [sha256_of_file(path), *(sha256_of_file(path.parent / name) for name in external_files(path))]
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def load_onnx(place: Path, *, device: str = "cpu", max_length: int | None = None) -> OnnxEmbedder:
    """Load a graph, or the one in a folder, and see whether it gives sentence vectors.

    Raises:
        MissingExtraError: when onnxruntime is not installed.
        InputError: when there is no graph, it is broken, or it gives no sentence vectors.
    """
    graph = _find_graph(place)
    name, saved_length = _read_record(graph.parent) if (graph.parent / _RECORD).is_file() else (_name_of(place), None)
    embedder = OnnxEmbedder(graph, name=name, max_length=saved_length if max_length is None else max_length, device=device)
    embedder.encode([])
    return embedder


def is_onnx(place: Path) -> bool:
    """Whether a path names a graph, or a folder with one that is neither an encoder nor of sentence-transformers."""
    if not place.is_dir():
        return place.suffix == ".onnx"
    is_other = (place / "config.json").is_file() or (place / "modules.json").is_file()
    return not is_other and bool(_graphs_in(place))


def _graphs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.onnx")) + sorted(folder.glob("onnx/*.onnx"))


def _find_graph(place: Path) -> Path:
    if place.is_file():
        return place
    if not place.exists():
        raise InputError(f"{place}: no such file or folder; fetch the ONNX model first, and give the folder or file")
    graphs = _graphs_in(place)
    graph = next((graph for graph in graphs if graph.name == _GRAPH), graphs[0] if len(graphs) == 1 else None)
    if graph is None:
        found = ", ".join(str(graph.relative_to(place)) for graph in graphs) or "none"
        raise InputError(f"'{place}' holds neither {_GRAPH} nor onnx/{_GRAPH}; give the file itself (found: {found})")
    return graph


def _name_of(place: Path) -> str:
    """The name of a folder or file; ``model.onnx`` and ``onnx`` go by the folder that they are in."""
    whole = place.absolute()
    parts = (whole.with_suffix("") if place.is_file() else whole).parts
    return [part for part in parts if part not in ("model", "onnx")][-1]


def _read_record(folder: Path) -> tuple[str, int | None]:
    try:
        record = read_json(folder / _RECORD)
        return str(record["name"]), record["max_length"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / _RECORD}: not the record of an ONNX model ({type(error).__name__} {error})") from error
