"""The measured view that is asked for: the profile, the device, and options checked."""

from __future__ import annotations

from os import PathLike
from typing import Any

from costcore.analyses.devices.device import Device
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.measured.join import with_profile
from costcore.analyses.measured.measured import Measured
from costcore.analyses.timing.request import times_of
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.trace.trace import Trace


def measured_of(report: Any, profile: Any = None, device: str | PathLike[str] | Device | None = None) -> Measured:
    """Return where the time of a run goes; arguments as for :meth:`costcore.Report.measured`."""
    run: Trace = report.trace if profile is None else with_profile(report.trace, trace_of(profile))
    recorded = run.run.profile
    if recorded is None:
        raise CostError(
            "the report has no profile. Pass that of a trace of torch.profiler: "
            "report.measured(estimate('step.pt.trace.json.gz'))"
        )
    chosen = device if device is not None else device_named(recorded.device) or None
    times = None if chosen is None else times_of(Times, run, chosen)
    return Measured(run, recorded, times, len(run) - len(recorded.calls))


def trace_of(profile: Any) -> Trace:
    """Return the run of the report of a trace.

    Raises:
        TypeError: if it is not a report.
    """
    trace = getattr(profile, "trace", None)
    if not isinstance(trace, Trace):
        raise TypeError(
            f"profile must be the report of a trace, estimate('step.pt.trace.json.gz') (got {short_repr(profile)})"
        )
    return trace
