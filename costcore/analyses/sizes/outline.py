"""The integers of a run, and what is left of it without them: its outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from costcore.ir import Cost, Layer, Operations
from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace


class Outline(NamedTuple):
    """A call without its integers.

    Attributes:
        layer: the layer, with an ellipsis in place of every dimension and every integer among its attributes.
        call: the names of its operator, its module, its phase and its region, and the number of its ids.
        is_free: whether it costs nothing.
    """

    layer: Layer
    call: tuple[Any, ...]
    is_free: bool


class Sample(NamedTuple):
    """A run at integer sizes.

    Attributes:
        trace: the run.
        outlines: the outline of every call.
        integers: the integers of every call: dimensions and attributes of its layer, and how often it runs.
    """

    trace: Trace
    outlines: tuple[Outline, ...]
    integers: tuple[tuple[int, ...], ...]


def sample_of(trace: Trace) -> Sample:
    """Return the outlines and the integers of a run."""
    layers: dict[int, tuple[Layer, tuple[int, ...]]] = {}
    outlines, integers = [], []
    ids = trace.run.unfolded.ids if trace.run.unfolded else ((),) * len(trace)
    for record, of_call in zip(trace, ids, strict=True):
        call = record.call
        if id(call.layer) not in layers:
            layers[id(call.layer)] = without_integers(call.layer)
        layer, found = layers[id(call.layer)]
        named = (call.native, call.type, call.module, call.phase, call.region, record.uncounted, len(of_call))
        outlines.append(Outline(layer, named, is_free(record)))
        integers.append((*found, *((call.times,) if type(call.times) is int else ()), *of_call))
    return Sample(trace, tuple(outlines), tuple(integers))


def without_integers(layer: Layer) -> tuple[Layer, tuple[int, ...]]:
    """Return a layer without its integers, and the integers."""
    found: list[int] = []

    def take(value: Any) -> Any:
        if type(value) is not int:
            return value
        found.append(value)
        return ...

    return layer.map_dims(take), tuple(found)


def with_integers(call: Call, values: Sequence[Dim]) -> tuple[Call, tuple[Dim, ...]]:
    """Return a call with other integers, which may be expressions, and those that are left: ids of a folded run."""
    left: Iterator[Dim] = iter(values)
    layer = call.layer.map_dims(lambda value: next(left) if type(value) is int else value)
    return call._replace(layer=layer, times=next(left, call.times)), tuple(left)


def integers_of(run: Run) -> tuple[int, ...]:
    """Return the dimensions of the inputs and outputs of module calls, and of a folded run the ids that it returned.

    The ids of another run are left out: free calls, which come and go with the size, shift them.
    """
    sizes = (size for call in run.module_calls for shapes in call[2:] for shape in shapes for size in shape)
    return (*sizes, *(run.returned if run.unfolded else ()))


def is_free(record: CallCost) -> bool:
    """Return whether a call costs nothing."""
    return record.cost is not None and not any(amounts_of(record.cost))


def amounts_of(cost: Cost) -> tuple[Dim, ...]:
    """Return the operations by kind, the bytes read, written and sent, and the MACs."""
    operations = cost.flops
    if isinstance(operations, Operations):
        kinds = operations.fma, operations.mul, operations.add, operations.div, operations.cmp, operations.special
        return (*kinds, cost.mread, cost.mwrite, cost.macs, cost.mcomm)
    return operations, cost.mread, cost.mwrite, cost.macs, cost.mcomm
