"""Model FLOPs and hardware FLOPs of a training step, and how much of a device's peak they are (MFU, HFU)."""

from __future__ import annotations

from collections.abc import Container
from math import isfinite
from os import PathLike

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import TF32, Device
from costcore.errors import CostError
from costcore.ir import BITS
from costcore.messages import unknown
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import as_text, expanded_sum
from costcore.reports.data.report_data import ReportData

MODEL_PHASES = ("forward", "backward")
"""The phases of a step that the loss needs."""

HARDWARE_PHASES = (*MODEL_PHASES, "recompute")
"""The phases of a step that a device computes, without the optimizer."""


def model_flops(report: ReportData) -> Dim:
    """Return the model FLOPs of a step: two per MAC of the forward and backward pass.

    MACs are those of matrix products, convolutions, attention and recurrent layers. Recomputation and the optimizer are
    not model FLOPs, and neither is element-wise arithmetic.

    Source: Chowdhery et al., PaLM, arXiv:2204.02311, appendix B.

    Args:
        report: the report of a step; one without a backward pass has the model FLOPs of the forward pass alone.

    Returns:
        An exact integer, or an expression in the symbolic dimensions of the report.
    """
    return 2 * macs_of(report, MODEL_PHASES)


def hardware_flops(report: ReportData) -> Dim:
    """Return the hardware FLOPs of a step: model FLOPs, and two per MAC of the phase ``recompute``.

    What a fused kernel recomputes inside (scores in the backward pass of attention) is not part of any call, and not
    counted.

    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 6.
    """
    return 2 * macs_of(report, HARDWARE_PHASES)


def macs_of(report: ReportData, phases: Container[str]) -> Dim:
    """Return the MACs of the calls of some phases, executions in loops included."""
    return expanded_sum(
        cost.macs * call.times for call, cost, *_ in report.trace.records if cost is not None and call.phase in phases
    )


def mfu(flops: Dim, seconds: float, devices: int, peak: float) -> float:
    """Return the share of the peak of all devices that a step reached: MFU of model FLOPs, HFU of hardware FLOPs.

    Args:
        flops: FLOPs of the step, on all devices together.
        seconds: duration of the step.
        devices: number of devices.
        peak: FLOP/s of one device, see :func:`peak_flops`.

    Returns:
        A share, 0.4 for 40 %. A value above 1 means that an argument is wrong.

    Raises:
        ValueError: if seconds, devices or peak are not positive.
        CostError: if the FLOPs have symbolic sizes.
    """
    check_positive(seconds=seconds, devices=devices, peak=peak)
    if is_symbolic(flops):
        raise CostError(f"utilization needs numbers: substitute the sizes with report.subs (got {as_text(flops)})")
    return float(flops / (devices * peak) / seconds)


def check_positive(**arguments: float) -> None:
    """Check that all arguments are positive, finite numbers.

    Raises:
        TypeError: if one is not a number.
        ValueError: if one is not positive or not finite.
    """
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number (got {value!r})")
        if not isfinite(value) or value <= 0:
            raise ValueError(f"{name} must be a positive number (got {value!r})")


def peak_flops(device: str | PathLike[str] | Device, dtype: str) -> float:
    """Return the dense peak of a device in FLOP/s as its vendor prints it, by which MFU is commonly stated.

    It is the peak of the matrix engine; if that does not multiply this dtype, of the vector engine. The printed peak of
    an H100 is 989.4e12 in bfloat16, at 1830 MHz; time bounds use 1070.5e12, at its highest clock. If the vendor does
    not print a peak, the one at the highest clock is returned.

    Args:
        device: a name that ``costcore devices`` lists, the path of a TOML file, or a device.
        dtype: the dtype of the operands, such as ``bfloat16``; ``tfloat32`` for float32 products rounded to TF32.

    Raises:
        TypeError, ValueError: if an argument is invalid, or there is no device of that name.
        CostError: if the device has no peak for this dtype, or its file is invalid.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a string such as 'bfloat16' (got {dtype!r})")
    if dtype not in (*BITS, TF32):
        raise ValueError(unknown("dtype", dtype, (*BITS, TF32)))
    found = named(device)
    for engine in ("matrix", "vector"):
        if (peak := _peak(found, engine, dtype)) is not None:
            return peak
    peaks = ", ".join(sorted({name for peaks in found.peak.values() for name in peaks})) or "none"
    raise CostError(f"device {found.name!r} has no peak for {dtype} (peaks: {peaks}). Give peak= in FLOP/s.")


def _peak(device: Device, engine: str, dtype: str) -> float | None:
    """Return the FLOP/s of an engine, as printed for this dtype or for another one of equal speed."""
    rates = device.peak.get(engine, {})
    if dtype not in rates:
        return None
    printed = {each.dtype: each.tflops for each in device.printed if each.engine == engine}
    equal = [printed[name] for name in (dtype, *rates) if name in printed and rates[name] == rates[dtype]]
    return 1e12 * (equal[0] if equal else rates[dtype])
