"""Costs of calls: computed by calculators, checked, and evaluated for values of symbolic dimensions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, CostWarning, line_of, qualified_name, short_repr, unknown
from costcore.ir import OPERATION_CLASSES, Calculator, Cost, Layer, Operations, prod
from costcore.numbers import (
    Dim,
    Evaluation,
    as_dim,
    as_text,
    is_negative,
    is_symbolic,
    size_from,
    symbol_of,
    symbols_of,
)
from costcore.registry import calculators
from costcore.trace.call import Call, Uncounted, with_sizes
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace, unrolled

# Costs by calculators, once for equal layers.


Calculators: TypeAlias = Mapping[str, Calculator]

CALCULATOR_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The exceptions of a calculator that make its call uncounted; all other calls are counted."""

MOST_BITS = 960
"""The maximum bits of a cost, about 289 digits: sums and rates of such costs fit Python's floats (1024 bits)."""

_MAX_COST = (1 << MOST_BITS) - 1

MOST_ELEMENTS = 2**256
"""The maximum elements of a tensor: products of three such sizes fit a cost."""

TOO_LARGE = "a tensor of shape "
"""The start of the reason of an uncounted call with a tensor that is too large: its calculator is not at fault."""


class _Result(NamedTuple):
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
        """The same results by ``id`` of the layer: hashing a layer is slow. The stored layer keeps its id."""

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
        mread, mwrite, macs, mcomm = map(_amount, (cost.mread, cost.mwrite, cost.macs, cost.mcomm))
        return Cost(_map_flops(cost.flops, _amount), mread, mwrite, dict(cost.params), macs, mcomm)
    except (TypeError, ValueError) as error:
        raise CostError(f"{_name(calculator, layer)} returned {short_repr(result)}: {error}") from error


def _map_flops(flops: Dim | Operations, change: Callable[[Any], Any]) -> Dim | Operations:
    if isinstance(flops, Operations):
        return Operations(*(change(getattr(flops, name)) for name in OPERATION_CLASSES))
    return change(flops)


def _too_large(layer: Layer) -> str:
    for tensor in (*layer.inputs.values(), *layer.outputs):
        if isinstance(size := tensor.size, int) and size > MOST_ELEMENTS:
            shape = f"{', '.join(map(str, tensor.shape)):.60}"
            return f"{TOO_LARGE}({shape}…) of {layer.op!r} has more than 2**256 elements"
    return ""


def _amount(value: object) -> Dim:
    if type(value) is int and 0 <= value <= _MAX_COST:
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
    """Return the cost of a layer with an empty tensor, or None for any other layer.

    If all outputs are empty, the cost is zero. If an input is empty, the cost is the bytes of all operands, without
    operations.

    Args:
        layer: the layer.
        may_be_empty: inputs with which the operator computes even if they are empty.
    """
    if layer.outputs and all(tensor.size == 0 for tensor in layer.outputs):
        return cost_of_free(layer)
    if any(tensor.size == 0 for name, tensor in layer.inputs.items() if name not in may_be_empty):
        return Cost(Operations(), layer.read, layer.written, layer.attrs)
    return None


def _name(calculator: Calculator, layer: Layer) -> str:
    return f"calculator {qualified_name(calculator)} for {layer.op!r}"


# Costs without data movement (``layout="free"``).


def is_layout(calculator: Calculator | None) -> bool:
    """Return whether the operators of a calculator only move data."""
    return getattr(calculator, "is_layout", False)


def cost_of_free(layer: Layer) -> Cost:
    """Return a zero cost with the attributes of the layer."""
    return Cost(Operations(), 0, 0, layer.attrs)


def with_free_layout(trace: Trace) -> Trace:
    """Return a trace in which the operators that only move data cost nothing."""
    table = calculators()
    records = tuple(
        record._replace(cost=cost_of_free(record.call.layer))
        if record.cost is not None and is_layout(table.get(record.call.layer.op))
        else record
        for record in trace
    )
    return Trace(records, replace(trace.run, layout="free"))


# Substitution of symbolic dimensions.


def substitute_values(trace: Trace, values: Mapping[str, Any]) -> Trace:
    """Return the trace with its symbolic dimensions replaced by ``values``, by name (a string or symbol).

    A value is an integer, or an expression in the names of symbols, as a text (``"past + new"``) or of sympy.

    Raises:
        TypeError: if a value is neither an integer nor an expression of names.
        CostError: if the trace has no symbol of that name, a value is negative, or a value makes a size negative.
    """
    symbols = {symbol.name: symbol for symbol in symbols_in(trace)}
    given = {str(name): value for name, value in values.items()}
    by_name = {name: size_from(value, _size_lookup(given, symbols)) for name, value in given.items()}
    if missing := [name for name in by_name if name not in symbols]:
        if not symbols:
            raise CostError(f"cannot substitute {', '.join(missing)}: this report has no symbolic dimensions")
        raise CostError(unknown("symbolic dimension", missing, sorted(symbols)))
    for name, value in by_name.items():
        if symbols[name].is_nonnegative and isinstance(value, int) and value < 0:
            raise CostError(f"{name} cannot be negative (got {value})")
    _warn_outside(trace.run, by_name)
    evaluate = Evaluation({symbols[name]: value for name, value in by_name.items()})

    def substitute(value: Any) -> Any:
        if type(value) is int:
            return value
        try:
            return as_dim(evaluate(value)) if is_symbolic(value) else value
        except (ArithmeticError, TypeError, ValueError) as error:
            # The expression has no value, is a fraction, or has an infinity inside a function.
            raise CostError(f"{as_text(value)} has no value for these sizes: {error}") from error

    run = trace.run
    above = [(assumption, substitute(elements), most) for assumption, elements, most in run.assumed_above]
    new_run = replace(
        run,
        assumptions=(*run.assumptions, *(new for new, n, most in above if isinstance(n, int) and n > most)),
        parameters=with_sizes(run.parameters, substitute),
        n_params_model=substitute(run.n_params_model),
        modules=with_sizes(run.modules, substitute),
        records={name: with_sizes(value, substitute) for name, value in run.records.items() if name != "assumed_above"},
    ).recording(assumed_above=tuple(each for each in above if is_symbolic(each[1])))
    found = Trace(tuple(_substitute_record(record, substitute, run.layout) for record in trace), new_run)
    if new_run.unfolded is not None and not symbols_in(found):
        return unrolled(found)
    executed = [i for i, call in enumerate(found.calls) if call.times != 0]
    return found if len(executed) == len(found) or run.dataflow is not None else found.only(executed)


