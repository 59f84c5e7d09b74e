"""Mark the operands of a captured run that are in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from costcore.ir import Cost, Layer, Operations, Role, Tensor
from costcore.numbers.dims import Dim
from costcore.studies.serving.cached_model import CacheStorages
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace

CACHED: Role = "state"
"""The role of keys, values and latents in the cache. Decoders have no other states."""

STATE: Role = "const"
"""The role of states of recurrences in the cache. No other arrays of a PyTorch model are constants."""

_Key = tuple[int, tuple[bool, ...], tuple[int | None, ...], tuple[Role, ...]]


def with_marks(trace: Trace, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> Trace:
    """Return the run with :data:`CACHED` or :data:`STATE` for every tensor in the cache, and for copies of these.

    A copy of nothing but cached elements is marked too. One that repeats elements, as the keys of a group for each of
    its heads, is as large as what it is a copy of: an engine reads that.

    Args:
        trace: the run.
        storages: ids of the storages of the cache, before and after the run.
        pricer: computes the cost of a call.
    """
    marks = _Marks(storages, pricer)
    return Trace(tuple(map(marks.marked, trace.records)), trace.run)


def times_cached(trace: Trace, storages: CacheStorages) -> int:
    """Return how often a pass writes each new element to the cache: often if the model repeats heads before it."""
    copies: dict[int, int] = {}
    times = 1
    for record in trace:
        call = record.call
        inputs = [*zip(call.layer.inputs.values(), call.storages, strict=False)]
        written = call.storages[len(inputs) :]
        if storages.tokens.intersection(written):
            times = max(times, *(copies.get(storage, 1) for _, storage in inputs))
        elif len(inputs) == 1 and is_move(record) and inputs[0][0].stored_size != 0:
            copies[written[0]] = int(call.layer.out.size // inputs[0][0].stored_size)
    return times


class _Marks:
    def __init__(self, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> None:
        self._price = pricer
        self._states = set(storages.states)
        self._cached: dict[int, int | None] = dict.fromkeys((*storages.tokens, *storages.states))
        """Cached storages, and for copies that repeat elements how many different ones they have."""
        self._layers: dict[_Key, tuple[Layer, Layer]] = {}

    def marked(self, record: CallCost) -> CallCost:
        call = record.call
        flags = tuple(storage in self._cached for storage in call.storages)
        if not any(flags):
            return record
        n_inputs = len(call.layer.inputs)
        arrays = [x.size != 0 and not x.is_scalar for x in call.layer.inputs.values()]
        copies_cache = all(flag for flag, is_array in zip(flags, arrays, strict=False) if is_array)
        if any(flags[:n_inputs]) and copies_cache and not all(flags[n_inputs:]) and is_move(record):
            self._cached.update(dict.fromkeys(call.storages[n_inputs:], _distinct(call, flags)))
            if self._states.intersection(call.storages[:n_inputs]):
                self._states.update(call.storages[n_inputs:])
            flags = (*flags[:n_inputs], *(True for _ in flags[n_inputs:]))
        return self._price(call._replace(layer=self._layer(call, flags)))

    def _layer(self, call: Call, flags: tuple[bool, ...]) -> Layer:
        repeated = tuple(self._cached.get(storage) for storage in call.storages)
        roles = tuple(STATE if storage in self._states else CACHED for storage in call.storages)
        key = id(call.layer), flags, repeated, roles
        if key not in self._layers:
            tensors = [*call.layer.inputs.values(), *call.layer.outputs]
            made = [_marked(*each) for each in zip(tensors, flags, repeated, roles, strict=True)]
            inputs = dict(zip(call.layer.inputs, made, strict=False))
            layer = Layer(call.layer.op, inputs, made[len(inputs) :], call.layer.attrs)
            self._layers[key] = call.layer, layer  # holding the first keeps its id valid
        return self._layers[key][1]


def _marked(tensor: Tensor, is_cached: bool, distinct: int | None, role: Role) -> Tensor:
    if not is_cached or tensor.is_scalar:
        return tensor
    stored = distinct if distinct is not None and distinct < tensor.size else tensor.stored
    return replace(tensor, role=role, stored=stored)


def _distinct(call: Call, flags: tuple[bool, ...]) -> int | None:
    """Return how many different elements a copy has, if it repeats some."""
    sizes = [x.stored_size for x, is_cached in zip(call.layer.inputs.values(), flags, strict=False) if is_cached]
    distinct: Dim = sum(sizes)
    return int(distinct) if distinct < call.layer.out.size else None


def is_move(record: CallCost) -> bool:
    """Return whether a call only copies elements: it reads or writes, and computes nothing."""
    cost = record.cost
    return cost is not None and computes_nothing(cost) and bool(cost.mread != 0 or cost.mwrite != 0)


def computes_nothing(cost: Cost) -> bool:
    """Return whether there are no operations."""
    return cost.flops in (0, Operations())


def cached_inputs(layer: Layer) -> list[Tensor]:
    """Return the operands that are in the cache."""
    return [tensor for tensor in layer.inputs.values() if is_cached(tensor)]


def is_cached(tensor: Tensor) -> bool:
    """Return whether a tensor is in the cache."""
    return tensor.role in (CACHED, STATE) and not tensor.is_scalar
