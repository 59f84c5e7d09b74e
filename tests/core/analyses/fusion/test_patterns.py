"""Patterns of operators."""

from __future__ import annotations

import pytest

from costcore.analyses.fusion.traffic import PATTERNS, pattern_of, rows_of, stated_pattern, work_of
from costcore.calculators import costcore_calculators
from costcore.errors import CostError
from costcore.ir import Cost, Layer, Tensor, pattern

X = Tensor((2, 8, 6, 6))
VECTOR = Tensor((8,), role="param")


def layer(op: str, *outputs: Tensor, **attrs: object) -> Layer:
    return Layer(op, {"x": X}, outputs or (X,), attrs)


def test_every_operator_states_a_pattern():
    without = [op for op, calculator in costcore_calculators().items() if not hasattr(calculator, "pattern")]
    assert without == []


def test_every_stated_pattern_is_one_of_the_eight():
    stated = {
        each
        for calculator in costcore_calculators().values()
        for each in (calculator.pattern, *getattr(calculator, "pattern_by_op", {}).values())  # type: ignore[attr-defined]
        if not callable(each)
    }
    assert stated == set(PATTERNS)


def test_exceptions_name_operators_that_the_calculator_covers():
    table = costcore_calculators()
    for calculator in set(table.values()):
        covered = {op for op, other in table.items() if other is calculator}
        assert covered.issuperset(getattr(calculator, "pattern_by_op", {}))


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("add", {}, "map"),
        ("cast", {}, "map"),
        ("concat", {}, "move"),
        ("view", {}, "free"),
        ("shape", {}, "make"),
        ("softmax", {"axis": 1}, "reduce"),
        ("conv", {}, "product"),
        ("sort", {}, "opaque"),
        ("batch_norm", {"training": False}, "map"),
        ("batch_norm", {"training": True}, "reduce"),
        ("dropout", {"training": False}, "free"),
        ("dropout", {"training": True}, "map"),
        ("mse_loss", {"reduction": "none"}, "map"),
        ("mse_loss", {}, "reduce"),
        ("no_such_operator", {}, "opaque"),
    ],
)
def test_patterns(op, attrs, expected):
    assert pattern_of(layer(op, **attrs)) == expected


@pytest.mark.parametrize("inputs", [{"x": X}, {"x": Tensor((0, 8))}, {"x": Tensor(())}, {}])
def test_operators_without_outputs_are_fused_with_nothing(inputs):
    """``torch.equal`` answers the program, and in-place operators on lists of tensors return nothing."""
    for op in costcore_calculators():
        silent = Layer(op, inputs)
        work = work_of(silent, Cost(0, 0, 0, {}), pattern_of(silent))
        assert (work.pattern, work.rows, work.writes) == ("opaque", None, ()), op


@pytest.mark.parametrize(
    ("op", "size", "attrs", "expected"),
    [
        ("avg_pool", (1, 1), {"kernel": (6, 6)}, "reduce"),
        ("avg_pool", (1, 1), {"kernel": (5, 5)}, "window"),
        ("max_pool", (3, 3), {"kernel": (2, 2)}, "window"),
        ("adaptive_avg_pool", (1, 1), {}, "reduce"),
        ("adaptive_avg_pool", (6, 1), {}, "reduce"),
        ("adaptive_avg_pool", (2, 2), {}, "window"),
    ],
)
def test_only_global_pooling_is_a_reduction(op, size, attrs, expected):
    assert pattern_of(layer(op, Tensor((2, 8, *size)), **attrs)) == expected


@pytest.mark.parametrize(
    ("equation", "expected"), [("ij->ji", "move"), ("ij->i", "reduce"), ("i,j->ij", "map"), ("ij,jk->ik", "product")]
)
def test_an_einsum_is_what_its_equation_says(equation, expected):
    shapes = [Tensor((4,) * len(term)) for term in equation.partition("->")[0].split(",")]
    assert pattern_of(Layer("einsum", dict(zip(("x0", "x1"), shapes, strict=False)), [X], {"equation": equation})) == (
        expected
    )


@pytest.mark.parametrize(
    ("op", "out", "attrs", "expected"),
    [
        ("softmax", X.shape, {"axis": 1}, 2 * 6 * 6),
        ("layer_norm", X.shape, {"axis": (2, 3)}, 2 * 8),
        ("group_norm", X.shape, {"groups": 4}, 2 * 4),
        ("instance_norm", X.shape, {}, 2 * 8),
        ("batch_norm", X.shape, {"training": True}, 8),
        ("reduce_sum", (2, 1, 6, 6), {}, 2 * 6 * 6),
        ("adaptive_avg_pool", (2, 8, 1, 1), {}, 2 * 8),
        ("softmax_backward", X.shape, {}, None),
    ],
)
def test_rows_of_reductions(op, out, attrs, expected):
    assert rows_of(layer(op, Tensor(out), **attrs)) == expected


def test_a_calculator_of_a_user_states_a_pattern():
    @pattern(lambda layer: "map" if layer.attrs.get("flat") else "move", other="make")
    def calc_mine(layer):
        raise AssertionError

    assert stated_pattern(calc_mine, layer("mine", flat=True)) == "map"
    assert stated_pattern(calc_mine, layer("mine")) == "move"
    assert stated_pattern(calc_mine, layer("other")) == "make"
    assert stated_pattern(lambda layer: None, layer("mine")) == "opaque"


def test_an_invalid_pattern_is_an_error_that_names_the_calculator():
    @pattern("maps")  # type: ignore[arg-type]
    def calc_mine(layer):
        raise AssertionError

    with pytest.raises(CostError, match=r"calc_mine states for 'mine' is 'maps' \(expected one of free, map"):
        stated_pattern(calc_mine, layer("mine"))

    @pattern(lambda layer: layer["absent"])
    def calc_broken(layer):
        raise AssertionError

    with pytest.raises(CostError, match=r"calc_broken states for 'mine' raised MissingOperandError: .* no 'absent'"):
        stated_pattern(calc_broken, layer("mine"))
