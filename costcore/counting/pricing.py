"""What a call costs: its calculator asked once for equal layers, and its answer checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from costcore.dims import Dim, as_dim
from costcore.errors import CostError
from costcore.ir import KINDS, Calculator, Cost, Layer, Operations
from costcore.messages import place
from costcore.symbolic import is_negative
from costcore.trace.call import Call, Uncounted
from costcore.trace.trace import CallCost

Calculators: TypeAlias = Mapping[str, Calculator]

MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a calculator that fails may raise: the call is not counted, and everything else is."""


class _Answer(NamedTuple):
    """What a calculator gave for a layer: a cost, or why there is none."""

    cost: Cost | None
    uncounted: Uncounted | None = None
    reason: str = ""


class Pricer:
    """Computes the cost of calls, once for equal layers.

    Args:
        calculators: by operator, canonical or native name; the native name is looked up first.
        layout: ``"framework"`` counts data movement as the framework does it, ``"free"`` makes layout operators free.
    """

    def __init__(self, calculators: Calculators, layout: str = "framework") -> None:
        self._calculators = calculators
        self._free_layout = layout == "free"
        self._by_layer: dict[tuple[str, Uncounted | None, Layer], _Answer] = {}
        self._by_identity: dict[tuple[str, Uncounted | None, int], tuple[Layer, _Answer]] = {}
        """The same by identity of the layer, which it keeps alive: hashing a layer takes longer than all else."""

    def __call__(self, call: Call) -> CallCost:
        """Return the cost of one execution of ``call``; a report multiplies it by ``call.times``."""
        layer, native, uncounted = call.layer, call.native, call.uncounted
        seen = self._by_identity.get((native, uncounted, id(layer)))
        if seen is None:
            key = (native, uncounted, layer)
            if key not in self._by_layer:
                calculator = self._calculators.get(native) or self._calculators.get(layer.op)
                self._by_layer[key] = self._answer(layer, calculator, uncounted or Uncounted.NO_CALCULATOR)
            seen = self._by_identity[native, uncounted, id(layer)] = (layer, self._by_layer[key])
        return CallCost(call, *seen[1])

    def _answer(self, layer: Layer, calculator: Calculator | None, uncounted: Uncounted) -> _Answer:
        if calculator is None:
            return _Answer(None, uncounted, uncounted.reason(layer.op))
        if self._free_layout and getattr(calculator, "is_layout", False):
            return _Answer(Cost(Operations(), 0, 0, layer.attrs))
        if (empty := cost_of_empty(layer)) is not None:
            return _Answer(empty)
        try:
            return _Answer(cost_of(layer, calculator))
        except CostError as error:
            return _Answer(None, Uncounted.CALCULATOR_FAILED, str(error))


def cost_of(layer: Layer, calculator: Calculator) -> Cost:
    """What ``calculator`` says of ``layer``, checked.

    Raises:
        CostError: where it raises, or returns anything but four or five exact values; names calculator and layer.
    """
    try:
        result = calculator(layer)
    except MISTAKES as error:
        raise CostError(f"{_who(calculator, layer)} raised {type(error).__name__}: {error}") from error
    if not isinstance(result, tuple) or len(result) not in (4, 5):
        raise CostError(
            f"{_who(calculator, layer)} returned {result!r}; expected (flops, mread, mwrite, params[, macs])"
        )
    cost = Cost(*result)
    try:
        operations = cost.flops
        flops = (
            Operations(*(_amount(getattr(operations, kind)) for kind in KINDS))
            if isinstance(operations, Operations)
            else _amount(operations)
        )
        return Cost(flops, _amount(cost.mread), _amount(cost.mwrite), dict(cost.params), _amount(cost.macs))
    except (TypeError, ValueError) as error:
        raise CostError(f"{_who(calculator, layer)} returned {result!r}: {error}") from error


def _amount(value: object) -> Dim:
    amount = as_dim(value)
    if is_negative(amount):
        raise ValueError(f"a cost cannot be negative, got {amount}")
    return amount


def cost_of_empty(layer: Layer) -> Cost | None:
    """The cost of an operator with an empty input or output: no operations, and the bytes that are left to move."""

    def is_empty(size: Dim) -> bool:
        return as_dim(size) == 0  # zero times a symbol is a zero of sympy

    if layer.outputs and all(is_empty(tensor.size) for tensor in layer.outputs):
        return Cost(Operations(), 0, 0, layer.attrs)
    if any(is_empty(tensor.size) for tensor in layer.inputs.values()):
        return Cost(Operations(), layer.read, layer.written, layer.attrs)
    return None


def check_calculator(calculator: object, arguments: str = "layer") -> None:
    """Refuse what cannot be called with the given number of positional arguments.

    Raises:
        TypeError: saying what was expected.
    """
    if not callable(calculator):
        raise TypeError(f"a calculator must be callable as calculator({arguments}), got {calculator!r}")
    try:
        inspect.signature(calculator).bind(*arguments.split(", "))
    except TypeError as error:
        raise TypeError(
            f"{place(calculator)} cannot be called as calculator({arguments}): {error}; expected one argument, the "
            "layer (or, for Chainer functions, the older form calculator(func, in_data, **kwargs)), and a result "
            "(flops, mread, mwrite, params)"
        ) from error
    except ValueError:
        return  # a built-in without a signature: its first call will tell


def _who(calculator: Calculator, layer: Layer) -> str:
    return f"the calculator {place(calculator)} for {layer.op!r}"
