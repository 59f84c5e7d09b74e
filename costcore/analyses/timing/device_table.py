"""A run on several devices: one row per device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from costcore.analyses.timing.remarks import FUSIONS, MEANING, UNCALIBRATED, unknown_rates
from costcore.analyses.timing.time_report import TimeReport
from costcore.analyses.timing.time_rows import total_of
from costcore.ledger.caveats import remarks
from costcore.tables.table import Table
from costcore.text.table import Column

DEVICE = Column("device", "Device")
BOUND = Column("bound_seconds", "Bound", "duration")
CALIBRATED = Column("seconds", "Calibrated", "duration")
RATIO = Column("ratio", "Ratio", "ratio")
BINDS = Column("binds", "Bound by")
CHECKED = Column("checked", "Sources")

MOST_RATIO = 1000
"""The largest ratio of times that are legible in one unit."""


def device_rows(times: Sequence[TimeReport]) -> list[dict[str, Any]]:
    """Return one entry per device in the given order; ``ratio`` is the bound as a multiple of the smallest above 0."""
    least = min((time.bound_seconds for time in times if time.bound_seconds), default=0.0)
    return [
        {
            **total_of(time),
            "device": time.device.name,
            "ratio": time.least_seconds / least if time.least_seconds else None,
            "checked": time.device.checked,
        }
        for time in times
    ]


def show_devices(
    times: Sequence[TimeReport],
    ost: IO[str] | None = None,
    mode: str = "table",
    unit: str | None = "autoaligned",
    n_digits: int | None = 3,
) -> None:
    """Write a table with one row per device; arguments as for :meth:`TimeReport.show_report`.

    Times that are more than :data:`MOST_RATIO` apart have units of their own.

    Args:
        times: the times of one run on different devices.
        ost: the stream to write to.
        mode: the format.
        unit: the unit of times.
        n_digits: digits after the decimal point.
    """
    calibrated = [CALIBRATED] if any(time.seconds is not None for time in times) else []
    columns = [DEVICE, *calibrated, BOUND, RATIO, BINDS, CHECKED]
    rows = device_rows(times)
    if unit == "autoaligned" and any(row["ratio"] is not None and row["ratio"] > MOST_RATIO for row in rows):
        unit = "auto"
    Table("Devices", columns, rows, remarks=comparison_remarks(times)).write(ost, mode, unit, n_digits)


def comparison_remarks(times: Sequence[TimeReport]) -> list[str]:
    """Return the lines below the table."""
    first = times[0]
    lines = [MEANING.format(fusion=FUSIONS[first.fusion], device="the device")]
    if any(time.seconds is None for time in times):
        lines.append(UNCALIBRATED)
    lines += [line for time in times for line in unknown_rates(time)]
    return [*dict.fromkeys(lines), *remarks(first.trace)]
