"""The measured view that is asked for: the profile, the device, and options checked."""

from __future__ import annotations

from os import PathLike
from typing import Any

from costcore.analyses.devices.device import Device
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.measured.join import with_profile
from costcore.analyses.measured.measured import Measured
from costcore.analyses.measured.node_join import with_runtime_profile
from costcore.analyses.timing.bound import LEAST
from costcore.analyses.timing.request import times_of
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.trace.trace import Trace


def run_with(trace: Trace, profile: Any) -> Trace:
    """Return a run with the times of the report of another one, or of the file of a runtime.

    Raises:
        TypeError: if ``profile`` is neither.
        CostError: if it cannot be read, or nothing of the two is the same.
    """
    if isinstance(profile, (str, PathLike)):
        return with_runtime_profile(trace, profile)
    other = getattr(profile, "trace", None)
    if not isinstance(other, Trace):
        raise TypeError(
            "profile must be the report of a trace, estimate('step.pt.trace.json.gz'), or the file of a runtime "
            f"(got {short_repr(profile)})"
        )
    return with_profile(trace, other)


def measured_of(
    report: Any, profile: Any = None, device: str | PathLike[str] | Device | None = None, bound: str = LEAST
) -> Measured:
    """Return where the time of a run goes; arguments as for :meth:`costcore.Report.measured`."""
    run: Trace = report.trace if profile is None else run_with(report.trace, profile)
    recorded = run.run.profile
    if recorded is None:
        raise CostError(
            "the report has no profile. Pass that of a trace of torch.profiler: "
            "report.measured(estimate('step.pt.trace.json.gz'))"
        )
    chosen = device if device is not None else device_named(recorded.device) or None
    times = None if chosen is None or recorded.no_bound else times_of(Times, run, chosen, bound=bound)
    return Measured(run, recorded, times, len(run) - len(recorded.calls) - len(recorded.inside))
