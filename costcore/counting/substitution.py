"""Substitute values for the symbolic dimensions of a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from costcore.counting.pricing import cost_of_empty
from costcore.errors import CostError, CostWarning
from costcore.ir import OPERATION_CLASSES, Cost, Operations
from costcore.messages import unknown
from costcore.numbers.dims import Dim, as_dim, is_symbolic
from costcore.numbers.evaluation import Evaluation, symbols_of
from costcore.numbers.expressions import size_from, symbol_of
from costcore.numbers.symbolic import as_text
from costcore.trace.call import Call
from costcore.trace.records import with_sizes
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace
from costcore.trace.unrolling import unrolled


def substitute_values(trace: Trace, values: Mapping[str, Any]) -> Trace:
    """Return the trace with its symbolic dimensions replaced by ``values``, by name (a string or symbol).

    A value is an integer, or an expression as a text (``"past + new"``) or of sympy, whose names are those of symbols.

    Raises:
        TypeError: if a value is neither an integer nor an expression of names.
        CostError: if the trace has no symbol of a name, a value is negative, or a value makes a size negative.
    """
    symbols = {symbol.name: symbol for symbol in symbols_in(trace)}
    given = {str(name): value for name, value in values.items()}
    by_name = {name: size_from(value, _sizes(given, symbols)) for name, value in given.items()}
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
        except (ArithmeticError, TypeError, ValueError) as error:  # none, a fraction, or an infinity inside a function
            raise CostError(f"{as_text(value)} has no value for these sizes: {error}") from error

    run = trace.run
    above = [(each, substitute(elements), most) for each, elements, most in run.assumed_above]
    new_run = replace(
        run,
        assumptions=(*run.assumptions, *(each for each, n, most in above if isinstance(n, int) and n > most)),
        parameters=with_sizes(run.parameters, substitute),
        n_params_model=substitute(run.n_params_model),
        modules=with_sizes(run.modules, substitute),
        records={name: with_sizes(value, substitute) for name, value in run.records.items() if name != "assumed_above"},
    ).recording(assumed_above=tuple(each for each in above if is_symbolic(each[1])))
    found = Trace(tuple(_in_record(record, substitute, run.layout) for record in trace), new_run)
    if new_run.unfolded is not None and not symbols_in(found):
        return unrolled(found)
    run_at_all = [i for i, call in enumerate(found.calls) if call.times != 0]
    return found if len(run_at_all) == len(found) or run.dataflow is not None else found.only(run_at_all)


def _warn_outside(run: Run, values: Mapping[str, Dim]) -> None:
    """Warn about values at which the formulas of the run were not checked."""
    for name, value in values.items():
        low, high = run.ranges.get(name, (value, value))
        if isinstance(value, int) and not low <= value <= high:
            message = (
                f"{name}={value} is outside the sizes at which the formulas were checked, {low} to {high}; "
                f"state ranges={{{name!r}: (…, …)}} when the report is made"
            )
            warnings.warn(message, CostWarning, stacklevel=4)


def _sizes(given: Mapping[str, Any], symbols: Mapping[str, Any]) -> Callable[[str], Dim]:
    """Return a function that returns the size of a name in an expression: the given number, else a symbol."""

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


def _in_record(record: CallCost, substitute: Callable[[Any], Any], layout: str) -> CallCost:
    """Return a call and its cost after substitution.

    If an operand becomes empty, the cost is that of an empty operand, which differs from the value of the formula.
    """
    call = record.call._replace(layer=record.call.layer.map_dims(substitute), times=substitute(record.call.times))
    _check_shapes(call)
    cost = _in_cost(record.cost, substitute)
    is_free = cost is not None and cost.mread == cost.mwrite == 0
    empty = None if cost is None or (layout == "free" and is_free) else cost_of_empty(call.layer)
    return record._replace(call=call, cost=cost if empty is None else empty)


def _check_shapes(call: Call) -> None:
    """Refuse shapes that no tensor has, and those that contradict what was assumed of symbols.

    A slice ``x[-3:]`` was assumed to lie inside its axis, and a reshape to keep the number of elements.

    Raises:
        CostError: for such a shape.
    """
    for tensor in (*call.layer.inputs.values(), *call.layer.outputs):
        if any(isinstance(d, int) and d < 0 for d in tensor.shape):
            raise CostError(f"{call.name}: these values give the invalid shape {as_text(tensor.shape)}")
    layer = call.layer
    if layer.op not in ("slice", "reshape") or "x" not in layer or not layer.outputs:
        return
    x, y = layer["x"], layer.out
    shapes = f"of the shape {as_text(y.shape)} from one of the shape {as_text(x.shape)}"
    if layer.op == "reshape" and isinstance(x.size, int) and isinstance(y.size, int) and x.size != y.size:
        raise CostError(f"{call.name}: these values make a tensor {shapes}, which was assumed to be as large")
    if layer.op == "slice" and len(x.shape) == len(y.shape):
        pairs = ((a, b) for a, b in zip(x.shape, y.shape, strict=True) if isinstance(a, int) and isinstance(b, int))
        if any(b > a for a, b in pairs):
            raise CostError(f"{call.name}: these values cut a slice {shapes}, which was assumed to contain it")


def _in_cost(cost: Cost | None, substitute: Callable[[Any], Any]) -> Cost | None:
    if cost is None:
        return None
    operations = cost.flops
    flops = (
        Operations(*(substitute(getattr(operations, name)) for name in OPERATION_CLASSES))
        if isinstance(operations, Operations)
        else substitute(operations)
    )
    params = {
        name: tuple(map(substitute, value)) if isinstance(value, tuple) else substitute(value)
        for name, value in cost.params.items()
    }
    mread, mwrite, macs, mcomm = map(substitute, (cost.mread, cost.mwrite, cost.macs, cost.mcomm))
    return Cost(flops, mread, mwrite, params, macs, mcomm)
