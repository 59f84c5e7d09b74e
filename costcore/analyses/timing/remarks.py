"""What a table of times does not show: what the figures are, and what is unknown of the device."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.analyses.timing.bound import MARGIN, OBSERVED
from costcore.analyses.timing.group_time import MEMORY
from costcore.analyses.timing.times import Times
from costcore.ledger.caveats import remarks

MEANING = (
    "bound: no program with {fusion} takes less on {device}; launches are not counted, and runs measured on a CPU took "
    "2.2 to 10 times their bounds"
)
FUSIONS = {"none": "one kernel per call", "pointwise": "pointwise fusion", "compiler": "the fusion of a compiler"}
WHOLE_RUN_MEANING = (
    "whole run: weights and inputs come from memory once, and other values again once more than a cache was read "
    "meanwhile; only what fits may be in a cache"
)
UNCALIBRATED = "no estimate of the usual time: this device was not calibrated (costcore calibrate)"


def time_remarks(report: Times) -> list[str]:
    """Return the lines below a table of times."""
    meant, *whole_run = meaning(report)
    lines = [meant, *([UNCALIBRATED] if report.calibrated is None else report.calibrated.remarks), *whole_run]
    lines += communication_lines(report)
    return [*lines, *unknown_rates(report), *remarks(report.trace)]


def meaning(report: Times) -> list[str]:
    """Return what a bound is, and of one of the whole run that is larger than the sum of its parts, why."""
    lines = [MEANING.format(fusion=FUSIONS[report.fusion], device=report.device.name)]
    if report.bound_kind == OBSERVED:
        name = report.device.name
        lines = [
            f"observed bound: no kernel that was seen on {name} took less than {report.device.least_kernel_us} us, of "
            f"which {MARGIN:.0%} count, and none moved more than fits its cache faster than its memory"
        ]
    return [*lines, WHOLE_RUN_MEANING] if report.beyond_groups > 0 else lines


def communication_lines(report: Times) -> list[str]:
    """Return a line for the time of communication, and one for each group of processes; none without collectives."""
    if not report.communications:
        return []
    seconds = report.communication_seconds
    total = "unknown" if seconds is None else f"{1000 * seconds:.4g} ms"
    lines = [f"communication: {total}, if no computation overlaps it; it is not part of the bound"]
    for each in report.communications:
        over = "no link stated (links=…)"
        if each.link is not None and each.seconds is not None:
            over = f"{1000 * each.seconds:.4g} ms over {each.link.name}"
        group = f"{each.group or 'group'} of {each.group_size}"
        calls = f"{each.n_calls} call{'s' * (each.n_calls != 1)}"
        lines.append(f"communication, {group}: {over}, {calls}, {each.sent:,} B sent")
    return lines


def unknown_rates(report: Times) -> list[str]:
    """Return a line for what the run needs, but is not known of the device and therefore does not bind."""
    device, dtypes = report.device, report.missing - {MEMORY}
    lines = []
    if dtypes and device.integers:
        lines.append(
            f"partial: {device.name} computes {_words(device.integers)} only; the run has {_words(sorted(dtypes))}: "
            f"quantize the model, or pass dtype={device.integers[0]!r} for its time if it were quantized"
        )
    vector = ["the peak of its vector engine"] if dtypes and not device.integers else []
    if missing := vector + ["its memory bandwidth"] * (MEMORY in report.missing):
        lines.append(f"{device.name}: unknown and left out of the bound: {', '.join(missing)}")
    if report.bound_seconds is None and not report.missing:
        lines.append(f"partial: {device.name} has no limit for anything that the run does")
    return lines


def _words(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
