"""The estimate of costcore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..adapter import Adapter, Figure

__all__ = ["ADAPTER"]

CLASSES = {"additions": "add", "multiplications": "mul", "divisions": "div", "comparisons": "cmp"}


def _report(format: str, built: Any, **options: Any) -> Any:
    import costcore

    return costcore.estimate(built, **options) if format == "onnx" else costcore.estimate(*built, **options)


def _figure(report: Any, value: int) -> Figure:
    return Figure(int(value), tuple(sorted({layer["type"] for layer in report.ignored_layers})))


def _total(key: str) -> Callable[[str, Any], Figure]:
    def count(format: str, built: Any) -> Figure:
        report = _report(format, built)
        return _figure(report, report.total_report[key])

    return count


def _class(name: str) -> Callable[[str, Any], Figure]:
    def count(format: str, built: Any) -> Figure:
        report = _report(format, built)
        return _figure(report, sum(getattr(cost.flops, name) for _, cost, *_ in report.trace if cost))

    return count


def _backward(format: str, built: Any) -> Figure:
    report = _report(format, built, backward=True)
    return _figure(report, report.by("phase").get("backward", {"macs": 0})["macs"])


def _step(_format: str, built: Any) -> Figure:
    import costcore

    with costcore.ComputationalCostHook() as hook:
        built[0](*built[1])
    calls: list[Any] = [cost for call, cost, *_ in hook.report.trace if cost and call.phase == "optimizer"]
    return _figure(hook.report, sum(cost.flops.fma for cost in calls))


def _peak(format: str, built: Any) -> Figure:
    report = _report(format, built, memory=True)
    return _figure(report, report.memory.peak)


def _field(format: str, built: Any) -> Figure:
    report = _report(format, built)
    return _figure(report, report.receptive_field().last.size[0])


ADAPTER = Adapter(
    name="costcore",
    package="costcore",
    declares="macs are the products of matrix multiplications, n per dot product of length n, bias or not",
    cites="docs/counting.md",
    formats=("torch", "onnx"),
    counts={
        "macs": _total("macs"),
        "params": _total("n_params_model"),
        "bytes_read": _total("mread"),
        "bytes_written": _total("mwrite"),
        **{quantity: _class(name) for quantity, name in (CLASSES | {"special_functions": "special"}).items()},
        "macs_backward": _backward,
        "optimizer_fma": _step,
        "peak_bytes": _peak,
        "receptive_field": _field,
    },
)
