"""Nodes that look like one spelled-out operator, and compute another function: they stay apart."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from costcore import estimate
from tests.frontends.onnx.spelled import BOOL, BY_NAME, QKV, Spelled, X, is_as_before, model, scores
from tests.frontends.onnx.test_moves import TO_THE_END


def attention(g: Spelled, mask: str = "") -> str:
    return g("MatMul", scores(g, mask), "v")


@pytest.mark.parametrize(
    "inputs",
    [
        {"q": (1, 1, 4, 8), "k": (1, 1, 6, 8), "v": (1, 1, 6, 8), "mask": (2, 3, 4, 6)},
        {"q": (2, 3, 1, 8), "k": (2, 3, 6, 8), "v": (2, 3, 6, 8), "mask": (4, 6)},
        {"q": (2, 3, 4, 8), "k": (2, 3, 1, 8), "v": (2, 3, 6, 8), "mask": (4, 6)},
        {"q": (1, 1, 4, 8), "k": (2, 3, 6, 8), "v": (2, 3, 6, 8)},
        {"q": (1, 1, 4, 8), "k": (1, 1, 6, 8), "v": (2, 3, 6, 8)},
    ],
)
def test_scores_or_sums_that_are_broadcast_beyond_the_queries_are_no_attention(inputs):
    g = Spelled()
    assert is_as_before(g.model(inputs, attention(g, "mask" if "mask" in inputs else "")), "attention")


@pytest.mark.parametrize("mask", [(4, 6), (2, 1, 1, 6), (2, 1, 4, 1)])
def test_a_mask_and_keys_may_be_shared_by_heads(mask):
    g = Spelled()
    inputs = {"q": (2, 3, 4, 8), "k": (1, 1, 6, 8), "v": (1, 1, 6, 8), "mask": mask}
    (call,) = (c for c in estimate(g.model(inputs, attention(g, "mask")), regroup=True).calls if c.type == "Attention")
    assert call.layer["mask"].shape == mask


@pytest.mark.parametrize("trains", [False, True])
def test_weights_that_are_dropped_are_no_attention(trains):
    g = Spelled()
    dropped = g("Dropout", scores(g), g.scalar(0.5), g.number(trains, dtype=BOOL, scalar=True))
    made = g.model(QKV, g("MatMul", dropped, "v"))
    assert is_as_before(made, "attention") is trains


def normalized(axes: tuple[int, ...], keepdims: int, length: tuple[int, ...]) -> ModelProto:
    g = Spelled()
    parts = g("Div", g.weight(*length), g("ReduceL2", "x", g.number(*axes), keepdims=keepdims))
    return g.model({"x": (4, 4)}, g("Mul", "x", parts))


def test_lengths_along_another_axis_are_no_weight_norm():
    # without the axis that is reduced the quotients of the rows go to the columns
    assert is_as_before(normalized((1,), 0, (4,)), "weight_norm")
    assert not is_as_before(normalized((1,), 1, (4, 1)), "weight_norm")


def parted(groups: int) -> ModelProto:
    g = Spelled()
    rows = g("Reshape", "x", g.number(0, groups, -1))
    normal = g("InstanceNormalization", rows, g.ones(groups), g.ones(groups, 0.0))
    y = g("Mul", g("Reshape", normal, g("Shape", "x")), g.weight(6, 1))
    return g.model(X, g("Add", y, g.weight(6, 1)))


@pytest.mark.parametrize(("groups", "is_one"), [(1, True), (2, True), (6, True), (4, False), (12, False), (16, False)])
def test_parts_of_channels_are_no_groups(groups, is_one):
    assert is_as_before(parted(groups), "group_norm") is not is_one


def test_differences_that_are_rounded_are_no_norm():
    g = Spelled()
    centred = g("Cast", g("Sub", "x", g("ReduceMean", "x", g.number(-1))), to=6)
    variance = g("ReduceMean", g("Mul", centred, centred), g.number(-1))
    root = g("Sqrt", g("Add", variance, g.number(1, dtype=6, scalar=True)))
    assert is_as_before(g.model(X, g("Cast", g("Div", centred, root), to=1)), "layer_norm")


@pytest.mark.parametrize("begin", [-9, -6, -5, -1, 0, 1, 5, 6, 9])
def test_a_roll_is_by_as_many_places_as_numpy_moves(begin):
    made = model(BY_NAME["roll"], late=(begin, TO_THE_END, 1), early=(0, begin, 1))
    (call,) = (c for c in estimate(made, regroup=True).calls if c.layer.op == "roll")
    x = np.arange(96, dtype=np.float32).reshape(X["x"])
    (y,) = ReferenceEvaluator(made).run(None, {"x": x})
    assert np.array_equal(y, np.roll(x, call.layer.attrs["shift"], call.layer.attrs["axis"]))
