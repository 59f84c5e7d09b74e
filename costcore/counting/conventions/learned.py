"""Which operands are computed from parameters: those have gradients, which decides what PyTorch runs."""

from __future__ import annotations

from itertools import islice

from costcore.trace.trace import Trace


def learned_inputs(trace: Trace) -> list[tuple[int, ...]]:
    """Return, for each call of a trace, the positions of its inputs that are trained or computed from a parameter.

    Views are what they are views of. What a backward pass reads and no call made is a result inside an operator: of an
    LSTM, the input of its lowest layer, or the output of a lower layer, which is computed from parameters.
    """
    frozen = {each for module in trace.run.modules.values() for each in module.frozen}
    learned: set[int] = set()
    known: set[int] = set()
    lowest: dict[int, bool] = {}  # weights of the lowest layer of each LSTM: whether its input is learned
    found: list[tuple[int, ...]] = []
    for call in trace.calls:
        storages = (*call.storages, *[0] * (len(call.inputs) + len(call.outputs)))
        keys = [storage or -each for each, storage in zip((*call.inputs, *call.outputs), storages, strict=False)]
        inputs, outputs = keys[: len(call.inputs)], keys[len(call.inputs) :]
        if call.phase == "backward" and all(lowest.get(key, True) for key in inputs):
            learned.update(key for key in inputs if key not in known)
        parameters = iter(call.parameters)
        for tensor, key in zip(call.layer.inputs.values(), inputs, strict=False):
            if tensor.role == "param" and next(parameters, 0) not in frozen:
                learned.add(key)
        if call.layer.op == "lstm":
            weights = (key for name, key in zip(call.layer.inputs, inputs, strict=False) if name.startswith("w"))
            n_directions = 2 if call.layer.attrs.get("bidirectional") else 1
            lowest |= dict.fromkeys(islice(weights, 2 * n_directions), inputs[0] in learned)
        own = tuple(i for i, key in enumerate(inputs) if key in learned)
        if own:
            learned.update(outputs)
        known.update(keys)
        found.append(own)
    return found
