"""Compute the cost of calls with their calculators, once for equal layers, and check the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from costcore.counting.layout import cost_of_free, is_layout
from costcore.errors import CostError
from costcore.ir import OPERATION_CLASSES, Calculator, Cost, Layer, Operations
from costcore.messages import line_of, qualified_name, short_repr
from costcore.numbers.dims import Dim, as_dim
from costcore.numbers.symbolic import is_negative
from costcore.trace.call import Call, Uncounted
from costcore.trace.trace import CallCost

Calculators: TypeAlias = Mapping[str, Calculator]

CALCULATOR_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The exceptions of a calculator after which its call is reported as not counted. All other calls are counted."""


MOST_BITS = 960
"""The most bits of a cost, about 289 digits: sums and rates of such costs are numbers of Python's floats."""

_MOST = (1 << MOST_BITS) - 1

MOST_ELEMENTS = 2**256
"""The most elements of a tensor: products of three such sizes are costs."""

TOO_LARGE = "a tensor of shape "
"""How the reason begins if sizes, and not the calculator, make a cost that is no number."""


class _Result(NamedTuple):
    """The cost of a layer, or the reason why it could not be counted."""

    cost: Cost | None
    uncounted: Uncounted | None = None
    reason: str = ""


class Pricer:
    """Computes the cost of calls, once for equal layers.

    Args:
        calculators: calculators by canonical operator name or the framework's own name, which takes precedence.
        layout: ``"framework"`` counts data movement as the framework executes it, ``"free"`` ignores it.
    """

    def __init__(self, calculators: Calculators, layout: str = "framework") -> None:
        self._calculators = calculators
        self._free_layout = layout == "free"
        self._by_layer: dict[tuple[str, Uncounted | None, Layer], _Result] = {}
        self._by_identity: dict[tuple[str, Uncounted | None, int], tuple[Layer, _Result]] = {}
        """The same results by ``id`` of the layer, as hashing a layer is slow. Storing the layer keeps its id valid."""

    def __call__(self, call: Call) -> CallCost:
        """Return the cost of one execution of ``call``; a report multiplies it by ``call.times``."""
        layer, native, uncounted = call.layer, call.native, call.uncounted
        entry = self._by_identity.get((native, uncounted, id(layer)))
        if entry is None:
            key = (call.operator, uncounted, layer)
            if key not in self._by_layer:
                calculator = self._calculators.get(key[0]) or self._calculators.get(layer.op)
                self._by_layer[key] = self._compute(layer, calculator, uncounted or Uncounted.NO_CALCULATOR)
            entry = self._by_identity[native, uncounted, id(layer)] = (layer, self._by_layer[key])
        return CallCost(call, *entry[1])

    def _compute(self, layer: Layer, calculator: Calculator | None, uncounted: Uncounted) -> _Result:
        if calculator is None:
            return _Result(None, uncounted, uncounted.reason(layer.op))
        if self._free_layout and is_layout(calculator):
            return _Result(cost_of_free(layer))
        if (empty := cost_of_empty(layer, getattr(calculator, "may_be_empty", ()))) is not None:
            return _Result(empty)
        try:
            return _Result(cost_of(layer, calculator))
        except CostError as error:
            return _Result(None, Uncounted.CALCULATOR_FAILED, _too_large(layer) or str(error))


def cost_of(layer: Layer, calculator: Calculator) -> Cost:
    """Return the checked cost that ``calculator`` computes for ``layer``.

    Raises:
        CostError: if the calculator raises an exception, or returns anything but four to six exact values.
    """
    try:
        result = calculator(layer)
    except CALCULATOR_ERRORS as error:
        problem = f"{type(error).__name__}: {error}{line_of(error)}"
        raise CostError(f"{_name(calculator, layer)} raised {problem}") from error
    if not isinstance(result, tuple) or len(result) not in (4, 5, 6):
        expected = "(flops, mread, mwrite, params[, macs[, mcomm]])"
        raise CostError(f"{_name(calculator, layer)} returned {short_repr(result)} (expected {expected})")
    cost = Cost(*result)
    try:
        operations = cost.flops
        flops = (
            Operations(*(_amount(getattr(operations, name)) for name in OPERATION_CLASSES))
            if isinstance(operations, Operations)
            else _amount(operations)
        )
        mread, mwrite, macs, mcomm = map(_amount, (cost.mread, cost.mwrite, cost.macs, cost.mcomm))
        return Cost(flops, mread, mwrite, dict(cost.params), macs, mcomm)
    except (TypeError, ValueError) as error:
        raise CostError(f"{_name(calculator, layer)} returned {short_repr(result)}: {error}") from error


def _too_large(layer: Layer) -> str:
    """Return which tensor of a layer has more than :data:`MOST_ELEMENTS` elements; empty if none has."""
    for tensor in (*layer.inputs.values(), *layer.outputs):
        if isinstance(size := tensor.size, int) and size > MOST_ELEMENTS:
            shape = f"{', '.join(map(str, tensor.shape)):.60}"
            return f"{TOO_LARGE}({shape}…) of {layer.op!r} has more than 2**256 elements"
    return ""


def _amount(value: object) -> Dim:
    if type(value) is int and 0 <= value <= _MOST:
        return value
    amount = as_dim(value)
    if isinstance(amount, int):
        if amount.bit_length() > MOST_BITS:
            raise ValueError(f"a cost cannot have more than {MOST_BITS} bits (got {amount.bit_length()} bits)")
    elif amount.is_number and not amount.is_integer:
        raise ValueError(f"a cost must be an integer (got {amount})")
    if is_negative(amount):
        raise ValueError(f"a cost cannot be negative (got {amount})")
    return amount


def cost_of_empty(layer: Layer, may_be_empty: Collection[str] = ()) -> Cost | None:
    """Return the cost of a layer with an empty input or output, or None if there is none.

    An empty output costs nothing. With an empty input, no operations are counted, only the bytes of the other operands.

    Args:
        layer: the layer.
        may_be_empty: the inputs without which the operator computes nonetheless.
    """
    if layer.outputs and all(tensor.size == 0 for tensor in layer.outputs):
        return cost_of_free(layer)
    if any(tensor.size == 0 for name, tensor in layer.inputs.items() if name not in may_be_empty):
        return Cost(Operations(), layer.read, layer.written, layer.attrs)
    return None


def _name(calculator: Calculator, layer: Layer) -> str:
    return f"calculator {qualified_name(calculator)} for {layer.op!r}"
