"""Products in int8 against the same rounding in plain numpy."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13 as ops

from selfguide.embedders.openvino_graph import GROUP_SIZE, compile_graph, is_int8, round_columns, round_weights, try_int8
from selfguide.exporting import onnx_file

DRAWS = np.random.default_rng(0)


def rounded_product(states, weights, group, weight_group):
    """Row by row, group by group."""
    found = np.zeros((len(states), weights.shape[1]))
    for row in range(len(states)):
        for start in range(0, len(weights), group):
            part = states[row, start : start + group].astype(np.float64)
            scale = max(np.abs(part).max(), 1e-12) / 127
            whole = np.round(part / scale)
            block = (start // weight_group) * weight_group
            columns = np.abs(weights[block : block + weight_group]).max(axis=0) / 127
            found[row] += whole * scale @ (np.round(weights[start : start + group] / columns) * columns)
    return found


def has_vnni():
    """Whether the processor multiplies whole numbers of 8 bits."""
    path = Path("/proc/cpuinfo")
    return path.is_file() and re.search("avx512_vnni|avx_vnni", path.read_text()) is not None


@pytest.mark.parametrize("width", [64, 768, 1536, 1000])
def test_onnx(width):
    states = DRAWS.normal(size=(7, width)).astype(np.float32)
    states[2] *= 50  # a token with large numbers does not spoil the others
    weights = DRAWS.normal(size=(width, 24)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("MatMul", ["x", "w2"], ["z"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 24]) for name in ("y", "z")],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(-weights, "w2")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    assert onnx_file.round_products(model) == 2
    onnx.checker.check_model(model)
    found, negative = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": states})
    group = {64: 64, 768: 768, 1536: 768, 1000: 500}[width]
    np.testing.assert_allclose(found, rounded_product(states, weights, group, group), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(negative, -found, atol=1e-3)
    exact = states @ weights
    assert 0 < np.abs(found - exact).max(axis=1)[0] < 0.05 * np.abs(exact[0]).max()


def test_openvino():
    width = 2 * GROUP_SIZE
    states = DRAWS.normal(size=(1, 9, width)).astype(np.float32)
    weights = DRAWS.normal(size=(width, 64)).astype(np.float32)
    rows = ops.parameter([-1, -1, width], np.float32)
    model = openvino.Model([ops.matmul(rows, ops.constant(weights), False, False)], [rows])
    assert not is_int8(model)
    assert round_weights(model) == 1 and is_int8(model)
    found = compile_graph(model)({0: states})[0][0]
    exact = states[0] @ weights
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()
    group = GROUP_SIZE if has_vnni() else 1  # without these instructions, OpenVINO rounds the weights alone
    np.testing.assert_allclose(found, rounded_product(states[0], weights, group, width), atol=0.002 * np.abs(exact).max())


def test_rounded_columns():
    weights = DRAWS.normal(size=(5, 3)).astype(np.float32)
    weights[:, 1] = 0
    whole, scales = round_columns(weights, axis=0)
    assert whole.dtype == np.int8 and np.abs(whole).max(axis=0).tolist() == [127, 0, 127]
    assert np.abs(whole * scales - weights).max() <= scales.max() / 2 + 1e-7


def test_the_trial_runs_here():
    try_int8()


def test_ctrl_c_does_no_harm_after_two_graphs():
    """In a process of its own, since what this guards against is a segmentation fault."""
    code = """
import faulthandler, gc, os, signal
import numpy as np
from openvino import Model, opset13 as ops
from selfguide.embedders.openvino_graph import compile_graph

faulthandler.enable()  # as pytest does: handlers of signals then run on a stack of their own
rows = ops.parameter([-1, 4], np.float32)
first = compile_graph(Model([ops.relu(rows)], [rows]))
second = compile_graph(Model([ops.relu(rows)], [rows]))
del first
gc.collect()
del second
gc.collect()
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
os.kill(os.getpid(), signal.SIGINT)
print(len(asked))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
