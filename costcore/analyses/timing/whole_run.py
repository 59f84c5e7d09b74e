"""The bytes that a whole run needs from outside: its weights and inputs, each once."""

from __future__ import annotations

from costcore.ir import Cost, Layer
from costcore.trace.trace import Trace


def bytes_from_outside(trace: Trace) -> int:
    """Return the bytes of the values that calls read and no call produced, each once: weights, inputs, states.

    Of a value that is read in part, as the table of an embedding, the largest part that one call reads counts. Values
    without an operand id do not count.
    """
    produced: set[int] = set()
    same_as: dict[int, int] = {}
    needed: dict[int, int] = {}
    parts: dict[tuple[int, int], list[int]] = {}
    for call, cost, *_ in trace.records:
        if cost is None:
            produced.update(call.outputs)
            continue
        key = id(call.layer), id(cost)
        if key not in parts:
            parts[key] = _parts_read(call.layer, cost)
        for identity, nbytes in zip(call.inputs, parts[key], strict=False):
            value = same_as.get(identity, identity)
            if identity and value not in produced and nbytes > needed.get(value, 0):
                needed[value] = nbytes
        if call.inputs and cost.mread == cost.mwrite == 0:
            source = same_as.get(call.inputs[0], call.inputs[0])
            same_as.update(dict.fromkeys(call.outputs, source))  # a view
        else:
            produced.update(call.outputs)
    return sum(needed.values())


def _parts_read(layer: Layer, cost: Cost) -> list[int]:
    """Return the bytes that one execution needs of every operand; what is not read is taken off the largest ones."""
    parts = [int(tensor.nbytes) for tensor in layer.inputs.values()]
    unread = max(0, sum(parts) - int(cost.mread))
    for i in sorted(range(len(parts)), key=parts.__getitem__, reverse=True):
        taken = min(unread, parts[i])
        parts[i] -= taken
        unread -= taken
    return parts
