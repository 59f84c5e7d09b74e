"""Reports of invented networks with given costs, so that expected results can be computed by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

from costcore import Layer, Operations, Report, Tensor
from costcore.ir import Cost
from tests.core.traces import Call, Recorder, report_of


class Step(NamedTuple):
    """One call: its operator, module and cost. ``weights`` are the sizes of its parameters by name."""

    op: str
    module: str = ""
    macs: int = 0
    fma: int = 0
    add: int = 0
    mread: int = 0
    mwrite: int = 0
    shape: tuple[int, ...] = (1, 4)
    weights: dict[str, int] = {}  # noqa: RUF012 - never changed
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed
    type: str = ""
    phase: str = "forward"
    seconds: float | None = None
    known: bool = True


def dense(module: str, width: int = 4, **more: Any) -> Step:
    """A square matrix product on one row: width² macs; reads x and w, writes y, four bytes per element."""
    weights = {f"{module}.w": width * width}
    mread = 4 * (width + width * width)
    return Step("linear", module, width**2, width**2, 0, mread, 4 * width, (1, width), weights, **more)


def relu(module: str, width: int = 4, **more: Any) -> Step:
    """One operation per element."""
    return Step("relu", module, add=width, mread=4 * width, mwrite=4 * width, shape=(1, width), **more)


def net(
    *steps: Step, framework: str = "", fma_1flop: bool = True, layout: str = "framework", dtype: str = "float32"
) -> Report:
    """The report of these calls; each reads the output of the previous one."""
    recorder = Recorder()
    if framework:
        recorder.frameworks[framework] = "1.0"
    ids: dict[str, int] = {}
    value = recorder.new_id()
    for step in steps:
        for name, size in step.weights.items():
            if name not in ids:
                ids[name] = recorder.parameter(size)
        inputs = {"x": Tensor(step.shape, dtype)}
        inputs |= {f"w{n}": Tensor((size,), dtype, "param") for n, size in enumerate(step.weights.values())}
        layer = recorder.intern(Layer(step.op, inputs, [Tensor(step.shape, dtype)], step.settings))
        parameters = tuple(ids[name] for name in step.weights)
        output = recorder.new_id()
        call = Call(
            layer,
            step.type or step.op,
            module=step.module,
            phase=step.phase,
            inputs=(value, *parameters),
            outputs=(output,),
            parameters=parameters,
        )
        value = output
        if step.seconds is not None:
            recorder.seconds[len(recorder.calls)] = step.seconds
        cost = Cost(Operations(fma=step.fma, add=step.add), step.mread, step.mwrite, step.settings, step.macs)
        recorder.record(call, cost if step.known else None)
    return report_of(recorder, fma_1flop, layout)
