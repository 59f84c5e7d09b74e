"""The known devices: built in, of plug-ins, and those of users by path."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from costcore.analyses.devices.device import Device
from costcore.analyses.devices.toml import read_device
from costcore.messages import did_you_mean
from costcore.plugins import cached, objects_from_plugins, with_left_out

DATA = Path(__file__).parent / "data"

CALIBRATED = {file.stem: file for file in sorted((DATA / "calibrated").glob("*.toml"))}
"""Files of devices with a calibration, by the name of the device: the device without it is one of the others."""


def devices() -> dict[str, Device]:
    """Return all known devices by name: those built in, then those of plug-ins.

    Raises:
        CostError: if a device of a plug-in is invalid.
    """
    return dict(_known())


def named(device: str | PathLike[str] | Device) -> Device:
    """Return a device by its name, an alias or the path of a TOML file; a :class:`Device` is returned as it is.

    Raises:
        TypeError: if ``device`` is anything else.
        ValueError: if there is none of that name; the message names the nearest one.
        CostError: if the file is not a device.
        OSError: if the file cannot be read.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, (str, PathLike)):
        raise TypeError(f"a device must be a name or the path of a TOML file (got {device!r})")
    if str(device).endswith(".toml") or str(device) in CALIBRATED:
        return read_device(CALIBRATED.get(str(device), device))
    found = _known().get(str(device)) or next((each for each in _known().values() if device in each.aliases), None)
    if found is None:
        names = [*(alias for each in _known().values() for alias in each.aliases), *_known(), *CALIBRATED]
        near = did_you_mean([str(device)], names) or "."
        raise ValueError(
            with_left_out(
                f"unknown device {str(device)!r}{near} `costcore devices` lists the {len(_known())} known ones; the "
                "path of a .toml file is one of your own"
            )
        )
    return found


@cached
def _known() -> Mapping[str, Device]:
    known = {file.stem: read_device(file) for file in sorted(DATA.glob("*.toml"))}
    for paths in objects_from_plugins("costcore_devices", Path):
        for path in paths:
            device = read_device(path)
            known[device.name] = device
    return known
