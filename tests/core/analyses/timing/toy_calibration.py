"""Calibrations: made by hand with round figures, of traces, and as tables of files."""

from __future__ import annotations

from typing import Any

from costcore.analyses.timing.calibrated import from_table, to_table
from costcore.analyses.timing.calibration import (
    FAR,
    Calibration,
    Curves,
    Error,
    Errors,
    Point,
    Rates,
    errors_of_runs,
    left_out_errors,
)
from costcore.analyses.timing.families import OpSignature, site_of
from costcore.analyses.timing.time_report import toml_text
from costcore.analyses.timing.times import (
    BELOW,
    COPIED,
    KERNEL_CLOCK,
    ROUNDED,
    SENT,
    WITHOUT_KERNEL,
    Conditions,
    calibration_of,
    retyped,
)
from tests.core.analyses.timing.toy_device import device

__all__ = [
    "BELOW",
    "COPIED",
    "FAR",
    "KERNEL_CLOCK",
    "ROUNDED",
    "SENT",
    "WITHOUT_KERNEL",
    "Calibration",
    "Curves",
    "OpSignature",
    "Point",
    "Rates",
    "calibration_of",
    "errors_of_runs",
    "from_table",
    "left_out_errors",
    "retyped",
    "site_of",
    "to_table",
    "toml_text",
]

CONDITIONS = Conditions(
    device="Toy 3000",
    dtype="float32",
    threads=0,
    clock="events",
    date="2026-11-22",
    noise=0.04,
    sweep_seconds=60.0,
    versions={"torch": "2.13.0", "costcore": "0.1.0"},
    flags={"cudnn.benchmark": "False"},
)

POINTS = (
    Point(OpSignature("linear", "product", (0.0, 10.0, 10.0, 0.0, 2.0, 0.0, 0.0), 1e12, 4e6), 1.0),
    Point(OpSignature("copy", "move", (0.0, 30.0, 0.0, 0.0), 0.0, 1e12), 1.0),
    Point(OpSignature("relu", "arithmetic", (10.0, 13.0, 0.0, 0.0), 1024.0, 8192.0), 1e-6),
)
"""The best: 1 TFLOP/s, 1 TB/s and 1 µs per call. All three run at full efficiency, up to the 1 µs."""


def growing(mean: float, most: float):
    """Errors that double from a distance of 2 to one of 8."""
    return (0.0, Error(mean, most)), (2.0, Error(mean, most)), (8.0, Error(2 * mean, 2 * most))


ERRORS = Errors(
    {"linear": growing(0.1, 0.25), "copy": growing(0.2, 0.5), "relu": growing(0.3, 0.7)},
    {"product": 0.8, "arithmetic": 0.6},
)


def calibration(points=POINTS, errors=ERRORS) -> Calibration:
    return Calibration(points, errors)


def table(**conditions: Any) -> dict[str, Any]:
    """The table of the calibration, with changed conditions."""
    return to_table(calibration(), Conditions(**{**vars(CONDITIONS), **conditions}))


def calibrated_device(table=None, **changes):
    """The toy device with the calibration."""
    return device(calibration=to_table(calibration(), CONDITIONS) if table is None else table, **changes)
