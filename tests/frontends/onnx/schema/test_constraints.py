"""Nodes of the default domain whose operands or attributes do not fit: each is named, with what does not fit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from onnx import TensorProto

from costcore.errors import CostError
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph

KINDS = {int: TensorProto.INT64, float: TensorProto.FLOAT}

WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    # operator, operands (a shape, or the elements of a constant), attributes, what is said
    ("Add", [(2, 3), (2, 4)], {}, "cannot broadcast its inputs (2, 3) and (2, 4)"),
    ("Sum", [(2, 3), (1, 3), (4, 3)], {}, "cannot broadcast its inputs (2, 3) and (1, 3) and (4, 3)"),
    ("Cast", [(2, 3)], {"to": 99}, "has the unknown dtype 99"),
    ("Gelu", [(2, 3)], {"approximate": "sin"}, "has the approximation 'sin' (expected 'none' or 'tanh')"),
    ("Reshape", [(2, 3), [-1, -1]], {}, "cannot reshape to (-1, -1): at most one size may be -1"),
    ("Reshape", [(2, 3), [-2, 3]], {}, "cannot reshape to (-2, 3)"),
    ("Reshape", [(2, 3), [2, 4]], {}, "cannot reshape (2, 3) (6 elements) to (2, 4) (8)"),
    ("Reshape", [(2, 3), [4, -1]], {}, "cannot reshape (2, 3) (6 elements) to (4, 1) (4)"),
    ("Reshape", [(2, 3), [2, 3, 0]], {}, "copies a dimension that its input of shape (2, 3) does not have"),
    ("Reshape", [(2, 3), [0, 3]], {"allowzero": 1}, "cannot reshape (2, 3) (6 elements) to (0, 3) (0)"),
    ("Flatten", [(2, 3)], {"axis": 3}, "has axis 3, but its operand has 2 dimensions"),
    ("Flatten", [(2, 3)], {"axis": -3}, "has axis -3, but its operand has 2 dimensions"),
    ("Squeeze", [(2, 1), [0]], {}, "cannot squeeze axis 0 of shape (2, 1)"),
    ("Squeeze", [(2, 1), [2]], {}, "has axes 2, but its operand has 2 dimensions"),
    ("Unsqueeze", [(2, 3), [1, -3]], {}, "names an axis twice: (1, 1)"),
    ("Unsqueeze", [(2, 3), [3]], {}, "has axes 3, but its operand has 3 dimensions"),
    ("Transpose", [(2, 3, 4)], {"perm": [0, 1]}, "cannot transpose (2, 3, 4) by (0, 1)"),
    (
        "Transpose",
        [(2, 3, 4)],
        {"perm": [0, 1, 1]},
        "cannot transpose (2, 3, 4) by (0, 1, 1) (expected a permutation of (0, 1, 2))",
    ),
    ("Concat", [(2, 3), (2, 3, 1)], {"axis": 0}, "cannot join shapes (2, 3) and (2, 3, 1)"),
    ("Concat", [(2, 3), (2, 4)], {"axis": 0}, "cannot join sizes [3, 4] along axis 1"),
    ("Split", [(6, 2), [4, 3]], {"outputs": 2}, "splits an axis of size 6 into (4, 3), which add up to 7"),
    ("Split", [(6, 2), [3, 3]], {"outputs": 3}, "splits into 2 sizes, but has 3 outputs"),
    ("Split", [(6, 2)], {"outputs": 3, "num_outputs": 2}, "has num_outputs 2, but 3 outputs"),
    ("Slice", [(6, 2), [0], [2], [0], [0]], {}, "cannot slice (6, 2) from (0,) to (2,) along (0,) by (0,)"),
    ("Slice", [(6, 2), [0, 0], [2]], {}, "cannot slice (6, 2) from (0, 0) to (2,) along (0, 1) by (1, 1)"),
    ("Slice", [(6,), [0, 0], [2, 2]], {}, "cannot slice (6,) from (0, 0) to (2, 2) along (0, 1) by (1, 1)"),
    ("Tile", [(2, 3), [2]], {}, "repeats 1 axes of an input of shape (2, 3)"),
    ("Pad", [(2, 3), [1, 1, 1]], {}, "has 3 pads for 2 axes"),
    ("MatMul", [(), (2, 3)], {}, "needs operands of 1 or more dimensions (got the shapes () and (2, 3))"),
    ("MatMul", [(2, 3), (2, 3)], {}, "cannot multiply (2, 3) by (2, 3): the inner sizes 3 and 2 differ"),
    ("MatMul", [(3,), (2, 3)], {}, "cannot multiply (3,) by (2, 3)"),
    ("MatMul", [(2, 4, 3), (5, 3, 4)], {}, "cannot broadcast its inputs (2,) and (5,)"),
    ("Gemm", [(2, 3), (3,)], {}, "needs two matrices (got the shapes (2, 3) and (3,))"),
    ("Gemm", [(2, 3, 1), (3, 4)], {}, "needs two matrices (got the shapes (2, 3, 1) and (3, 4))"),
    ("Gemm", [(2, 3), (3, 4)], {"transB": 1}, "cannot multiply (2, 3) by (4, 3)"),
    ("Einsum", [(2, 3)], {"equation": "ij,jk->ik"}, "has 1 inputs for the equation 'ij,jk->ik'"),
    ("Einsum", [(2, 3)], {"equation": "ijk->i"}, "has an input of shape (2, 3) for 'ijk'"),
    ("Einsum", [(2, 3)], {"equation": "i->i"}, "has an input of shape (2, 3) for 'i'"),
    ("Einsum", [(2, 3)], {"equation": "ij->k"}, "has 'k' in the output of 'ij->k', which no input has"),
    ("Einsum", [(2, 3), (4, 5)], {"equation": "ij,jk->ik"}, "cannot broadcast its inputs (3,) and (4,)"),
    ("LSTM", [(5, 3), (1, 16, 3), (1, 16, 4)], {"hidden_size": 4}, "has the input X of shape (5, 3) (expected 3 dim"),
    ("Attention", [(2, 3, 8)] * 3, {}, "has inputs of 3 dimensions, but no q_num_heads and kv_num_heads"),
    ("DFT", [(2, 8, 1), [], [2]], {}, "transforms axis 2, which holds the real and imaginary parts of (2, 8, 1)"),
    ("Attention", [(3, 8)] * 3, {}, "has the input Q of shape (3, 8) (expected 3 to 4 dimensions)"),
    (
        "Attention",
        [(2, 3, 8), (2, 3, 8), (2, 2, 3, 4)],
        {},
        "has the inputs Q of shape (2, 3, 8), K of shape (2, 3, 8), V of",
    ),
    (
        "NegativeLogLikelihoodLoss",
        [(3,), (3,)],
        {},
        "has the input input of shape (3,) (expected 2 or more dimensions)",
    ),
    ("SoftmaxCrossEntropyLoss", [(3,), (3,)], {}, "has the input scores of shape (3,) (expected 2 or more dimensions)"),
    ("DepthToSpace", [(1, 4, 4)], {"blocksize": 2}, "has the input input of shape (1, 4, 4) (expected 4 dimensions)"),
    ("SpaceToDepth", [(1, 4, 4, 4)], {"blocksize": 0}, "has blocksize 0 (expected 1 or more)"),
    ("SpaceToDepth", [(1, 4, 4, 4)], {}, "lacks the required attribute 'blocksize'"),
    ("Range", [[0], [4], [0]], {}, "has a delta of 0"),
    ("TopK", [(2, 3), [4]], {}, "takes the first 4 of 3"),
    ("Det", [(3,)], {}, "needs an input of 2 or more dimensions (got the shape (3,))"),
    ("Resize", [(1, 2, 4, 4), [], [2.0, 2.0]], {}, "has 2 sizes or scales for 4 axes"),
    (
        "Resize",
        [(1, 2, 4, 4), [], [1.0, 1.0, 2.0, 2.0]],
        {"mode": "none"},
        "has the mode 'none' (expected one of 'nearest'",
    ),
    ("MaxPool", [(1, 2)], {"kernel_shape": [2]}, "needs an input of 3 or more dimensions (got the shape (1, 2))"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2]}, "has the kernel (2,) for 2 spatial dimensions"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 2], "pads": [1, 1]}, "has 2 pads for 2 spatial dimensions"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 2], "pads": [1] * 5}, "has 5 pads for 2 spatial dimensions"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 0]}, "has the kernel (2, 0) for 2 spatial dimensions"),
    ("MaxPool", [(1, 2, 8, 8)], {}, "lacks the required attribute 'kernel_shape'"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 2], "strides": [2]}, "has 1 strides for 2 spatial dimensions"),
    ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 9]}, "has the kernel (2, 9), larger than its padded input of"),
    (
        "Conv",
        [(1, 3, 8, 8), (4, 3, 3, 3)],
        {"kernel_shape": [3, 2]},
        "has the kernel_shape (3, 2), but a weight of shape (4, 3, 3, 3)",
    ),
    (
        "ConvTranspose",
        [(1, 3, 1, 1), (3, 4, 2, 2)],
        {"pads": [0, 1, 0, 1]},
        "has an output of size 0 along spatial axis 1",
    ),
    ("Constant", [], {}, "has no value"),
    ("Gather", [(2, 3), [0]], {"axis": 2}, "has axis 2, but its operand has 2 dimensions"),
    ("Max", [], {}, "has no inputs"),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "said"), WRONG)
def test_a_node_that_does_not_fit_is_named(op: str, operands: list[Any], attrs: dict[str, Any], said: str):
    g, given, names = Graph(), {}, []
    for i, operand in enumerate(operands):
        if isinstance(operand, tuple):
            given[f"x{i}"] = operand
            names.append(f"x{i}")
        else:
            kind = KINDS[type(operand[0])] if operand else 0
            names.append(g.number(*operand, dtype=kind, scalar=op in ("Range", "DFT")) if operand else "")
    made = g(op, *names, name="/here", **attrs)
    with pytest.raises(CostError, match=rf"node '/here' \({op}\) {re.escape(said)}"):
        read(g.model(given, made))
