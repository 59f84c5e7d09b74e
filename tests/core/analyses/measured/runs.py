"""Runs with a profile, made by hand."""

from __future__ import annotations

from dataclasses import replace

from costcore import Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.traces import Call, CallCost, CallTime, Elsewhere, Module, Profile, Run, Stream


def linear(n: int, module: str, phase: str = "forward") -> tuple[Call, Cost]:
    """A matrix product of ``n`` by 64 by 64."""
    layer = Layer("linear", {"x": Tensor((n, 64)), "w": Tensor((64, 64))}, [Tensor((n, 64))])
    fma = n * 64 * 64
    return Call(layer, type="linear", native="aten::linear", module=module, phase=phase), Cost(
        Operations(fma=fma), 4 * (n * 64 + 64 * 64), 4 * n * 64, {}, macs=fma
    )


def trace_of(*calls: tuple[Call, Cost], classes: dict[str, str] | None = None) -> Trace:
    """A run of these calls; ``classes`` are those of modules by path."""
    records = tuple(CallCost(call.named(f"{call.type}-{n}"), cost) for n, (call, cost) in enumerate(calls, 1))
    return Trace(
        records,
        Run(frameworks={"torch": "2.13"}, modules={path: Module(kind) for path, kind in (classes or {}).items()}),
    )


def profiled(trace: Trace, times: list[int], **other: object) -> Report:
    """The report of a run whose calls took these nanoseconds on the device, one after the other."""
    idle, elsewhere = other.get("idle", 0), other.get("elsewhere", ())
    span = sum(times) + idle + sum(each.alone for each in elsewhere)
    calls = {i: CallTime(time, 2 * time, time, 1) for i, time in enumerate(times)}
    streams = (Stream("0/7", span - idle, idle, idle, 1),)
    device = str(other.get("device", "NVIDIA H100 80GB HBM3"))
    profile = Profile(device, "device", span, idle, calls, tuple(elsewhere), streams, bool(other.get("tf32", False)))
    records = tuple(record._replace(seconds=time / 1e9) for record, time in zip(trace, times, strict=True))
    return Report(replace(trace, records=records, run=trace.run.recording(profile=profile)))


BEFORE = Elsewhere("launched before the window", "gemm", 40, 40, 3)
