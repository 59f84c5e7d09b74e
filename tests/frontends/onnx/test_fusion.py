"""Fused traffic of files: values that an operator reads beside the operands of its layer."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.frontend("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from costcore import estimate  # noqa: E402

np = pytest.importorskip("numpy")

MAP = 4 * 4 * 8 * 8  # bytes of [1, 4, 8, 8]
SCALE_AND_SHIFT = 2 * 4 * 4  # bytes of two numbers per channel, which a norm of inference applies


def model(*nodes):
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 8, 8))],
        [
            *(numpy_helper.from_array(np.ones(4, np.float32), name) for name in ("w", "b", "mean", "var")),
            *(numpy_helper.from_array(np.array(value, np.float32), f"i{value}") for value in (0, 6)),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


NORM = helper.make_node("BatchNormalization", ["x", "w", "b", "mean", "var"], ["n"])
CLIP = helper.make_node("Clip", ["n", "low", "high"], ["y"])


def test_a_type_that_is_taken_from_a_value_does_not_write_it():
    """ReLU6, as an exporter writes it: the bounds take their type from the map, whose elements nobody needs."""
    low, high = (helper.make_node("CastLike", [f"i{i}", "n"], [name]) for i, name in ((0, "low"), (6, "high")))
    report = estimate(model(NORM, low, high, CLIP))
    # unfused: the norm and the clip each read and write the map
    assert report.total_report["mrw"] == 4 * MAP + SCALE_AND_SHIFT
    assert report.fused("pointwise").total_report["mrw"] == 2 * MAP + SCALE_AND_SHIFT
