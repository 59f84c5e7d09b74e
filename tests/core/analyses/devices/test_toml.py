"""A device is read from TOML, and whatever is wrong with it is a sentence with its file and key."""

from __future__ import annotations

import pytest

from costcore import CostError, hookimpl, plugins
from costcore.errors import FileError
from tests.core.analyses.timing.toy_device import Cache, Memory, Printed, Source, devices, find_device

WHOLE = """
name = "mine"
vendor = "us"
kind = "cpu"
units = 8
clock_max_mhz = 4000.5
fast_convolution = false
notes = ["ours"]
[peak.matrix]
tfloat32 = 4
bfloat16 = 8.5
[peak.vector]
float32 = 1
[peak.special]
float32 = 0.1
[memory]
dram_gbs = 100
caches = [{ bytes = 32768, gbs = 500, per_unit = true }, { bytes = 1048576 }]
[[printed]]
engine = "vector"
dtype = "float32"
tflops = 0.9
clock_mhz = 3600
lanes = 16
[[sources]]
title = "a sheet"
states = "all"
checked = "read"
url = "https://example.org/sheet"
[[sources]]
title = "another"
states = "the rest"
checked = "not read"
[calibration]
launch = 1e-6
"""


def read(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return find_device(file)


def test_everything_a_file_can_say_is_kept(tmp_path):
    device = read(tmp_path, WHOLE)
    assert (device.name, device.vendor, device.kind, device.units) == ("mine", "us", "cpu", 8)
    assert (device.clock_max_mhz, device.fast_convolution, device.notes) == (4000.5, False, ("ours",))
    assert device.peak == {
        "matrix": {"tfloat32": 4, "bfloat16": 8.5},
        "vector": {"float32": 1},
        "special": {"float32": 0.1},
    }
    assert device.memory == Memory(100, (Cache(32768, 500, True), Cache(1048576, None, False)))
    assert device.printed == (Printed("vector", "float32", 0.9, 3600, 16),)
    sheet = Source("a sheet", "all", "read", "https://example.org/sheet")
    assert device.sources == (sheet, Source("another", "the rest", "not read"))
    assert device.checked == "read, not read"
    assert device.calibration == {"launch": 1e-6}


def test_a_name_and_a_kind_are_enough(tmp_path):
    device = read(tmp_path, 'name = "mine"\nkind = "phone"')
    assert (device.units, device.peak, device.memory, device.fast_convolution) == (None, {}, Memory(), True)
    assert device.checked == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "name is missing"),
        ('name = "a"', "unknown kind '' (expected gpu, cpu, tpu, npu, phone, mcu)"),
        (
            'name = "a"\nkind = "gpus"',
            "unknown kind 'gpus' (expected gpu, cpu, tpu, npu, phone, mcu). Did",
        ),
        ('name = "a"\nkind = "gpu"\nclock = 3', "unknown key 'clock' (expected name"),
        ('name = 1\nkind = "gpu"', "name must be a text (got 1)"),
        ('name = "a"\nkind = "gpu"\nunits = 1.5', "units must be a whole number (got 1.5)"),
        ('name = "a"\nkind = "gpu"\nunits = 0', "units must be a positive number (got 0)"),
        ('name = "a"\nkind = "gpu"\nclock_max_mhz = nan', "clock_max_mhz must be a positive number (got nan)"),
        ('name = "a"\nkind = "gpu"\nclock_max_mhz = true', "clock_max_mhz must be a positive number (got True)"),
        ('name = "a"\nkind = "gpu"\nfast_convolution = 1', "fast_convolution must be true or false (got 1)"),
        ('name = "a"\nkind = "gpu"\nnotes = "b"', "notes must be a list of texts (got 'b')"),
        ('name = "a"\nkind = "gpu"\npeak = 3', "peak must be a table (got 3)"),
        ('name = "a"\nkind = "gpu"\n[peak.tensor]', "peak: unknown engine 'tensor' (expected matrix, vector, special)"),
        ('name = "a"\nkind = "gpu"\n[peak.matrix]\nfp16 = 3', "peak.matrix: unknown dtype 'fp16' (expected"),
        ('name = "a"\nkind = "gpu"\n[peak.vector]\ntfloat32 = 3', "peak.vector: unknown dtype 'tfloat32' (expected"),
        ('name = "a"\nkind = "gpu"\n[peak]\nvector = 3', "peak: vector must be a table (got 3)"),
        ('name = "a"\nkind = "gpu"\n[peak.vector]\nfloat32 = "3"', "peak.vector: float32 must be a positive number"),
        (
            'name = "a"\nkind = "gpu"\n[memory]\ndram = 3',
            "memory: unknown key 'dram' (expected dram_gbs, caches, dram_gb). Did",
        ),
        ('name = "a"\nkind = "gpu"\n[memory]\ncaches = 3', "memory: caches must be a list of tables (got 3)"),
        ('name = "a"\nkind = "gpu"\n[memory]\ncaches = [{ gbs = 3 }]', "memory: caches 1: bytes is missing"),
        ('name = "a"\nkind = "gpu"\n[[printed]]\nengine = "x"', "printed 1: unknown engine 'x'"),
        ('name = "a"\nkind = "gpu"\n[[printed]]\nengine = "vector"\ndtype = "f"', "printed 1: unknown dtype 'f'"),
        (
            'name = "a"\nkind = "gpu"\n[[printed]]\nengine = "vector"\ndtype = "float32"',
            "printed 1: tflops is missing",
        ),
        ('name = "a"\nkind = "gpu"\n[[sources]]\ntitle = "b"', "sources 1: unknown value of checked '' (expected read"),
        ("name = ", "is not a TOML file"),
        (f'name = "a"\nkind = "gpu"\nunits = {"9" * 400}', "units must be from 1e-18 to 1e+18 (got 999"),
        ('name = "a"\nkind = "gpu"\n[memory]\ndram_gbs = 1e-300', "dram_gbs must be from 1e-18 to 1e+18 (got 1e-300)"),
    ],
)
def test_what_is_wrong_is_stated_with_its_file(tmp_path, text, message):
    with pytest.raises(CostError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "mine.toml"))
    assert message in str(raised.value)


