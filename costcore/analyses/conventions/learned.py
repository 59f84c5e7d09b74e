"""Which operands are computed from trained parameters: those have gradients, which decides what PyTorch runs."""

from __future__ import annotations

from costcore.trace.trace import Trace


def learned_inputs(trace: Trace) -> list[tuple[int, ...]]:
    """Return, for each call of a trace, the positions of its inputs that are trained or computed from what is."""
    frozen = {parameter for module in trace.run.modules.values() for parameter in module.frozen}
    learned: set[int] = set()
    found: list[tuple[int, ...]] = []
    for call in trace.calls:
        parameters = iter(call.parameters)
        own = []
        for i, (tensor, each) in enumerate(zip(call.layer.inputs.values(), call.inputs, strict=False)):
            if (next(parameters, 0) not in frozen) if tensor.role == "param" else each in learned:
                own.append(i)
        if own:
            learned.update(each for each in call.outputs if each)
        found.append(tuple(own))
    return found
