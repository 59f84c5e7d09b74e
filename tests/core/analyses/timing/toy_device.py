"""Devices: those that are installed, and one with round rates, for expected values by hand."""

from __future__ import annotations

from costcore.analyses.devices.device import Cache, Device, Memory, Printed, Source, devices, find_device

__all__ = ["TOY", "Cache", "Device", "Memory", "Printed", "Source", "device", "devices", "find_device"]

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
