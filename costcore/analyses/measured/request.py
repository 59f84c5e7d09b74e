"""The measured view that is asked for: the profile, the device, and options checked."""

from __future__ import annotations

from os import PathLike

from costcore.analyses.devices.device import Device
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.measured.join import joined
from costcore.analyses.measured.measured import Measured
from costcore.analyses.timing.request import TF32_OPERATORS, times_of
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.trace.trace import Trace


def measured_of(
    trace: Trace, other: Trace | None = None, device: str | PathLike[str] | Device | None = None
) -> Measured:
    """Return where the time of a run goes; arguments as for :meth:`costcore.Report.measured`, traces for reports."""
    profile, n_missed = (trace.run.profile, 0) if other is None else joined(trace, other)
    if profile is None:
        raise CostError(
            "the report has no profile. Pass that of a trace of torch.profiler: "
            "report.measured(estimate('step.pt.trace.json.gz'))"
        )
    chosen = device if device is not None else device_named(profile.device) or None
    times = None
    if chosen is not None:
        times = times_of(Times, trace, chosen, tf32=TF32_OPERATORS if profile.tf32 else None)
    return Measured(trace, profile, times, n_missed)
