"""A graph of OpenVINO: opened, run, and its products brought to int8.

int8 means here: the weights of every product are whole numbers with one scale a column, and the numbers that they are
multiplied with are rounded as they come, in groups of :data:`GROUP_SIZE` within each token. So the vector of a sentence
does not depend on what else is in its batch, no sentences are needed to calibrate it, and a token with large numbers, as
every BERT has, costs the others nothing. What else was tried, and what it cost, is in
``docs/log.md``.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.onnx_graph import SENTENCE_OUTPUT, GraphInput, one_line
from selfguide.embedders.trial import check_cpu_computes
from selfguide.errors import InputError, MissingExtraError

GROUP_SIZE = 128
"""Numbers of a token that share a scale, chosen by the cosine with float32 and by time: 32 takes a quarter longer."""

_GROUPS = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
_WHOLE_NUMBERS = ("i8", "u8", "i4", "u4")


@final
class OpenvinoGraph:
    """An opened graph; it runs on the CPU, and on as many threads as OpenVINO thinks best."""

    is_on_cuda = False
    mixes_rows = False
    """Every row is rounded by itself."""

    def __init__(self, path: Path) -> None:
        """Open a graph.

        Raises:
            MissingExtraError: when openvino is not installed.
            InputError: when the file is broken, or the graph is of int8 and this CPU breaks down on it.
        """
        self.path = path
        import_openvino(f"the OpenVINO model '{path}'")
        try:
            model = _core().read_model(str(path))
        except Exception as error:  # the errors of openvino have no class in common
            raise InputError(f"'{path}' cannot be opened as an OpenVINO model: {one_line(error)}") from error
        if is_int8(model):
            check_cpu_computes("int8", f"the int8 model '{path}'")
        self._compiled = compile_graph(model)
        self.inputs = {port.any_name: _as_input(port) for port in self._compiled.inputs}

    def run(self, feed: Mapping[str, npt.NDArray[Any]], outputs: list[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """The outputs of these names, or all."""
        try:
            found = self._request.infer(dict(feed), share_inputs=True)
        except Exception as error:  # the errors of openvino have no class in common
            raise InputError(f"the graph '{self.path}' failed on its input: {one_line(error)}") from error
        named = {_name_of(port, number): array for number, (port, array) in enumerate(found.items())}
        return named if outputs is None else {name: named[name] for name in outputs}

    @cached_property
    def _request(self) -> Any:  # noqa: ANN401 - openvino has no types
        return self._compiled.create_infer_request()


def import_openvino(what: str) -> Any:  # noqa: ANN401 - openvino has no types
    """The package.

    Raises:
        MissingExtraError: when it is not installed.
    """
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError(f"{what} needs openvino, which is not installed: pip install 'selfguide[export]'") from error
    return openvino


def compile_graph(model: Any) -> Any:  # noqa: ANN401
    """Make a graph ready for this CPU; what is not int8 is computed in float32 on every machine."""
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if is_int8(model):
        options[_GROUPS] = GROUP_SIZE
    return _core().compile_model(model, "CPU", options)


@cache
def _core() -> Any:  # noqa: ANN401 - openvino has no types
    """The one Core of this process, which is never taken down.

    Each Core sets a stack for signals and puts back the one before when it goes. Of two that go in the order in which they
    came, the second puts back the freed stack of the first, and the next Ctrl-C is a segmentation fault.
    """
    return import_openvino("this model").Core()


def round_weights(model: Any) -> int:  # noqa: ANN401
    """Bring the weights of every product to int8, in place; gives the number of products.

    The word embeddings stay as they are: nothing is multiplied there.
    """
    from openvino import opset13 as ops

    count = 0
    for node in model.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        source = node.input_value(1).get_node()
        if source.get_type_name() != "Constant" or len(source.shape) != 2:
            continue
        rounded, scales = round_columns(source.data, axis=1 if node.get_attributes()["transpose_b"] else 0)
        weights = ops.multiply(ops.convert(ops.constant(rounded), "f32"), ops.constant(scales))
        node.input(1).replace_source_output(weights.output(0))
        count += 1
    model.set_rt_info(str(GROUP_SIZE), ["runtime_options", _GROUPS])  # for whoever else opens the file
    return count


def round_columns(weights: npt.NDArray[np.float32], *, axis: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Whole numbers from -127 to 127, and the scales, one for all numbers along ``axis``: ``weights = numbers * scales``."""
    scales = (np.maximum(np.abs(weights).max(axis=axis, keepdims=True), 1e-12) / 127).astype(np.float32)
    return np.clip(np.round(weights / scales), -127, 127).astype(np.int8), scales


def is_int8(model: Any) -> bool:  # noqa: ANN401
    """Whether some weights are whole numbers of 8 bits or fewer."""
    return any(
        node.get_type_name() == "Constant" and node.get_element_type().get_type_name() in _WHOLE_NUMBERS
        for node in model.get_ops()
    )


def try_int8() -> None:
    """Multiply by an int8 matrix, in several sizes; for a process that may break down.

    Raises:
        ArithmeticError: when the products are wrong.
    """
    openvino = import_openvino("int8")
    from openvino import opset13 as ops

    draws = np.random.default_rng(0)
    weights = draws.normal(size=(256, 1024)).astype(np.float32)
    rows = ops.parameter([-1, -1, 256], np.float32, name="rows")
    product = ops.matmul(rows, ops.constant(weights), transpose_a=False, transpose_b=False)
    model = openvino.Model([ops.gelu(product, "erf")], [rows])
    plain = compile_graph(model)
    round_weights(model)
    rounded = compile_graph(model)
    for shape in ((1, 1, 256), (1, 17, 256), (16, 64, 256)):
        states = draws.normal(size=shape).astype(np.float32)
        exact, found = (compiled({0: states})[0] for compiled in (plain, rounded))
        if np.abs(exact - found).max() > 0.1 * np.abs(exact).max():
            raise ArithmeticError("int8 products are wrong")


def _as_input(port: Any) -> GraphInput:  # noqa: ANN401
    shape = tuple(size.get_length() if size.is_static else None for size in port.get_partial_shape())
    return GraphInput(port.any_name, port.get_element_type().to_dtype().name, shape)


def _name_of(port: Any, number: int) -> str:  # noqa: ANN401
    names = port.get_names()
    if SENTENCE_OUTPUT in names:
        return SENTENCE_OUTPUT
    return min(names) if names else f"output {number}"
