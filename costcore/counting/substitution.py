"""Values put in for the symbolic dimensions of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from costcore.counting.pricing import cost_of_empty
from costcore.dims import as_dim, is_symbolic
from costcore.errors import CostError
from costcore.ir import KINDS, Cost, Operations
from costcore.symbolic import written
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace


def put_values(trace: Trace, values: Mapping[str, int]) -> Trace:
    """Return the trace with ``values`` in place of the symbols of those names (texts, or symbols themselves).

    Raises:
        TypeError: for a value that is no integer.
        CostError: for a name that is no symbol of these calls, lists those that are; for a value that is negative, or
            too small for a call, whose shape would be negative.
    """
    given = {str(name): as_dim(value) for name, value in values.items()}
    symbols = {symbol.name: symbol for symbol in symbols_in(trace)}
    unknown = [name for name in given if name not in symbols]
    if unknown:
        known = ", ".join(sorted(symbols)) or "none"
        raise CostError(f"{', '.join(unknown)}: no such symbolic dimension; those of this report are: {known}")
    for name, value in given.items():
        if symbols[name].is_nonnegative and isinstance(value, int) and value < 0:
            raise CostError(f"{name} cannot be negative, got {value}")
    chosen = {symbols[name]: value for name, value in given.items()}

    def put(value: Any) -> Any:
        return as_dim(value.subs(chosen)) if is_symbolic(value) else value

    run = trace.run
    changed = replace(
        run,
        parameters={identity: put(size) for identity, size in run.parameters.items()},
        n_params_model=put(run.n_params_model),
        modules={path: module._replace(buffers=put(module.buffers)) for path, module in run.modules.items()},
    )
    return Trace(tuple(_put(record, put, run.layout) for record in trace), changed)


def symbols_in(trace: Trace) -> set[Any]:
    """The symbolic dimensions of calls, those of a loop's passes among them."""
    dims: list[Any] = [call.times for call in trace.calls]
    for call in trace.calls:
        for tensor in (*call.layer.inputs.values(), *call.layer.outputs):
            dims += tensor.shape
    return {symbol for dim in dims if is_symbolic(dim) for symbol in dim.free_symbols}


def _put(item: CallCost, put: Callable[[Any], Any], layout: str) -> CallCost:
    """A call with values put in. What it makes empty costs what an empty one does, and not what its formula says."""
    call = _put_call(item.call, put)
    _check(call)
    cost = _put_cost(item.cost, put)
    is_free = cost is not None and cost.mread == cost.mwrite == 0
    empty = None if cost is None or (layout == "free" and is_free) else cost_of_empty(call.layer)
    return item._replace(call=call, cost=cost if empty is None else empty)


def _check(call: Call) -> None:
    for tensor in (*call.layer.inputs.values(), *call.layer.outputs):
        if any(isinstance(d, int) and d < 0 for d in tensor.shape):
            raise CostError(f"{call.name} has no shape for these values: {written(tensor.shape)}")


def _put_call(call: Call, put: Callable[[Any], Any]) -> Call:
    return call._replace(layer=call.layer.map_dims(put), times=put(call.times))


def _put_cost(cost: Cost | None, put: Callable[[Any], Any]) -> Cost | None:
    if cost is None:
        return None
    operations = cost.flops
    flops = (
        Operations(*(put(getattr(operations, k)) for k in KINDS))
        if isinstance(operations, Operations)
        else put(operations)
    )
    params = {name: tuple(map(put, v)) if isinstance(v, tuple) else put(v) for name, v in cost.params.items()}
    return Cost(flops, put(cost.mread), put(cost.mwrite), params, put(cost.macs))
