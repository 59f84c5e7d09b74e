"""``costcore devices``: list the devices."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from costcore.analyses.devices.catalog import CALIBRATED, devices, named
from costcore.analyses.devices.device import Device
from costcore.cli.listing import add_listing_output, write_list, write_one
from costcore.cli.options import command_parser
from costcore.cli.running import command
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.values import Shown

HALF = ("bfloat16", "float16")

COLUMNS = (
    *(Column("name", "Name"), Column("vendor", "Vendor"), Column("kind", "Kind")),
    Column("half", "Half precision", "ratio", unit="TFLOP/s"),
    Column("float32", "float32", "ratio", unit="TFLOP/s"),
    *(Column("int8", "int8", "ratio", unit="TOP/s"), Column("memory", "Memory", "ratio", unit="GB/s")),
    Column("sources", "Sources"),
)
"""Peaks are dense, at the highest clock."""

DROPPED_FIRST = ("sources", "int8", "vendor", "kind", "float32")
"""The columns that a narrow terminal does without, in this order."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore devices",
        "[--device NAME]",
        "List the devices that `costcore time` takes, or the figures of one of them with their sources.",
        "exit codes: 0 success, 1 a device cannot be read, 2 usage error",
    )
    parser.add_argument("--device", metavar="NAME", help="a device, or a .toml file with one")
    add_listing_output(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    return write_list(_known(), args) if args.device is None else write_one(_details(named(args.device)), args)


def _known() -> Table:
    rows = [
        {
            **{key: getattr(device, key) for key in ("name", "vendor", "kind")},
            "sources": device.checked,
            "half": _tera(max(_peak(device, name) for name in HALF)),
            "float32": _tera(_peak(device, "float32", ["vector"])),
            "int8": _tera(_peak(device, "int8")),
            "memory": _number(device.memory.dram_gbs),
        }
        for device in devices().values()
    ]
    note = f"calibrated from public traces, for estimates with an error: {', '.join(CALIBRATED)}"
    return Table("Devices", COLUMNS, rows, dropped_first=DROPPED_FIRST, remarks=[note])


def _peak(device: Device, dtype: str, engines: Sequence[str] = ("matrix", "vector")) -> float:
    """Return the largest stated peak at a dtype in TFLOP/s; 0 if none is stated."""
    return max(device.peak.get(engine, {}).get(dtype, 0.0) for engine in engines)


def _details(device: Device) -> Table:
    """Return every figure of a device, one a row, then its notes and sources."""
    rows: list[tuple[str, str | Shown]] = [
        *([("also called", ", ".join(device.aliases))] if device.aliases else []),
        ("vendor, kind", f"{device.vendor}, {device.kind}"),
        ("units", _number(device.units)),
        ("highest clock (MHz)", _number(device.clock_max_mhz)),
    ]
    for engine, peaks in device.peak.items():
        unit = "T/s" if engine == "special" else "TFLOP/s"
        rows += [(f"{engine} {dtype} ({unit})", _tera(peak)) for dtype, peak in peaks.items()]
    rows += [("memory (GB/s)", _number(device.memory.dram_gbs))]
    for i, cache in enumerate(device.memory.caches, 1):
        each = " per unit" if cache.per_unit else ""
        rate = "" if cache.gbs is None else f", {cache.gbs:.6g} GB/s"
        rows.append((f"cache {i}", f"{cache.nbytes} bytes{rate}{each}"))
    rows += [("does not bind", ", ".join(device.unbounded))] if device.unbounded else []
    rows += [("fast convolutions", "yes" if device.fast_convolution else "no")]
    rows += [("calibrated", "yes" if device.calibration else "no")]
    rows += [("note", note) for note in device.notes]
    rows += [(f"source, {each.checked}", f"{each.title}: {each.states} {each.url}".strip()) for each in device.sources]
    columns = [Column("what", device.name), Column("value", "")]
    return Table(device.name, columns, [{"what": what, "value": value} for what, value in rows])


def _tera(value: float) -> str | Shown:
    return Shown(value, f"{value:.4g}") if value else ""


def _number(value: float | None) -> str | Shown:
    return "" if value is None else Shown(value, f"{value:.6g}")
