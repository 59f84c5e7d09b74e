"""The forms of what a model is to fit."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from costcore import fit
from tests.core.analyses.timing.toy_device import find_device
from tests.core.given_costs import dense, net

MODEL = net(dense("a"))


def target_of(target):
    return fit(MODEL, None, target).target


@pytest.mark.parametrize(
    ("text", "memories"),
    [
        ("24 GB", {"memory": 24 * 10**9}),
        ("24GiB", {"memory": 24 * 2**30}),
        (1000, {"memory": 1000}),
        ("256 KB sram, 1 MB flash", {"sram": 256_000, "flash": 1_000_000}),
        ("sram=256KB,flash=1MB", {"sram": 256_000, "flash": 1_000_000}),
        ("256 KiB SRAM", {"sram": 262_144}),
        ("flash=1MiB", {"flash": 1_048_576}),
        ({"sram": "64 KiB", "flash": 2**20}, {"sram": 65_536, "flash": 1_048_576}),
    ],
)
def test_amounts(text, memories):
    found = target_of(text)
    assert found.memories == memories
    assert found.is_divided is ("memory" not in memories)
    assert target_of(found) is found


@pytest.mark.parametrize("name", ["h100", "h100-sxm5-80gb"])
def test_a_device_has_the_memory_that_its_vendor_prints(name):
    found = target_of(name)
    assert (found.name, found.memories) == ("h100-sxm5-80gb", {"memory": 80 * 10**9})
    assert found.device is find_device(name)


def test_a_device_whose_memory_is_unknown():
    found = target_of("cortex-m4-168")
    assert (found.name, found.memories, found.device) == ("cortex-m4-168", {}, find_device("cortex-m4-168"))


def test_a_device_of_the_user(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nkind = "npu"\naliases = ["ours"]\n[memory]\ndram_gb = 0.5\n')
    for target in (str(path), Path(path), find_device(path)):
        assert target_of(target).memories == {"memory": 500_000_000}
    assert find_device(path).aliases == ("ours",)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "h10",
            r"^unknown device 'h10'\. Did you mean 'h100'\? `costcore devices` lists the .* own\. A target is \"24",
        ),
        ("24 XB", "target must be an integer or a string"),
        ("256 KB sram, 1 MB", "'1 mb' is not the size of a memory"),
        ("sram=1KB,sram=2KB", "states sram twice"),
        ({"sram": 1, "memory": 2}, "either memory, or sram and flash"),
        ({"ram": 1}, "unknown memory 'ram'"),
        ({}, "either memory, or sram and flash"),
    ],
)
def test_anything_else_is_refused(target, message):
    with pytest.raises(ValueError, match=message):
        target_of(target)


@pytest.mark.parametrize("target", [None, True, 1.5, ["24 GB"]])
def test_types(target):
    with pytest.raises(TypeError, match="target must be"):
        target_of(target)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("h100", "context 534 MiB (measured on h100-sxm5-80gb)"),
        ("l4", "context 500 MiB (assumed)"),
    ],
)
def test_the_context_of_a_device(target, said):
    """That of its file, else the assumed one for a GPU."""
    out = io.StringIO()
    fit(MODEL, None, target).show(out)
    assert said in out.getvalue()


def test_a_given_context_is_not_measured():
    out = io.StringIO()
    fit(MODEL, None, "h100", context="300 MiB").show(out)
    assert "context 300 MiB - workspace" in out.getvalue()
