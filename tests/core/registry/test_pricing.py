"""The cost of layers with empty tensors, which no calculator is asked for."""

from __future__ import annotations

import sympy

from costcore.counting import Pricer, cost_of_empty
from costcore.ir import Cost, Layer, Operations, Tensor
from costcore.registry import calculators
from tests.core.traces import Call, Uncounted


def test_an_empty_output_costs_nothing():
    layer = Layer("relu", {"x": Tensor((2, 0))}, [Tensor((2, 0))], {"a": 1})
    assert cost_of_empty(layer) == Cost(Operations(), 0, 0, {"a": 1})


def test_an_empty_input_costs_the_bytes_of_the_others():
    """The sum over an empty axis writes 2*4 zeros of 4 bytes; the 3 elements of the other operand are read."""
    layer = Layer("sum", {"x": Tensor((2, 0, 4)), "w": Tensor((3,))}, [Tensor((2, 4))], {"axes": (1,)})
    assert cost_of_empty(layer) == Cost(Operations(), 3 * 4, 2 * 4 * 4, {"axes": (1,)})


def test_one_of_several_outputs_with_elements_is_asked_for():
    layer = Layer("split", {"x": Tensor((2, 4))}, [Tensor((2, 0)), Tensor((2, 4))])
    assert cost_of_empty(layer) is None


def test_a_symbol_times_zero_is_empty_and_a_symbol_is_not():
    n = sympy.Symbol("n", integer=True, positive=True)
    assert cost_of_empty(Layer("relu", {"x": Tensor((n, 0))}, [Tensor((n, 0))])) is not None
    assert cost_of_empty(Layer("relu", {"x": Tensor((n, 2))}, [Tensor((n, 2))])) is None
    assert cost_of_empty(Layer("constant", {}, [])) is None


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


def test_a_layer_with_an_empty_input_costs_its_bytes_and_the_calculator_is_not_asked():
    """The 3 elements of ``w`` are read and 2*4 written, 4 bytes each."""

    def fails(layer: Layer) -> tuple[int, int, int, dict]:
        raise ValueError(f"asked for {layer.op}")

    layer = Layer("acme", {"x": Tensor((2, 0)), "w": Tensor((3,))}, [Tensor((2, 4))])
    priced = Pricer({"acme": fails})(Call(layer, "acme"))
    assert priced.cost == Cost(Operations(), 3 * 4, 2 * 4 * 4, {})
    assert priced.uncounted is None


def test_an_input_that_may_be_empty_leaves_the_cost_to_the_calculator():
    def counted(layer: Layer) -> tuple[int, int, int, dict]:
        return 7, 0, 0, {}

    counted.may_be_empty = ("w",)  # type: ignore[attr-defined]
    layer = Layer("acme", {"x": Tensor((2, 3)), "w": Tensor((0,))}, [Tensor((2, 3))])
    assert Pricer({"acme": counted})(Call(layer, "acme")).cost.flops == 7


def test_a_calculator_that_raises_leaves_its_call_uncounted_with_the_reason():
    def fails(layer: Layer) -> tuple[int, int, int, dict]:
        raise ValueError("no axis")

    priced = Pricer({"acme": fails})(call("acme", Uncounted.NO_SHAPES))
    assert priced.cost is None
    assert priced.uncounted is Uncounted.CALCULATOR_FAILED
    assert "fails for 'acme' raised ValueError: no axis" in priced.reason


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
