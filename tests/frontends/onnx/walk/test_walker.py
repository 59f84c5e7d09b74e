"""Graphs that are wrong, unusual or large."""

from __future__ import annotations

import re

import pytest

from costcore import CostError
from tests.frontends.onnx.read_model import read, shapes
from tests.frontends.onnx.small_models import model, node
from tests.whole_networks.onnx_models import Graph
from tests.work import at_most


def test_negative_dimensions_are_unknown_and_can_be_given():
    made = model(node("Relu", ["x"], ["y"]), x=(-1, 4))
    assert read(made).notes == ["input 'x' has unnamed dimensions: x_0 along axis 0"]
    assert shapes(made, (2, 4)) == [(2, 4)]
    assert shapes(made, dims={"x_0": 2}) == [(2, 4)]
    assert shapes(model(node("Relu", ["x"], ["y"]), x=("?", "?")), (2, 3)) == [(2, 3)], "two axes, not one name"


@pytest.mark.parametrize(
    ("x", "w", "settings", "message"),
    [
        ((1, 3, 2, 2), (4, 3, 5, 5), {}, "has the kernel (5, 5), larger than its padded input of shape (2, 2)"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"group": 0}, "has group 0 (expected 1 or more)"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": [0, 1]}, "has strides (0, 1) (expected 1 or more)"),
        ((1, 3, 8, 8), (4, 1, 3, 3), {"group": 2}, "has 3 input channels, but weights (4, 1, 3, 3) in 2 groups for 2"),
        ((1, 4, 8, 8), (3, 2, 3, 3), {"group": 2}, "has 2 groups, which do not divide 3 channels"),
        ((1, 3, 8), (4, 3, 3, 3), {}, "needs weights of the same rank as its input"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"pads": [1, 1]}, "has 2 pads for 2 spatial dimensions"),
        (
            (1, 3, 8, 8),
            (4, 3, 3, 3),
            {"kernel_shape": [5, 5]},
            "has the kernel_shape (5, 5), but a weight of shape (4, 3, 3, 3)",
        ),
    ],
)
def test_impossible_convolutions(x, w, settings, message):
    g = Graph()
    y = g("Conv", "x", g.weight(*w), name="/layer1/conv/Conv", **settings)
    with pytest.raises(CostError, match=re.escape(f"node '/layer1/conv/Conv' (Conv) {message}")):
        read(g.model({"x": x}, y))


UNACCEPTED = {
    "word": (
        lambda g: g("GridSample", "x", g.weight(1, 8, 8, 2), name="n", mode="round"),
        "node 'n' (GridSample) has the mode 'round' (expected one of 'linear', 'nearest', 'cubic', 'bilinear',",
    ),
    "number": (
        lambda g: g("GroupNormalization", "x", g.weight(4), g.weight(4), name="n", num_groups=-2),
        "node 'n' (GroupNormalization) has num_groups -2 (expected 1 or more)",
    ),
    "groups": (
        lambda g: g("GroupNormalization", "x", g.weight(4), g.weight(4), name="n", num_groups=3),
        "node 'n' (GroupNormalization) has num_groups 3, which does not divide the 4 channels of (1, 4, 8, 8)",
    ),
    "number of axes": (
        lambda g: g("GatherND", "x", g.number(0), name="n", batch_dims=-1),
        "node 'n' (GatherND) has batch_dims -1 (expected 0 or more)",
    ),
    "number of an operand": (
        lambda g: g("Col2Im", "x", g.number(8, 8), g.number(0, 1), name="n"),
        "node 'n' (Col2Im) has block_shape 0 (expected 1 or more)",
    ),
    "dimensions": (
        lambda g: g("NonMaxSuppression", "x", g.weight(1, 2, 6), name="n"),
        "node 'n' (NonMaxSuppression) has the input boxes of shape (1, 4, 8, 8) (expected 3 dimensions)",
    ),
    "different dimensions": (
        lambda g: g("Attention", "x", g.weight(1, 4, 8), "x", name="n"),
        "has the inputs Q of shape (1, 4, 8, 8), K of shape (1, 4, 8), V of shape (1, 4, 8, 8) (expected the same",
    ),
    "one element": (
        lambda g: g("Range", g.number(0, scalar=True), g.number(3, 4), g.number(1, scalar=True), name="n"),
        "node 'n' (Range) has the input limit of shape (2,) (expected one element)",
    ),
    "another version": (
        lambda g: g("ReduceSum", "x", name="n", axes=1.5),
        "node 'n' (ReduceSum) has the attribute 'axes' as FLOAT, but it must be INTS",
    ),
    "no schema": (
        lambda g: g("GroupNorm", "x", g.weight(8), g.weight(8), name="n", domain="com.microsoft", groups=2.0),
        "node 'n' (GroupNorm) has the attribute 'groups' as FLOAT, but it must be INT",
    ),
    "missing": (
        lambda g: g("GroupNorm", "x", g.weight(8), g.weight(8), name="n", domain="com.microsoft"),
        "node 'n' (GroupNorm) lacks the required attribute 'groups'",
    ),
}


@pytest.mark.parametrize("kind", UNACCEPTED)
def test_settings_that_are_not_accepted_are_told_with_those_that_are(kind):
    write, message = UNACCEPTED[kind]
    g = Graph(24)
    with pytest.raises(CostError, match=re.escape(message)):
        read(g.model({"x": (1, 4, 8, 8)}, write(g)))


def test_a_chain_and_a_wide_node_take_linear_time():
    def chain(n):
        g, x = Graph(), "x"
        for _ in range(n):
            x = g("Relu", x)
        return g.model({"x": (1, 4)}, x)

    def work(what):
        with at_most(20_000_000) as done:
            calls = read(what).calls
        return done.calls, len(calls)

    short, _ = work(chain(2_000))
    long, count = work(chain(20_000))
    assert count == 20_000
    assert long < 10.5 * short
    g = Graph()
    parts = g("Split", "x", outputs=200_000, axis=1)
    with at_most(30_000_000):
        read(g.model({"x": (1, 200_000)}, parts[0]))
