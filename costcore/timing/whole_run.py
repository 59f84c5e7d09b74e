"""The bytes that a whole run needs from outside: its weights and inputs, each once."""

from __future__ import annotations

from costcore.trace.trace import CallCost, Trace


def bytes_from_outside(trace: Trace) -> int:
    """Return the bytes of the values that calls read and no call produced, each once: weights, inputs, states.

    Of a value that is read in part, as the table of an embedding, the largest part that one call reads counts. Values
    without an operand id do not count.
    """
    produced: set[int] = set()
    same_as: dict[int, int] = {}
    needed: dict[int, int] = {}
    for record in trace:
        call, cost = record.call, record.cost
        for identity, nbytes in _parts_read(record).items():
            value = same_as.get(identity, identity)
            if value not in produced:
                needed[value] = max(needed.get(value, 0), nbytes)
        if cost is not None and call.inputs and cost.mread == cost.mwrite == 0:
            source = same_as.get(call.inputs[0], call.inputs[0])
            same_as.update(dict.fromkeys(call.outputs, source))  # a view
        else:
            produced.update(call.outputs)
    return sum(needed.values())


def _parts_read(record: CallCost) -> dict[int, int]:
    """Return the bytes that one execution of a call needs of every operand, by id.

    What is not read is taken off the largest operand.
    """
    call, cost = record.call, record.cost
    if cost is None:
        return {}
    operands = zip(call.inputs, call.layer.inputs.values(), strict=False)
    parts = {identity: int(tensor.nbytes) for identity, tensor in operands if identity}
    unread = max(0, int(call.layer.read) - int(cost.mread))
    for identity in sorted(parts, key=parts.__getitem__, reverse=True):
        taken = min(unread, parts[identity])
        parts[identity] -= taken
        unread -= taken
    return parts
