"""A module as a file of ONNX, and its products in int8."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfguide.bulk.first_token_graph import no_warnings
from selfguide.embedders.onnx_graph import SENTENCE_OUTPUT
from selfguide.embedders.openvino_graph import round_columns
from selfguide.errors import InputError, MissingExtraError
from selfguide.exporting.positions import looked_up_positions
from selfguide.exporting.source import Source

GROUP_SIZE = 768
"""Numbers of a token that share a scale in int8, at most; smaller groups would be more products."""

_LARGEST_FILE = 1_900_000_000
"""Bytes of weights that fit into one file of ONNX; more go into another beside it."""


def write_onnx(source: Source, path: Path, *, int8: bool) -> None:
    """Write a file of ONNX that takes any number and length of rows.

    Raises:
        MissingExtraError: when onnx, onnxscript or onnxruntime is not installed.
        InputError: when torch cannot turn this model into a graph.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401 - what was written is opened with it
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError as error:
        raise MissingExtraError(
            f"an export to ONNX needs {error.name}, which is not installed: pip install 'selfguide[export]'"
        ) from error
    size = sum(tensor.nbytes for tensor in source.model.state_dict().values())
    program = _exported(source)
    if int8:
        graph = program.model_proto
        round_products(graph)
        onnx.save(graph, path, save_as_external_data=size > 2 * _LARGEST_FILE, location=f"{path.name}.data")
    else:
        program.save(str(path), external_data=size > _LARGEST_FILE)


def _exported(source: Source) -> Any:  # noqa: ANN401 - torch.onnx has few types
    example = tuple(torch.ones(2, 5, dtype=torch.long) for _ in source.inputs)
    shapes = tuple({0: "n", 1: "tokens"} for _ in source.inputs)
    try:
        with torch.no_grad(), no_warnings(), _quiet("torch.onnx"), looked_up_positions(source.model):
            return torch.onnx.export(
                source.graph,
                example,
                dynamo=True,
                input_names=list(source.inputs),
                output_names=[SENTENCE_OUTPUT],
                dynamic_shapes=shapes,
                verbose=False,
            )
    except Exception as error:  # the exporter raises what it meets, and names no class for it
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"torch cannot turn this {type(source.model).__name__} into a graph of ONNX, from which that of OpenVINO is "
            f"made, too ({reason}); use the model itself, or another one"
        ) from error


def round_products(model: Any) -> int:  # noqa: ANN401 - onnx has no types
    """Bring every product with a matrix of weights to int8, in place; gives their number.

    The weights are whole numbers with a scale a column. What they are multiplied with is rounded as it comes, with a scale
    for each token and :data:`GROUP_SIZE` numbers: ``x W = s_x * (round(x / s_x) Q) * s_W``. onnxruntime's own dynamic int8
    has one scale for a whole batch, so that a vector depends on the other sentences of its batch, and one token with large
    numbers spoils all (``docs/log.md``).
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    rounder = _Rounder()
    replaced: set[str] = set()
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in weights:
            nodes.append(node)
            continue
        replaced.add(node.input[1])
        nodes += rounder.product(node.input[0], numpy_helper.to_array(weights[node.input[1]]), node.output[0])
    still_used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name not in replaced or tensor.name in still_used]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *rounder.constants])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return len(replaced)


class _Rounder:
    """Makes the nodes of products in int8; what goes into several products is rounded once."""

    def __init__(self) -> None:
        self.constants: list[Any] = []
        self._rounded: dict[tuple[str, int], list[tuple[str, str]]] = {}
        self._zero = self._constant("int8_zero", np.array(128, np.uint8))
        self._one = self._constant("int8_one", np.array(1, np.float32))
        self._most = self._constant("int8_most", np.array(127, np.float32))
        self._least = self._constant("int8_least", np.array(1e-12, np.float32))
        self._last = self._constant("int8_last_axis", np.array([-1]))

    def product(self, states: str, weights: np.ndarray[Any, Any], output: str) -> list[Any]:
        """Nodes for ``output = states @ weights``."""
        parts = _parts(len(weights))
        nodes = self._round(states, parts)
        terms = []
        for number, part in enumerate(np.split(weights, parts)):
            rounded, scales = round_columns(part, axis=0)
            name = f"{output}_{number}"
            matrix, columns = self._constant(f"{name}_weights", rounded), self._constant(f"{name}_scales", scales[0])
            states_int8, rows = self._rounded[states, parts][number]
            inputs = [states_int8, matrix, self._one, columns, self._zero]
            nodes.append(_node("MatMulIntegerToFloat", inputs, f"{name}_product", domain="com.microsoft"))
            terms.append(output if parts == 1 else f"{name}_term")
            nodes.append(_node("Mul", [f"{name}_product", rows], terms[-1]))
        return [*nodes, _node("Sum", terms, output)] if parts > 1 else nodes

    def _round(self, states: str, parts: int) -> list[Any]:
        """Nodes that round states, where that was not done before."""
        if (states, parts) in self._rounded:
            return []
        names = [f"{states}_{number}_of_{parts}" for number in range(parts)]
        nodes = [_node("Split", [states], *names, axis=-1, num_outputs=parts)] if parts > 1 else []
        for name, part in zip(names, names if parts > 1 else [states], strict=True):
            nodes += [
                _node("Abs", [part], f"{name}_sizes"),
                _node("ReduceMax", [f"{name}_sizes", self._last], f"{name}_size", keepdims=1),
                _node("Max", [f"{name}_size", self._least], f"{name}_range"),
                _node("Div", [f"{name}_range", self._most], f"{name}_scale"),
                _node("Div", [part, f"{name}_scale"], f"{name}_scaled"),
                _node("QuantizeLinear", [f"{name}_scaled", self._one, self._zero], f"{name}_int8"),
            ]
        self._rounded[states, parts] = [(f"{name}_int8", f"{name}_scale") for name in names]
        return nodes

    def _constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(value, name))
        return name


def _parts(rows: int) -> int:
    """Number of equal parts, the fewest of at most :data:`GROUP_SIZE` rows each."""
    return next(parts for parts in range(1, rows + 1) if rows % parts == 0 and rows // parts <= GROUP_SIZE)


def _node(kind: str, inputs: list[str], *outputs: str, **attributes: Any) -> Any:  # noqa: ANN401
    from onnx import helper

    return helper.make_node(kind, inputs, list(outputs), **attributes)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a library's logger to errors meanwhile."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
