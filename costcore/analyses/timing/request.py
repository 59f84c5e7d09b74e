"""The times that are asked for: options checked, and the run."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import TypeVar

from costcore.analyses.devices.catalog import devices, named
from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import BOUNDS, LEAST, OBSERVED
from costcore.analyses.timing.retyped import check_dtype
from costcore.analyses.timing.times import Times
from costcore.analyses.topology.link import links_by_group
from costcore.counting.substitution import symbols_in
from costcore.errors import CostError
from costcore.messages import subs_call, unknown
from costcore.registry.frontends import specs
from costcore.trace.gc_paused import collector_off
from costcore.trace.run import LEVELS
from costcore.trace.trace import Trace

AnyTimes = TypeVar("AnyTimes", bound=Times)

TF32_OPERATORS = ("conv", "matmul")
"""The operators that ``tf32`` names; ``matmul`` are all products except convolutions."""


def times_of(
    kind: type[AnyTimes],
    trace: Trace,
    device: str | PathLike[str] | Device,
    dtype: str | None = None,
    fusion: str = "none",
    cores: int | None = None,
    tf32: Collection[str] | None = None,
    links: object = None,
    bound: str = LEAST,
) -> AnyTimes:
    """Return the times of a run on a device as an object of this class; options as for :meth:`costcore.Report.time`."""
    chosen = named(device)
    by_group = {} if links is None else links_by_group(links)
    if dtype is not None:
        check_dtype(dtype)
    if fusion not in LEVELS:
        raise ValueError(unknown("level of fusion", fusion, LEVELS))
    if cores is not None:
        chosen = _part_of(chosen, cores)
    if bound not in BOUNDS:
        raise ValueError(unknown("bound", bound, BOUNDS))
    if bound == OBSERVED and chosen.least_kernel_us is None:
        seen = ", ".join(name for name, each in devices().items() if each.least_kernel_us is not None)
        raise CostError(
            f"no kernel was seen on {chosen.name}: bound='observed' is known of {seen}, and of a file of your own"
        )
    if trace.run.unit != "FLOPs":
        raise CostError(f"FLOPs of this report are {trace.run.unit}. Time the report of costcore's own convention.")
    if trace.run.fusion is not None:
        level = trace.run.fusion.level
        raise CostError(
            f"the bytes of this report are those after fusion. Time the report that was fused, with fusion={level!r}."
        )
    _check_numbers(trace)
    with collector_off():
        return kind(trace, chosen, fusion, _tf32(trace, tf32), dtype, by_group, bound)


def _check_numbers(trace: Trace) -> None:
    """Refuse symbolic sizes. Equal layers are checked once."""
    distinct = {(id(call.layer), id(cost), call.times): record for record in trace for call, cost, *_ in (record,)}
    if symbols := sorted(str(symbol) for symbol in symbols_in(Trace(tuple(distinct.values()), trace.run))):
        raise CostError(f"time needs numbers for the symbolic sizes. Substitute them first: {subs_call(symbols)}")


def _part_of(device: Device, cores: int) -> Device:
    if isinstance(cores, bool) or not isinstance(cores, int):
        raise TypeError(f"cores must be a whole number (got {cores!r})")
    if device.kind != "cpu":
        raise ValueError(f"cores applies to a CPU ({device.name} is a {device.kind})")
    return device.with_units(cores)


def _tf32(trace: Trace, tf32: Collection[str] | None) -> tuple[str, ...]:
    """Return the operators that may use TF32; default: those that did, or may in all frameworks of the run."""
    if tf32 is None and trace.run.profile is not None and trace.run.profile.tf32:
        return TF32_OPERATORS
    if tf32 is None:
        defaults = [spec.tf32 for spec in specs().values() if spec.framework in trace.run.frameworks]
        return tuple(name for name in TF32_OPERATORS if all(name in default for default in defaults))
    if isinstance(tf32, str) or not isinstance(tf32, Collection):
        raise TypeError(f"tf32 must be a set of operators such as {{'conv'}} (got {tf32!r})")
    if wrong := [name for name in tf32 if name not in TF32_OPERATORS]:
        raise ValueError(unknown("operator of tf32", wrong, TF32_OPERATORS))
    return tuple(name for name in TF32_OPERATORS if name in tf32)
