"""Nodes that look like a decomposed operator but compute another function are not regrouped."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import (
    BOOL,
    BY_NAME,
    EVEN,
    QKV,
    ROWS,
    UNEVEN,
    Spelled,
    X,
    is_as_before,
    model,
    scores,
)
from tests.frontends.onnx.regroup.test_data_movement import TO_THE_END


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


@pytest.mark.parametrize("trains", [False, True])
def test_weights_that_are_dropped_are_no_attention(trains):
    g = Spelled()
    dropped = g("Dropout", scores(g), g.scalar(0.5), g.number(trains, dtype=BOOL, scalar=True))
    made = g.model(QKV, g("MatMul", dropped, "v"))
    assert is_as_before(made, "attention") is trains


def parted(groups: int) -> ModelProto:
    g = Spelled()
    rows = g("Reshape", "x", g.number(0, groups, -1))
    normal = g("InstanceNormalization", rows, g.ones(groups), g.ones(groups, 0.0))
    y = g("Mul", g("Reshape", normal, g("Shape", "x")), g.weight(6, 1))
    return g.model(X, g("Add", y, g.weight(6, 1)))


@pytest.mark.parametrize(("groups", "is_one"), [(1, True), (2, True), (6, True), (4, False), (12, False), (16, False)])
def test_parts_of_channels_are_no_groups(groups, is_one):
    assert is_as_before(parted(groups), "group_norm") is not is_one


@pytest.mark.parametrize("begin", [-9, -6, -5, -1, 0, 1, 5, 6, 9])
def test_a_roll_is_by_as_many_places_as_numpy_moves(begin):
    made = model(BY_NAME["roll"], late=(begin, TO_THE_END, 1), early=(0, begin, 1))
    (call,) = (c for c in estimate(made, regroup=True).calls if c.layer.op == "roll")
    x = np.arange(96, dtype=np.float32).reshape(X["x"])
    (y,) = ReferenceEvaluator(made).run(None, {"x": x})
    assert np.array_equal(y, np.roll(x, call.layer.attrs["shift"], call.layer.attrs["axis"]))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adaptive_avg_pool", {"rows": ((0, 1), (1, 2), (2, 3), (4, 5))}),
        ("adaptive_avg_pool", {"rows": ((0, 1), (1, 2), (3, 4), (5, 4))}),
        ("adaptive_avg_pool", {"rows": ROWS[:3]}),
        ("adaptive_avg_pool", {"columns": UNEVEN}),
        ("adaptive_avg_pool", {"axes": (1, 4)}),
        ("adaptive_avg_pool_uneven", {"columns": ((0, 1, 2, 3), (1, 2, 3, 4), (5, 6, 7, 7))}),
        ("adaptive_avg_pool_uneven", {"spare": (0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1)}),
        ("adaptive_avg_pool_uneven", {"spare": (0,) * 12}),
        ("adaptive_avg_pool_uneven", {"terms": ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2))}),
        ("adaptive_avg_pool_uneven", {"terms": ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 2))}),
        ("adaptive_avg_pool_uneven", {"axis": 1}),
    ],
)
def test_averages_of_other_places_are_no_adaptive_pooling(name, options):
    assert is_as_before(model(BY_NAME[name], **options), "adaptive_avg_pool")


@pytest.mark.parametrize("element", [None, 0, 1, 95, 190, 191])
def test_places_that_are_stored_are_windows_only_as_a_whole(element):
    places = np.stack(np.broadcast_arrays(np.reshape(ROWS, (4, 2, 1, 1)), np.array(EVEN)), -1).ravel()  # 4*2*6*2 pairs
    if element is not None:
        places[element] = (places[element] + 1) % 6
    g = Spelled()
    stored = g("Reshape", g.number(*places.tolist()), g.number(4, 2, 6, 2, 2))
    y = g("Transpose", g("GatherND", g("Transpose", "x", perm=[1, 2, 0]), stored), perm=[4, 0, 1, 2, 3])
    made = g.model(X, g("ReduceMean", y, g.number(2, 4), keepdims=0))
    assert is_as_before(made, "adaptive_avg_pool") is (element is not None)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), ("n", 4, "m", 4, 4)])
def test_quotients_of_picks_of_fewer_axes_are_quotients(shape):
    g = Spelled()
    zero = g.number(0, scalar=True)
    picked = g("Gather", g("Gather", "x", zero, axis=-3 if len(shape) > 2 else -1), zero, axis=-1)
    assert is_as_before(g.model({"x": shape}, g("Div", picked, g.scalar(2.0))), "adaptive_avg_pool")
