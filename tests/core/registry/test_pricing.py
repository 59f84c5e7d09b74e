"""The cost of layers with empty tensors, which no calculator is asked for."""

from __future__ import annotations

import sympy

from costcore.counting.pricing import Pricer, cost_of_empty
from costcore.ir import Cost, Layer, Operations, Tensor
from costcore.registry.calculators import calculators
from costcore.trace.call import Call, Uncounted


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
