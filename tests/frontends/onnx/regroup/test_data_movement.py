"""Data-movement operators as exporters decompose them, and nodes that only look like them."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper, shape_inference

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import (
    BY_NAME,
    Spelled,
    X,
    from_operation,
    is_as_before,
    model,
    priced,
)

INT64 = TensorProto.INT64
TO_THE_END = 1 << 62
STRIDED = BY_NAME["as_strided"].origin


@pytest.mark.parametrize(
    "options",
    [
        {"late": (-4, TO_THE_END, 1), "early": (0, -4, 1)},
        {"late": (2, 6, 1), "early": (0, 2, 1)},
        {"late": (2, 100, 1), "early": (0, -4, 1)},
    ],
)
def test_places_may_be_counted_from_the_end(options):
    report = estimate(model(BY_NAME["roll"], **options), regroup=True)
    assert priced(report) == [("roll", 0, 4 * 96, 4 * 96)]
    assert report.calls[-1].layer.attrs == {"axis": (1,), "shift": (-2,)}


@pytest.mark.parametrize(
    "options",
    [
        {"late": (3, TO_THE_END, 1)},
        {"late": (1, TO_THE_END, 1)},
        {"late": (3, TO_THE_END, 1), "early": (0, 2, 1)},
        {"late": (2, 5, 1), "early": (0, 3, 1)},
        {"late": (0, 2, 1), "early": (2, TO_THE_END, 1)},
        {"late": (3, TO_THE_END, 1), "early": (-6, 3, 1)},
        {"late": (2, TO_THE_END, 1, 2), "early": (0, 2, 1)},
        {"late": (3, TO_THE_END, 1), "early": (0, 3, 1), "axis": 2},
    ],
)
def test_other_slices_are_joined(options):
    assert is_as_before(model(BY_NAME["roll"], **options), "roll")


@pytest.mark.parametrize("options", [{"before": (2, 1, 0)}, {"before": (0, 1, 2)}, {"after": (0, 1, 2)}])
def test_other_axes_are_moved_and_picked(options):
    assert is_as_before(model(BY_NAME["gather"], **options), "gather")


def test_indices_that_broadcast_pick_more():
    g = Spelled()
    spread = g("Expand", "indices", g("Shape", g("Max", "indices", g.number(0, 0, 0))))
    column = g("Concat", g("Unsqueeze", spread, g.number(-1)), axis=-1)
    y = g("Transpose", g("GatherND", g("Transpose", "x", perm=[0, 1, 2]), column), perm=[0, 1, 2])
    assert is_as_before(g.model({**X, "indices": (INT64, (1,))}, y), "gather")


def strided(origin: str, known: bool = True) -> ModelProto:
    """Picked at ``2 i + j`` for ``i`` below ``n`` and ``j`` below 2, of which ``i`` is counted up at run time."""
    g = Spelled()
    count = g("Reshape", g("Shape", "x", start=0, end=1), g.number())
    zero, one, two = (g.number(i, scalar=True) for i in (0, 1, 2))
    rows = g("Unsqueeze", g("Mul", g("Range", zero, count, one), two), g.number(1))
    columns = g("Reshape", g.number(0, 1), g.number(1, 2)) if known else "columns"
    places = g("Add", g("Add", zero, rows), columns)
    inputs: dict[str, Any] = {"x": ("n", 2), "columns": (INT64, (1, 2))}
    made = g.model(inputs, g("Gather", g("Reshape", "x", g.number(-1)), places))
    return from_operation(made, *[origin] * len(made.graph.node))


def test_places_that_are_counted_up_belong_to_the_picking():
    report = estimate(strided(STRIDED), regroup=True).subs(n=5)
    assert priced(report) == [("as_strided", 0, 4 * 10, 4 * 10)]
    assert is_as_before(strided("call_function[target=torch.ops.aten.index.Tensor]"), "as_strided")
    assert is_as_before(strided(STRIDED, known=False), "as_strided")


@pytest.mark.filterwarnings("ignore:no shapes")
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("case", BY_NAME.values(), ids=BY_NAME)
def test_nodes_that_read_a_value_of_unknown_rank_are_in_no_group(case, declared):
    for name in case.inputs:
        changed = model(case)
        if declared:  # the values between
            changed.graph.value_info.extend(shape_inference.infer_shapes(changed).graph.value_info)
        next(entry for entry in changed.graph.input if entry.name == name).name = "before"
        changed.graph.input.append(helper.make_tensor_value_info("shape", INT64, ("rank",)))
        changed.graph.node.insert(0, helper.make_node("Reshape", ["before", "shape"], [name]))
        notes = " ".join(estimate(changed, regroup=True).notes)
        readers = [node for node in changed.graph.node if name in node.input]
        assert not any(f" makes {node.output[0]!r}" in notes for node in readers)
