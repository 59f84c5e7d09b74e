"""The cost of layers with empty tensors, which no calculator is asked for."""

from __future__ import annotations

import pytest
import sympy

from costcore.ir import Cost, Layer, Operations, Tensor
from tests.calculators.layer_costs import Pricer
from tests.core.given_costs import Step, net
from tests.core.traces import Call, Uncounted
from tests.registered import calculators

N = sympy.Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize(
    ("x", "outputs", "cost"),
    [
        ((2, 0), [(2, 0)], Cost(Operations(), 0, 0, {})),
        ((2, 0, 4), [(2, 4)], Cost(Operations(), 12, 32, {})),  # the sum over an empty axis is 8 zeros of 4 bytes
        ((N, 0), [(N, 0)], Cost(Operations(), 0, 0, {})),
        ((2, 4), [(2, 0), (2, 4)], None),
        ((N, 2), [(N, 2)], None),
    ],
)
def test_a_layer_of_empty_tensors_costs_the_bytes_of_the_others(x, outputs, cost):
    """The 3 elements of ``w`` are read, if anything is written; a calculator is asked for the others."""
    layer = Layer("acme", {"x": Tensor(x), "w": Tensor((3,))}, [Tensor(y) for y in outputs])
    asked = Cost(Operations(add=1), 0, 0, {})
    assert Pricer({"acme": lambda layer: asked})(Call(layer, "acme")).cost == (cost or asked)


def call(op: str, uncounted: Uncounted | None = None) -> Call:
    return Call(Layer(op, {"x": Tensor((2, 3))}, [Tensor((3, 2))]), op, uncounted=uncounted)


def test_layout_operators_cost_nothing_only_with_a_free_layout():
    assert Pricer(calculators(), layout="free")(call("transpose")).cost == Cost(Operations(), 0, 0, {})
    moved = Pricer(calculators())(call("transpose")).cost
    assert (moved.mread, moved.mwrite) == (6 * 4, 6 * 4)


def test_the_reason_of_the_frontend_is_kept():
    price = Pricer({})
    assert price(call("acme")).uncounted is Uncounted.NO_CALCULATOR
    assert price(call("acme", Uncounted.NO_SHAPES)).uncounted is Uncounted.NO_SHAPES


def test_an_input_that_may_be_empty_leaves_the_cost_to_the_calculator():
    def counted(layer: Layer) -> tuple[int, int, int, dict]:
        return 7, 0, 0, {}

    counted.may_be_empty = ("w",)  # type: ignore[attr-defined]
    layer = Layer("acme", {"x": Tensor((2, 3)), "w": Tensor((0,))}, [Tensor((2, 3))])
    assert Pricer({"acme": counted})(Call(layer, "acme")).cost.flops == 7


def test_a_call_without_calculator_keeps_the_reason_of_the_operator():
    priced = Pricer({})(call("acme", Uncounted.NO_SHAPES))
    assert priced.reason == Uncounted.NO_SHAPES.reason("acme")
    assert Pricer({})(call("acme")).reason == Uncounted.NO_CALCULATOR.reason("acme")


def test_equal_layers_are_computed_once_and_those_of_another_operator_again():
    asked = []

    def counted(layer: Layer) -> tuple[int, int, int, dict]:
        asked.append(layer)
        return 5, 0, 0, {}

    price, first, second = Pricer({"acme": counted}), call("acme"), call("acme")
    assert first.layer is not second.layer
    assert [price(each).cost.flops for each in (first, first, second)] == [5, 5, 5]
    assert len(asked) == 1
    assert price(first._replace(native="aten::acme")).cost.flops == 5
    assert len(asked) == 2, "the framework's own name may have another calculator"


def test_the_name_of_the_framework_takes_precedence():
    own = {"acme": lambda layer: (1, 0, 0, {}), "toy::Acme": lambda layer: (2, 0, 0, {})}
    layer = call("acme").layer
    assert Pricer(own)(Call(layer, "acme", "toy::Acme")).cost.flops == 2
    assert Pricer(own)(Call(layer, "acme", "toy::Other")).cost.flops == 1


def test_a_free_layout_leaves_other_operators_and_keeps_attributes():
    layer = Layer("transpose", {"x": Tensor((2, 3))}, [Tensor((3, 2))], {"perm": (1, 0)})
    assert Pricer(calculators(), layout="free")(Call(layer, "transpose")).cost == Cost(
        Operations(), 0, 0, {"perm": (1, 0)}
    )
    # 6 elements are compared with zero, read and written
    relu = Layer("relu", {"x": Tensor((2, 3))}, [Tensor((2, 3))])
    cost = Pricer(calculators(), layout="free")(Call(relu, "relu")).cost
    assert (cost.mread, cost.mwrite) == (6 * 4, 6 * 4)


@pytest.mark.parametrize("layout", ["framework", "free"])
def test_a_size_of_zero_has_the_cost_of_an_empty_layer_not_of_its_formula(layout):
    n = sympy.Symbol("n", integer=True, nonnegative=True)
    product = Step("linear", macs=4 * n, fma=4 * n, mread=4 * (n + 16), mwrite=4 * n, shape=(n, 4))
    report = net(product, product._replace(mread=0, mwrite=0), layout=layout)
    for size, costs in ((2, (16, 72)), (0, (0, 0))):
        total = report.subs(n=size).total_report
        assert (total["macs"], total["mread"]) == costs