def _warn_outside(run: Run, values: Mapping[str, Dim]) -> None:
    for name, value in values.items():
        low, high = run.ranges.get(name, (value, value))
        if isinstance(value, int) and not low <= value <= high:
            message = (
                f"{name}={value} is outside the sizes at which the formulas were checked, {low} to {high}; "
                f"pass ranges={{{name!r}: (…, …)}} to estimate"
            )
            warnings.warn(message, CostWarning, stacklevel=4)


def _size_lookup(given: Mapping[str, Any], symbols: Mapping[str, Any]) -> Callable[[str], Dim]:
    def size_of(name: str) -> Dim:
        number = given.get(name)
        return as_dim(number) if isinstance(number, int) else symbols.get(name, symbol_of(name))

    return size_of


def symbols_in(trace: Trace) -> set[Any]:
    """Return the symbolic dimensions of the calls and their costs, including the trip counts of loops.

    A cost may depend on a dimension that no operand has, such as the pages per sequence of a cache.
    """
    dims: list[Any] = [call.times for call in trace.calls]
    if trace.run.dataflow is not None:
        dims += [value.nbytes for value in trace.run.dataflow.values()]
    for record in trace:
        for tensor in (*record.call.layer.inputs.values(), *record.call.layer.outputs):
            dims += tensor.shape
        if record.cost is not None:
            dims += _numbers_of(record.cost)
    return symbols_of(dims)


def _numbers_of(cost: Cost) -> list[Any]:
    operations = cost.flops
    flops = (
        [getattr(operations, name) for name in OPERATION_CLASSES]
        if isinstance(operations, Operations)
        else [operations]
    )
    return [*flops, cost.mread, cost.mwrite, cost.macs, cost.mcomm]


def _substitute_record(record: CallCost, substitute: Callable[[Any], Any], layout: str) -> CallCost:
    call = record.call._replace(layer=record.call.layer.map_dims(substitute), times=substitute(record.call.times))
    _check_shapes(call)
    cost = _substitute_cost(record.cost, substitute)
    is_free = cost is not None and cost.mread == cost.mwrite == 0
    # The cost with an empty operand differs from the value of the formula.
    empty = None if cost is None or (layout == "free" and is_free) else cost_of_empty(call.layer)
    return record._replace(call=call, cost=cost if empty is None else empty)


def _check_shapes(call: Call) -> None:
    for tensor in (*call.layer.inputs.values(), *call.layer.outputs):
        if any(isinstance(d, int) and d < 0 for d in tensor.shape):
            raise CostError(f"{call.name}: these values give the invalid shape {as_text(tensor.shape)}")
    # Formulas assumed that a slice ``x[-3:]`` lies inside its axis, and that a reshape keeps the number of elements.
    layer = call.layer
    if layer.op not in ("slice", "reshape") or "x" not in layer or not layer.outputs:
        return
    x, y = layer["x"], layer.out
    shapes = f"{as_text(x.shape)} to {as_text(y.shape)}"
    if layer.op == "reshape" and isinstance(x.size, int) and isinstance(y.size, int) and x.size != y.size:
        raise CostError(f"{call.name}: these values reshape {shapes}, which has another number of elements")
    if layer.op == "slice" and len(x.shape) == len(y.shape) and not _may_contain(x.shape, y.shape):
        raise CostError(f"{call.name}: these values slice {shapes}, which is larger")


def _may_contain(x: Sequence[Dim], y: Sequence[Dim]) -> bool:
    """Return whether a slice of ``x`` can have the shape ``y``: it may drop axes, and add axes of size 1."""
    if 0 in x:
        return 0 in y or is_symbolic(prod(y))
    sizes = iter(x)
    return all(is_symbolic(b) or b == 1 or any(is_symbolic(a) or b <= a for a in sizes) for b in y)


def _substitute_cost(cost: Cost | None, substitute: Callable[[Any], Any]) -> Cost | None:
    if cost is None:
        return None
    params = {
        name: tuple(map(substitute, value)) if isinstance(value, tuple) else substitute(value)
        for name, value in cost.params.items()
    }
    mread, mwrite, macs, mcomm = map(substitute, (cost.mread, cost.mwrite, cost.macs, cost.mcomm))
    return Cost(_map_flops(cost.flops, substitute), mread, mwrite, params, macs, mcomm)
