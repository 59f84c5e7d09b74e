"""Devices: those that are installed, and one with round rates and a calibration, for expected values by hand."""

from __future__ import annotations

from typing import Any

from costcore.analyses.devices.device import Cache, Device, Memory, Printed, Source, devices, find_device
from costcore.analyses.timing.calibrated import from_toml, to_toml
from costcore.analyses.timing.calibration import FAR, Calibration, Error, Errors, OpSignature, Point, signature_of
from costcore.analyses.timing.times import (
    BELOW,
    COPIED,
    ROUNDED,
    SENT,
    WITHOUT_KERNEL,
    Conditions,
    calibration_of,
    retyped,
)

__all__ = [
    "BELOW",
    "CONDITIONS",
    "COPIED",
    "ERRORS",
    "FAR",
    "POINTS",
    "ROUNDED",
    "SENT",
    "TOY",
    "WITHOUT_KERNEL",
    "Cache",
    "Device",
    "Memory",
    "OpSignature",
    "Point",
    "Printed",
    "Source",
    "calibrated_device",
    "calibration",
    "calibration_of",
    "device",
    "devices",
    "find_device",
    "from_toml",
    "growing",
    "retyped",
    "signature_of",
    "table",
    "to_toml",
]

TOY = Device(
    name="toy",
    kind="gpu",
    units=10,
    peak={
        "matrix": {"float16": 8.0, "tfloat32": 4.0, "int8": 16.0},
        "vector": {"float32": 1.0, "float16": 2.0},
        "special": {"float32": 0.1},
    },
    memory=Memory(1000.0, (Cache(1_000_000),)),
)
"""Per second: 8e12 FLOP of float16 products, 1e12 of float32, 1e11 special functions; 1e12 bytes behind 1 MB."""


def device(**changes):
    """The toy device with changes."""
    return Device(**{**vars(TOY), **changes})


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
    return to_toml(calibration(), Conditions(**{**vars(CONDITIONS), **conditions}))


def calibrated_device(table=None, **changes):
    """The toy device with the calibration."""
    return device(calibration=to_toml(calibration(), CONDITIONS) if table is None else table, **changes)
