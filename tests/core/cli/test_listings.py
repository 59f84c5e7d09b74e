"""``costcore conventions``, ``devices`` and ``quantities``: lists of what there is."""

import csv
import io
import json
from importlib.resources import files

import pytest

from costcore import conventions, quantities
from tests.command_line import main

NAMES = {
    "conventions": [*conventions()],
    "devices": [file.stem for file in sorted(files("costcore.analyses.devices").joinpath("data").glob("*.toml"))],
    "quantities": [row["name"] for row in quantities().rows],
}


def read(capsys, *arguments):
    assert main([*arguments, "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    return table


@pytest.mark.parametrize("command", NAMES)
def test_every_format_has_every_name(command, capsys, tmp_path):
    assert [row["name"] for row in read(capsys, command)["rows"]] == NAMES[command]
    assert main([command, "--format", "csv"]) == 0
    assert [row[0] for row in csv.reader(io.StringIO(capsys.readouterr().out))][1:] == NAMES[command]
    for suffix in ("md", "csv", "json"):
        path = tmp_path / f"list.{suffix}"
        assert main([command, "--output", str(path)]) == 0
        assert all(name in path.read_text() for name in NAMES[command])


def test_a_list_of_devices_has_exact_numbers_with_units(capsys):
    """The data sheet of an L4 states 121 TFLOP/s of bfloat16 without sparsity, and 300 GB/s."""
    table = read(capsys, "devices")
    l4 = next(row for row in table["rows"] if row["name"] == "l4")
    assert l4["memory"] == 300 and l4["half"] == 121
    assert {column["key"]: column.get("unit") for column in table["columns"]} == {
        "name": None,
        "vendor": None,
        "kind": None,
        "sources": None,
        "half": "TFLOP/s",
        "float32": "TFLOP/s",
        "int8": "TOP/s",
        "memory": "GB/s",
    }


def test_one_of_a_list(capsys):
    rules = {row["key"]: row["rule"] for row in read(capsys, "conventions", "fvcore")["rows"]}
    assert rules["conv"] == "macs"
    figures = {row["what"]: row["value"] for row in read(capsys, "devices", "--device", "l4")["rows"]}
    assert figures["memory (GB/s)"] == 300 and figures["vendor, kind"].startswith("NVIDIA")


def test_quantities_say_what_has_them_and_what_they_need(capsys):
    rows = {row["name"]: row for row in read(capsys, "quantities")["rows"]}
    assert rows["live_peak"]["needs"] == "memory=True" and rows["live_peak"]["of"] == "calls, groups, run"
    assert rows["arena"]["of"] == rows["n_groups@LEVEL"]["of"] == "run"
    assert rows["bound_seconds@DEVICE[:DTYPE]"]["of"] == "calls, groups, run"
    assert rows["bound_seconds@DEVICE[:DTYPE]"]["certainty"] == "bound"


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("cortex", ["cortex-m4-168", "cortex-m55-400", "cortex-m7-480"]),
        ("AMD", ["epyc-9654", "epyc-9755", "mi250x-die", "mi300x", "ryzen-7-7700x"]),
        ("h100", ["h100-pcie-80gb", "h100-sxm5-80gb"]),
    ],
)
def test_devices_are_found_by_a_part_of_their_name_or_their_vendor(capsys, word, names):
    assert [row["name"] for row in read(capsys, "devices", word)["rows"]] == names


@pytest.mark.parametrize("name", ["l4", "cortex-m4", "mi300x"])
def test_one_device_of_a_name_or_prefix_is_shown_with_its_figures(capsys, name):
    """``l4`` is one, though l40s begins with it."""
    assert "vendor, kind" in {row["what"]: row["value"] for row in read(capsys, "devices", name)["rows"]}


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        (["devices", "--device", "cortex"], "'cortex-m4-168' or 'cortex-m55-400' or 'cortex-m7-480'?"),
        (["devices", "--device", "cortex-m4"], "'cortex-m4-168'?"),
        (["time", "net.onnx", "--device", "RTX"], "'rtx3090' or 'rtx4090' or 'rtx5090'?"),
        (["devices", "h1000"], "'h100'?"),
    ],
)
def test_a_part_of_a_device_is_answered_with_the_whole_names(capsys, command, suggestion):
    with pytest.raises(SystemExit):
        main(command)
    assert f"Did you mean {suggestion}" in capsys.readouterr().err
