"""The measured view that is asked for: the profile, the device, and options checked."""

from __future__ import annotations

from os import PathLike

from costcore.analyses.devices.device import Device
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.measured.join import with_profile
from costcore.analyses.measured.measured import Measured
from costcore.analyses.timing.request import times_of
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.trace.trace import Trace


def measured_of(
    trace: Trace, other: Trace | None = None, device: str | PathLike[str] | Device | None = None
) -> Measured:
    """Return where the time of a run goes; arguments as for :meth:`costcore.Report.measured`, traces for reports."""
    run = trace if other is None else with_profile(trace, other)
    profile = run.run.profile
    if profile is None:
        raise CostError(
            "the report has no profile. Pass that of a trace of torch.profiler: "
            "report.measured(estimate('step.pt.trace.json.gz'))"
        )
    chosen = device if device is not None else device_named(profile.device) or None
    times = None if chosen is None else times_of(Times, run, chosen)
    return Measured(run, profile, times, len(run) - len(profile.calls))
