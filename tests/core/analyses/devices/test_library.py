"""The devices that are built in: every figure has a source, and agrees with units, lanes and clock."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tests.core.analyses.timing.toy_device import devices, find_device

DATA = files("costcore.analyses.devices").joinpath("data")
CALIBRATED = sorted(file.stem for file in DATA.joinpath("calibrated").glob("*.toml"))
DEVICES = devices()
PRINTED = [
    pytest.param(device, printed, id=f"{name}-{printed.engine}-{printed.dtype}")
    for name, device in DEVICES.items()
    for printed in device.printed
]


@pytest.mark.parametrize("file", sorted(DATA.glob("*.toml")), ids=lambda file: file.stem)
def test_a_file_is_named_as_its_device_and_has_sources(file):
    device = find_device(file)
    assert device.name == file.stem
    assert device.vendor and device.sources and all(source.states for source in device.sources)


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_calibrated_device_has_the_figures_of_the_one_without(name):
    device = find_device(name)
    bare = find_device(name.removesuffix("-traces"))
    assert device.name == name and device.vendor == bare.vendor
    assert device.calibration and not bare.calibration
    for what in (
        "kind",
        "units",
        "clock_max_mhz",
        "peak",
        "memory",
        "fast_convolution",
        "least_kernel_us",
        "context_mib",
    ):
        assert getattr(device, what) == getattr(bare, what)
    added = [source for source in device.sources if source not in bare.sources]
    assert [source.url for source in added] == ["https://github.com/AMD-AGI/TraceLens"]
    assert any("of each" in note for note in device.notes), "the errors of runs that were left out"


def test_a_context_has_a_source():
    seen = {name: device for name, device in DEVICES.items() if device.context_mib is not None}
    assert {"a100-sxm4-80gb", "b200-sxm-180gb", "h100-sxm5-80gb", "h200-sxm-141gb"} <= seen.keys()
    for device in seen.values():
        (states,) = (each.states for each in device.sources if each.states.startswith("context of a process"))
        assert f"{device.context_mib} MiB" in states


CHECKABLE = [
    case for case in PRINTED if None not in (case.values[0].units, case.values[1].lanes, case.values[1].clock_mhz)
]
"""The peaks of which all four figures are published."""


@pytest.mark.parametrize(("device", "printed"), CHECKABLE)
def test_units_times_lanes_times_clock_is_the_printed_peak(device, printed):
    computed = device.units * printed.lanes * 2 * printed.clock_mhz * 1e6
    assert computed / 1e12 == pytest.approx(printed.tflops, rel=0.02)


@pytest.mark.parametrize(("device", "printed"), PRINTED)
def test_a_peak_is_the_printed_one_at_the_highest_clock(device, printed):
    faster = device.clock_max_mhz / printed.clock_mhz if printed.clock_mhz else 1
    assert device.peak[printed.engine][printed.dtype] == pytest.approx(printed.tflops * faster, rel=0.02)
    assert faster >= 1


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda device: device.name)
def test_caches_grow_and_slow_down_towards_the_main_memory(device):
    levels = [(nearer, rate) for _, nearer, rate in device.levels()]
    assert levels == sorted(levels, key=lambda level: (level[0], -level[1]))
