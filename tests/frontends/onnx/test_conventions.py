"""Conventions on ONNX models: those that go by operators work, also on symbols; those that go by modules refuse."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import costcore
from costcore import CostError, estimate
from tests.whole_networks.onnx_models import vgg16

BY_OPERATOR = [name for name, convention in costcore.conventions().items() if not convention.needs_modules]
BY_MODULE = [name for name, convention in costcore.conventions().items() if convention.needs_modules]
CLOSED_FORMS = [
    name for name, convention in costcore.conventions().items() if any(each.by == "whole" for each in convention.counts)
]
"""Conventions that need attention, which VGG16 does not have."""

VGG16 = {
    "macs": 15_470_264_320,  # 15,346,630,656 of convolutions and 123,633,664 of linear layers
    "torch": 30_940_528_640,
    "fvcore": 15_470_264_320,
    "torchprofile": 15_470_264_320,
    # a bias for each of the 13,547,520 outputs of convolutions (64 * 224² twice … 512 * 14² thrice) and 9,192 of linear
    "ptflops-aten": 15_470_264_320 + 13_547_520 + 9_192,
    "chainer-computational-cost": 15_488_423_327,
}


@pytest.fixture(scope="module")
def fixed():
    return estimate(vgg16())


@pytest.fixture(scope="module")
def symbolic():
    return estimate(vgg16("batch"))


@pytest.mark.parametrize("name", VGG16)
def test_vgg16(fixed, name):
    assert fixed.under(name).total == VGG16[name]


@pytest.mark.parametrize("name", [name for name in BY_OPERATOR if name not in CLOSED_FORMS])
def test_a_symbolic_batch_gives_an_expression(symbolic, name):
    view = symbolic.under(name)
    (batch,) = view.total.free_symbols
    for size in (1, 5):
        assert view.total.subs(batch, size) == symbolic.subs(batch=size).under(name).total
    assert symbolic.subs(batch=1).under(name).total == estimate(vgg16(1)).under(name).total


@pytest.mark.parametrize("name", BY_MODULE)
def test_what_goes_by_modules_refuses_with_the_reason(fixed, name):
    with pytest.raises(CostError, match=f"convention '{name}' counts by the modules and functions of PyTorch, which"):
        fixed.under(name)


def node_model(op, inputs, shape, **attributes):
    """A model of one node on float inputs of these shapes."""
    names = [f"x{i}" for i in range(len(inputs))]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, inputs, strict=True)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", values, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize(
    ("op", "inputs", "shape", "expected", "attributes"),
    [
        ("Tanh", [(2, 3)], (2, 3), 6 * 76, {}),
        ("Softmax", [(2, 3)], (2, 3), 6 * 36, {}),
        ("Gelu", [(2, 3)], (2, 3), 6 * 34, {}),
        ("Sum", [(2, 3)] * 4, (2, 3), 6 * 3, {}),
        ("Add", [(2, 3), (3,)], (2, 3), 6, {}),
        ("MatMul", [(2, 3), (3, 5)], (2, 5), 2 * 5 * 3, {}),
        ("Gemm", [(2, 3), (3, 5), (5,)], (2, 5), 2 * 5 * 3 + 10, {}),
        ("Conv", [(1, 4, 5, 5), (6, 2, 3, 3)], (1, 6, 3, 3), 54 * 2 * 9, {"group": 2}),
        ("GlobalAveragePool", [(1, 4, 5, 5)], (1, 4, 1, 1), 100 + 4 * 4, {}),
        ("Reshape", [(2, 3), (1,)], (6,), 0, {}),
    ],
)
def test_instruction_estimates_of_onnx_tool(op, inputs, shape, expected, attributes):
    model = node_model(op, inputs, shape, **attributes)
    if op == "Reshape":
        model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    assert estimate(model).under("onnx-tool").total == expected


OPCOUNTER = [
    ("Conv", [(1, 4, 5, 5), (6, 2, 3, 3), (6,)], (1, 6, 3, 3), 54 * 2 * 9, {"group": 2}),  # no bias
    (
        "ConvTranspose",
        [(1, 4, 3, 3), (4, 3, 2, 2)],
        (1, 6, 4, 4),
        96 * 2 * 4,
        {"group": 2},
    ),  # its inputs by its outputs
    ("Gemm", [(2, 3), (3, 5), (5,)], (2, 5), 2 * 3 * 5, {}),
    ("Gemm", [(3, 2), (3, 5)], (2, 5), 3 * 2 * 5, {"transA": 1}),
    ("MatMul", [(4, 2, 3), (3, 5)], (4, 2, 5), 4 * 2 * 3 * 5, {}),
    ("MatMul", [(2, 3), (3,)], (2,), 2 * 3 * 2, {}),  # by the last dimension of the output, which is no column here
    ("BatchNormalization", [(2, 4, 3, 3), (4,), (4,), (4,), (4,)], (2, 4, 3, 3), 72 * 2, {}),
    ("Relu", [(2, 3)], (2, 3), 6, {}),
    ("Add", [(3,), (2, 3)], (2, 3), 3, {}),  # elements of the first operand
    ("Mul", [(3,), (2, 3)], (2, 3), 6, {}),  # not in its table: elements of the output
    ("Softmax", [(2, 3)], (2, 3), 6, {}),
    ("MaxPool", [(1, 4, 6, 6)], (1, 4, 3, 3), 36, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Flatten", [(2, 3, 4)], (2, 12), 24, {}),
    ("Identity", [(2, 3)], (2, 3), 6, {}),
    ("Transpose", [(2, 3)], (3, 2), 0, {}),
    ("Upsample", [(1, 1, 2, 2)], (1, 1, 4, 4), 11 * 16, {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}),
    ("Upsample", [(1, 1, 2, 2)], (1, 1, 4, 4), 0, {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 2.0]}),
]
"""A node, and what ``calculate_macs`` of onnx-opcounter 0.0.4 printed of it."""


@pytest.mark.parametrize(("op", "inputs", "shape", "expected", "attributes"), OPCOUNTER)
def test_rules_of_onnx_opcounter(op, inputs, shape, expected, attributes):
    model = node_model(op, inputs, shape, **attributes)
    if op == "Upsample":  # scales are an attribute of version 7 only
        model.opset_import[0].version = 7
    assert estimate(model).under("onnx-opcounter").total == expected
