"""What ONNX Runtime allocates for eighteen networks, against the arena, and fit at the answer and a sample above it.

``tests/data/onnxruntime_memory.csv`` was measured with ONNX Runtime 1.32.0 on a CPU: the highest
``mem_bytes_requested_in_use`` above its value before the first node, of the second run in the profile
(``SessionOptions.enable_profiling``), with ``ORT_DISABLE_ALL``, ``enable_mem_pattern = False`` and
``session.disable_prepacking = 1``, of ``onnx.save(NETWORKS[network](), path)`` with weights of zeros.
"""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from costcore import estimate, fit
from tests.frontends.onnx.fit_networks import NETWORKS
from tests.whole_networks.onnx_models import make_model

FILE = Path(__file__).parents[2] / "data" / "onnxruntime_memory.csv"

MEASURED: dict[str, dict[int, int]] = {name: {} for name in NETWORKS}
for row in csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()):
    MEASURED[row["network"]][int(row["batch"])] = int(row["bytes"])

LAYOUTS = ("mlp", "scores")
"""Their layout, in which no activation is written over its operand, is more than ONNX Runtime allocates."""


def arena(name, batch):
    return estimate(NETWORKS[name](), dims={"batch": batch}).arena(1, count_inputs=False)


@pytest.mark.parametrize("name", NETWORKS)
def test_buffers_are_those_of_the_runtime(name):
    for batch in (1, 2, 6):
        assert arena(name, batch).peak_with_reuse == MEASURED[name][batch]


@pytest.mark.parametrize("name", NETWORKS)
def test_fit_is_true_at_the_answer_and_false_a_sample_above_it(name):
    """The target is what a batch of 3 needs: ONNX Runtime needs no more with weights and input, and more for 4."""
    model = NETWORKS[name]()
    (x,) = model.graph.input
    sample = 4 * prod(axis.dim_value for axis in x.type.tensor_type.shape.dim[1:])
    needs = fit(model, None, 1, dims={"batch": 3}, suggestions=False, align=1).needs["memory"]
    for batch, fits in ((3, True), (4, False)):
        assert fit(model, None, needs, dims={"batch": batch}, suggestions=False, align=1).fits is fits
        if fits or name not in LAYOUTS:
            assert (MEASURED[name][batch] + sample * batch + arena(name, 1).weights <= needs) is fits


def graph(y: str, *lines: str, opset: int = 22, **stored: np.ndarray) -> ModelProto:
    """A graph of ``x``, float32[16, 64], from lines such as ``a, b = Split(x) axis=1``."""
    nodes = []
    for line in lines:
        left, right = line.split(" = ")
        call, *attributes = right.split(") ")
        op, operands = call.rstrip(")").split("(")
        given = {key: int(value) for key, value in (each.split("=") for each in " ".join(attributes).split())}
        nodes.append(helper.make_node(op, operands.split(", "), left.split(", "), **given))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (16, 64))
    dtype, shape = y.split(" ", 1)
    output = helper.make_tensor_value_info("y", getattr(TensorProto, dtype), tuple(map(int, shape.split())))
    weights = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    return make_model(helper.make_graph(nodes, "graph", [x], [output], weights), opset)


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


RESHAPED = ("b = Reshape(x, t)", "c = Exp(b)", "d = Relu(c)", "y = MatMul(d, w)")

SCATTERED = {"i": zeros(1, 64, dtype="int64"), "u": zeros(1, 64), "w": zeros(64, 8)}


