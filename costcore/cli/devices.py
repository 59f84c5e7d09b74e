"""``costcore devices``: the known devices, or everything about one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from costcore.analyses.devices.catalog import devices, named
from costcore.analyses.devices.device import Device
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.options import add_output, command_parser, format_of
from costcore.cli.running import run_command, write_output, write_text
from costcore.tables.renderers import rendered, renderers
from costcore.tables.show import show_text
from costcore.text.table import TextTable

FILES = (".csv", ".md")
"""Suffixes of the file of ``--output``."""

HALF = ("bfloat16", "float16")

DROPPED_FIRST = ("Sources", "int8", "Vendor", "Kind", "float32")
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
    add_output(parser, [*renderers()], "table", FILES)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(build_parser(), argv, _list)


def _list(args: argparse.Namespace) -> int:
    mode = format_of(args, "table", FILES)
    if args.device is None:
        write_output(lambda out: show_text(_known(), out, mode, DROPPED_FIRST), args.output)
    else:
        write_text(rendered(_details(named(args.device)), mode), args.output)
    return SUCCESS


def _known() -> TextTable:
    """Return all devices, one a row; peaks are dense, at the highest clock."""
    titles = [
        *(("Name", ""), ("Vendor", ""), ("Kind", ""), ("Half precision", "TFLOP/s"), ("float32", "TFLOP/s")),
        *(("int8", "TOP/s"), ("Memory", "GB/s"), ("Sources", "")),
    ]
    rows = [
        [
            *(device.name, device.vendor, device.kind),
            *(_tera(max(_peak(device, name) for name in HALF)), _tera(_peak(device, "float32", ["vector"]))),
            *(_tera(_peak(device, "int8")), _number(device.memory.dram_gbs), device.checked),
        ]
        for device in devices().values()
    ]
    return TextTable(titles, rows, [3 <= i <= 6 for i in range(len(titles))])


def _peak(device: Device, dtype: str, engines: Sequence[str] = ("matrix", "vector")) -> float:
    """Return the largest stated peak at a dtype in TFLOP/s; 0 if none is stated."""
    return max(device.peak.get(engine, {}).get(dtype, 0.0) for engine in engines)


def _details(device: Device) -> TextTable:
    """Return every figure of a device, one a row, then its notes and sources."""
    rows = [
        ["vendor, kind", f"{device.vendor}, {device.kind}"],
        ["units", _number(device.units)],
        ["highest clock (MHz)", _number(device.clock_max_mhz)],
    ]
    for engine, peaks in device.peak.items():
        unit = "T/s" if engine == "special" else "TFLOP/s"
        rows += [[f"{engine} {dtype} ({unit})", _tera(peak)] for dtype, peak in peaks.items()]
    rows += [["memory (GB/s)", _number(device.memory.dram_gbs)]]
    for i, cache in enumerate(device.memory.caches, 1):
        each = " per unit" if cache.per_unit else ""
        rate = "" if cache.gbs is None else f", {_number(cache.gbs)} GB/s"
        rows.append([f"cache {i}", f"{cache.nbytes} bytes{rate}{each}"])
    rows += [["does not bind", ", ".join(device.unbounded)]] if device.unbounded else []
    rows += [["fast convolutions", "yes" if device.fast_convolution else "no"]]
    rows += [["calibrated", "yes" if device.calibration else "no"]]
    rows += [["note", note] for note in device.notes]
    rows += [[f"source, {each.checked}", f"{each.title}: {each.states} {each.url}".strip()] for each in device.sources]
    return TextTable([(device.name, ""), ("", "")], rows, [False, False])


def _tera(value: float) -> str:
    return f"{value:.4g}" if value else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
