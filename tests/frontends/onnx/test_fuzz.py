"""Damaged models are refused with an error of ours that says where, or read and counted, and it does not take long.

``COSTCORE_FUZZ=100000`` asks for more cases than the suite has time for; the number of a case is its seed.
"""

from __future__ import annotations

import os
import warnings
from random import Random

import pytest
from onnx import TensorProto, helper

from costcore import CostError, estimate
from tests.frontends.onnx.mutations import MUTATIONS
from tests.frontends.onnx.small_models import branches, local_function, loop, node, with_functions
from tests.whole_networks.onnx_models import Graph, encoder, unet
from tests.work import at_most

CASES = int(os.environ.get("COSTCORE_FUZZ", "2000"))
MOST = 2_000_000
"""Functions that one case may call."""


def quantized() -> bytes:
    g = Graph()
    scale, zero = g.number(0.5, dtype=TensorProto.FLOAT, scalar=True), g.number(0, dtype=TensorProto.INT8, scalar=True)
    g.stored.append(helper.make_tensor("w", TensorProto.INT8, (4, 3, 1, 1), range(12)))
    x = g("DequantizeLinear", g("QuantizeLinear", "x", scale, zero), scale, zero)
    y = g("Conv", x, g("DequantizeLinear", "w", scale, zero))
    return g.model({"x": ("n", 3, 8, 8)}, y).SerializeToString()


def functions() -> bytes:
    twice = [node("Inner", ["a"], ["m"], domain="local", slope=0.5), node("Inner", ["m"], ["b"], domain="local")]
    leaky = node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    return with_functions(
        local_function("Inner", leaky), local_function("Outer", *twice), call="Outer"
    ).SerializeToString()


def shapes() -> bytes:
    g = Graph()
    x = g("Resize", "x", "", g.number(1.0, 1.0, 2.0, 2.0, dtype=TensorProto.FLOAT))
    parts = g("Split", g("Pad", x, g.number(0, 0, 1, 1, 0, 0, 1, 1)), g.number(1, 2), outputs=2, axis=1)
    y = g("Concat", g("Tile", parts[0], g.number(1, 2, 1, 1)), parts[1], axis=1)
    index = g("Range", g.number(0, scalar=True), g.number(3, scalar=True), g.number(1, scalar=True))
    y = g("Gather", g("Expand", y, g.number(2, 4, 1, 1)), index, axis=1)
    y = g("ReduceMean", g("Transpose", y, perm=[0, 2, 3, 1]), g.number(1, 2), keepdims=0)
    steps = g("Unsqueeze", y, g.number(0))
    outputs = g("LSTM", steps, g.weight(1, 16, 3), g.weight(1, 16, 4), hidden_size=4, outputs=3)
    z = g("Where", g("Greater", outputs[1], outputs[2]), g("Gemm", y, g.weight(4, 3), transB=1), outputs[2])
    return g.model({"x": (2, 3, 4, "w")}, g("TopK", g("NonZero", z), g.number(1), outputs=2)[0]).SerializeToString()


def settings() -> bytes:
    """Operators whose attributes are words or small numbers, or whose inputs must have so many dimensions."""
    g = Graph(24)
    x = g("GridSample", "x", g.weight(1, 4, 4, 2), mode="cubic", padding_mode="border")
    x = g("GroupNormalization", x, g.weight(4), g.weight(4), num_groups=2)
    x = g("GroupNorm", x, g.weight(4), g.weight(4), domain="com.microsoft", groups=2, channels_last=0)
    boxes = g("RoiAlign", x, g.weight(3, 4), g.number(0, 0, 0), mode="max", output_height=2, output_width=2)
    blocks = g("Col2Im", g("Reshape", x, g.number(1, 4, -1)), g.number(4, 4), g.number(1, 1), strides=[1, 1])
    heads = g("RotaryEmbedding", x, g.weight(1, 4, 2), g.weight(1, 4, 2), interleaved=1)
    attended = g("Attention", heads, heads, heads, is_causal=1)
    scattered = g("ScatterND", attended, g.number(0), g.weight(4, 4), reduction="add")
    loss = g("SoftmaxCrossEntropyLoss", scattered, g("ArgMax", scattered, axis=1, keepdims=0), reduction="sum")
    spectrum = g("DFT", g("Reshape", x, g.number(4, 4, 4, 1)), "", g.number(1, scalar=True), onesided=1)
    flat = g("Reshape", x, g.number(4, 4, 4))
    gates = g("CausalConvWithState", flat, g.weight(4, 1, 3), activation="silu", outputs=2)
    memory = g("LinearAttention", flat, flat, flat, q_num_heads=2, kv_num_heads=2, update_rule="linear", outputs=2)
    kept = g("NonMaxSuppression", g.weight(1, 6, 4), g.weight(1, 2, 6), g.number(3))
    outputs = (boxes, blocks, loss, spectrum, gates[0], memory[0], kept)
    return g.model({"x": (1, 4, 4, 4)}, outputs).SerializeToString()


MODELS = (
    encoder("n", "t", vocabulary=5).SerializeToString(),
    unet("n", 4, 1, 20).SerializeToString(),
    branches(1, 3, "c").SerializeToString(),
    loop("m").SerializeToString(),
    *(make() for make in (quantized, functions, shapes, settings, settings)),
)

PLACES = (
    "node ",
    " that produces ",
    "input ",
    "initializer ",
    "graph output ",
    "a dimension ",
    "a function ",
    "several functions are named ",
    "the graph ",
    "inputs ",
)
"""What an error names, besides limits of the whole model."""


@pytest.mark.parametrize("part", range(8))
def test_damaged_models_are_read_or_refused(part):
    for seed in range(part, CASES, 8):
        random = Random(seed)
        content = random.choice(MUTATIONS)(random.choice(MODELS), random)
        with warnings.catch_warnings(), at_most(MOST):
            warnings.simplefilter("ignore")  # unknown operators are what is meant
            try:
                estimate(content, regroup=random.random() < 0.5)
            except CostError as error:
                ours = ("the model: ", f"{len(content)} bytes is not an ONNX model: ")
                assert str(error).startswith(ours), seed
                assert str(error).startswith(ours[1]) or any(place in str(error) for place in PLACES), (seed, error)
            except Exception as error:
                raise AssertionError(f"case {seed}") from error