# measured with ONNX Runtime 1.32.0, like the networks; x has 4,096 bytes
@pytest.mark.parametrize(
    ("made", "nbytes"),
    [
        # depth first, the last operand of Add first: b 16,384 and c, then a, c and y; not a, b and c at once
        (
            graph(
                "FLOAT 16 64",
                *("a = Exp(x)", "b = MatMul(x, w)", "c = MatMul(b, v)", "y = Add(a, c)"),
                w=zeros(64, 256),
                v=zeros(256, 64),
            ),
            16_384 + 4_096,
        ),
        # what the model returns has memory of its own: a and y, a view or an activation of it
        (graph("FLOAT 64 16", "a = Exp(x)", "y = Reshape(a, s)", s=np.array([64, 16])), 2 * 4_096),
        (graph("FLOAT 16 64", "a = Exp(x)", "y = Relu(a)"), 2 * 4_096),
        # b is never read and never freed: b 2,048, c 1,024, d 8,192
        (
            graph(
                "FLOAT 16 8",
                *("a, b = Split(x) axis=1 num_outputs=2", "c = MatMul(a, u)", "d = MatMul(c, w)", "y = MatMul(d, v)"),
                u=zeros(32, 16),
                w=zeros(16, 128),
                v=zeros(128, 8),
            ),
            2_048 + 1_024 + 8_192,
        ),
        # c takes the memory of b, so that it is freed with c: a, b, and then d and y
        (
            graph(
                "FLOAT 16 8",
                *("a, b = Split(x) axis=1 num_outputs=2", "c = Exp(a)", "d = MatMul(c, w)", "y = MatMul(d, v)"),
                w=zeros(32, 32),
                v=zeros(32, 8),
            ),
            2 * 2_048,
        ),
        # a cast to elements of the same size is written over its operand: a, and c of one byte each
        (
            graph(
                "INT32 16 8",
                *("a = Exp(x)", "b = Cast(a) to=6", "c = Cast(b) to=3", "y = MatMulInteger(c, w)"),
                w=zeros(64, 8, dtype="int8"),
            ),
            4_096 + 1_024,
        ),
        # int32 takes the buffer of float32, which waits for it: at d, 8,192 of int64, 128 of c, and 4,096
        (
            graph(
                "INT32 1 1",
                *("a = Exp(x)", "b = MatMul(a, w)", "c = ArgMax(b) axis=1", "d = Expand(c, s)"),
                *("e = Cast(d) to=6", "y = ReduceSum(e)"),
                w=zeros(64, 64),
                s=np.array([16, 64]),
            ),
            8_192 + 128 + 4_096,
        ),
        # ScatterElements is written over its first operand: a, and y
        (graph("FLOAT 16 8", "a = Exp(x)", "b = ScatterElements(a, i, u)", "y = MatMul(b, w)", **SCATTERED), 4_608),
        # a shape that Identity or Mul makes is not known before the run, so that Relu has a result of its own: c and d
        (graph("FLOAT 16 8", "s = Shape(x)", "t = Identity(s)", *RESHAPED, w=zeros(64, 8)), 2 * 4_096),
        (graph("FLOAT 16 8", "s = Shape(x)", "t = Mul(s, o)", *RESHAPED, w=zeros(64, 8), o=np.array([1])), 2 * 4_096),
        # one that Concat makes is
        (graph("FLOAT 16 8", "s = Shape(x)", "t = Concat(s) axis=0", *RESHAPED, w=zeros(64, 8)), 4_096 + 512),
        # unknown sizes are those of a larger operand: d, which Relu is written over
        (
            graph(
                "FLOAT 16 8",
                *("s = Shape(x)", "t = Identity(s)", "b = Reshape(x, t)", "d = Add(b, k)", "e = Relu(d)"),
                "y = MatMul(e, w)",
                w=zeros(64, 8),
                k=zeros(16, 64),
            ),
            4_096 + 512,
        ),
        # a vector of unknown size times a matrix: c, and 32 bytes of d
        (
            graph(
                "FLOAT 8",
                *("s = Size(x)", "t = Mul(s, o)", "b = Reshape(x, t)", "c = Exp(b)", "d = MatMul(c, w)", "y = Relu(d)"),
                w=zeros(1024, 8),
                o=np.array([1]),
            ),
            4_096 + 32,
        ),
        # Swish runs as Sigmoid and Mul: a, the sigmoid of it, b
        (graph("FLOAT 16 8", "a = Exp(x)", "b = Swish(a)", "y = MatMul(b, w)", opset=24, w=zeros(64, 8)), 3 * 4_096),
    ],
)
def test_a_rule_of_the_runtime(made, nbytes):
    assert estimate(made).arena(1, count_inputs=False).peak_with_reuse == nbytes
