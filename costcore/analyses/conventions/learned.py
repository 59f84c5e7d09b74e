"""Which operands are computed from parameters: those have gradients, which decides what PyTorch runs."""

from __future__ import annotations

from costcore.trace.trace import Trace


def learned_inputs(trace: Trace) -> list[tuple[int, ...]]:
    """Return, for each call of a trace, the positions of its inputs that are parameters or computed from one."""
    learned: set[int] = set()
    found: list[tuple[int, ...]] = []
    for call in trace.calls:
        inputs = zip(call.layer.inputs.values(), call.inputs, strict=False)
        own = tuple(i for i, (tensor, each) in enumerate(inputs) if tensor.role == "param" or each in learned)
        if own:
            learned.update(each for each in call.outputs if each)
        found.append(own)
    return found
