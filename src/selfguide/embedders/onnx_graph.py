"""A graph of ONNX, opened with onnxruntime: what goes in, what comes out, and the files that it is made of."""

import logging
import mmap
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.errors import InputError, MissingExtraError

logger = logging.getLogger(__name__)

SENTENCE_OUTPUT = "sentence_embedding"
"""Name of the sentence vectors in graphs that have several outputs."""

_DTYPES = {"tensor(string)": "object", "tensor(int64)": "int64", "tensor(int32)": "int32"}
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
_EXTENSIONS = "onnxruntime_extensions"
_LOCATION = re.compile(rb"\n\x08location\x12(?=([\x01-\x7f]|[\x80-\xff][\x01-\x1f]))")
"""Where a tensor names its file: an entry of protobuf with this key, and the number of bytes of the value that follows."""


@final
@dataclass(frozen=True)
class GraphInput:
    """An input of a graph."""

    name: str
    dtype: str
    """``object`` for text."""
    shape: tuple[int | None, ...]
    """None for a size that is free; empty where the graph does not tell."""


@final
class Graph:
    """An opened graph."""

    def __init__(self, path: Path, *, device: str) -> None:
        """Open a graph, on the CPU unless ``device`` is ``cuda`` and onnxruntime has its provider.

        Raises:
            MissingExtraError: when onnxruntime is not installed, or the extensions that this graph needs.
            InputError: when the file is broken.
        """
        self.path = path
        self._session = _open_session(path, device)
        self.inputs = {node.name: _as_input(node, path) for node in self._session.get_inputs()}
        self._outputs = [node.name for node in self._session.get_outputs()]

    @property
    def is_on_cuda(self) -> bool:
        """Whether it runs on a GPU."""
        return bool(self._session.get_providers()[0] == _CUDA)

    @cached_property
    def mixes_rows(self) -> bool:
        """Whether the vector of a row depends on the others: numbers quantised as they come are scaled by all of them."""
        with _bytes_of(self.path) as data:
            return data.find(b"DynamicQuantize") >= 0

    def run(self, feed: Mapping[str, npt.NDArray[Any]], outputs: list[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """The outputs of these names, or all."""
        names = outputs or self._outputs
        try:
            return dict(zip(names, self._session.run(names, dict(feed)), strict=True))
        except Exception as error:  # the errors of onnxruntime have no class in common
            raise InputError(f"the graph '{self.path}' failed on its input: {one_line(error)}") from error


def choose_output(outputs: Mapping[str, npt.NDArray[Any]], count: int, path: Path) -> str:
    """The output that holds the vectors of ``count`` sentences.

    Raises:
        InputError: when there is none, or more than one could be it.
    """
    floats = {name: array for name, array in outputs.items() if np.issubdtype(array.dtype, np.floating)}
    vectors = [name for name, array in floats.items() if array.ndim == 2 and len(array) == count]
    if SENTENCE_OUTPUT in vectors:
        return SENTENCE_OUTPUT
    if len(vectors) == 1:
        if len(outputs) > 1:
            logger.warning("of the outputs of '%s' (%s), '%s' is taken", path, ", ".join(outputs), vectors[0])
        return vectors[0]
    if vectors:
        raise InputError(
            f"'{path}' has several outputs (n, dim): {', '.join(vectors)}; name one of them '{SENTENCE_OUTPUT}'"
        )
    if any(array.ndim == 3 for array in floats.values()):
        raise InputError(
            f"'{path}' gives only token states ({', '.join(floats)}), no sentence vectors; export it with the pooling "
            "inside the graph, or use --embedder mean on the encoder that it was made from"
        )
    raise InputError(f"'{path}' has no output of floats (n, dim); its outputs are: {', '.join(outputs)}")


def external_files(path: Path) -> list[Path]:
    """The files beside a graph that hold its weights, relative to its folder; most graphs have none.

    Raises:
        InputError: when one lies outside the folder.
    """
    with _bytes_of(path) as data:
        found = {_value_at(data, match.end()) for match in _LOCATION.finditer(data)}
    outside = [name for name in sorted(found) if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise InputError(f"'{path}' has weights outside its folder, in '{outside[0]}'; put them beside it")
    return [Path(name) for name in sorted(found) if (path.parent / name).is_file()]


@contextmanager
def _bytes_of(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _value_at(data: mmap.mmap, start: int) -> str:
    """A text of protobuf: its number of bytes, seven bits a byte, and the bytes."""
    first, second = data[start], data[start + 1]
    size, start = (first, start + 1) if first < 128 else (first - 128 + 128 * second, start + 2)
    return data[start : start + size].decode("utf-8", "replace")


def _open_session(path: Path, device: str) -> Any:  # noqa: ANN401 - onnxruntime has no types
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            f"the ONNX model '{path}' needs onnxruntime, which is not installed: pip install 'selfguide[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised as well
    has_extensions = find_spec(_EXTENSIONS) is not None
    if has_extensions:
        from onnxruntime_extensions import get_library_path

        options.register_custom_ops_library(get_library_path())
    providers = [_CUDA, _CPU] if device == "cuda" and _CUDA in onnxruntime.get_available_providers() else [_CPU]
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # the errors of onnxruntime have no class in common
        if not has_extensions and "ai.onnx.contrib" in str(error):
            raise MissingExtraError(
                f"the graph '{path}' needs the operators of a package that is not installed: pip install "
                f"onnxruntime-extensions ({one_line(error)})"
            ) from error
        raise InputError(f"'{path}' cannot be opened as an ONNX model: {one_line(error)}") from error
    if device == "cuda" and session.get_providers()[0] != _CUDA:
        logger.warning("'%s' runs on the CPU: this onnxruntime has no CUDA; install onnxruntime-gpu in its place", path)
    return session


def _as_input(node: Any, path: Path) -> GraphInput:  # noqa: ANN401 - onnxruntime has no types
    if node.type not in _DTYPES:
        raise InputError(f"the input '{node.name}' of '{path}' is a {node.type}; text or token ids are needed")
    shape = tuple(size if isinstance(size, int) else None for size in node.shape)
    return GraphInput(node.name, _DTYPES[node.type], shape)


def one_line(error: Exception) -> str:
    """What an error says, in one line that is not too long."""
    return " ".join(str(error).split())[:300]