def test_a_device_is_chosen_by_name_or_path(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(WHOLE)
    assert find_device("h100-sxm5-80gb").name == "h100-sxm5-80gb"
    assert find_device(file) == find_device(str(file)) == find_device(find_device(file))
    with pytest.raises(ValueError, match=r"unknown device 'h100-sxm'\. Did you mean 'h100-sxm5-80gb'\? `costcore"):
        find_device("h100-sxm")
    with pytest.raises(TypeError, match="a device must be a name or the path of a TOML file"):
        find_device(3)
    with pytest.raises(FileError, match="cannot be read"):
        find_device(tmp_path / "none.toml")


def test_plug_ins_bring_devices(tmp_path):
    file = tmp_path / "ours.toml"
    file.write_text('name = "ours"\nkind = "npu"')

    class Plugin:
        @hookimpl
        def costcore_devices(self):
            return [file]

    plugin = Plugin()
    plugins.register(plugin)
    try:
        assert devices()["ours"].kind == find_device("ours").kind == "npu"
        file.write_text('name = "ours"')
        plugins.clear_caches()
        with pytest.raises(CostError, match="unknown kind"):
            devices()
    finally:
        plugins.unregister(plugin)
    assert "ours" not in devices()


def test_what_does_not_bind_is_stated(tmp_path):
    path = tmp_path / "npu.toml"
    path.write_text('name = "npu"\nkind = "npu"\nunbounded = ["vector", "dram"]\n')
    assert find_device(path).unbounded == ("vector", "dram")
    path.write_text('name = "npu"\nkind = "npu"\nunbounded = ["cache"]\n')
    with pytest.raises(CostError, match=r"npu.toml: unbounded: unknown name 'cache' \(expected vector, dram\)"):
        find_device(path)
