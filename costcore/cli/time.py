"""``costcore time MODEL``: state how long a run takes at least on a device."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.analyses.timing.bound import BOUNDS, LEAST, OBSERVED
from costcore.analyses.timing.device_table import show_devices
from costcore.analyses.timing.request import TF32_OPERATORS
from costcore.analyses.timing.retyped import check_dtype
from costcore.analyses.timing.time_report import TimeReport
from costcore.analyses.timing.time_rows import TIMES, TIMES_BY_TYPE
from costcore.analyses.topology.link import links_by_group
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import check_model, report_of
from costcore.cli.options import (
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_output,
    add_unit,
    command_parser,
    format_of,
    model_forms,
    unit_of,
)
from costcore.cli.running import command, print_message, write_output
from costcore.ledger.checks import check_top
from costcore.reports.report import Report
from costcore.tables.columns import choose
from costcore.tables.renderers import renderers
from costcore.text.units import check_digits
from costcore.trace.run import LEVELS

EPILOG = """examples:
  costcore time torchvision:resnet50 --input 8x3x224x224 --device h100-sxm5-80gb --dtype bfloat16
  costcore time torchvision:resnet50 --input 8x3x224x224 --device h100-sxm5-80gb,l4,rtx4090
  costcore time net.onnx --device epyc-9654 --cores 8 --fusion compiler
  costcore time net.onnx --device mine.toml --groups --sort bound_seconds --top 10
  costcore time net.py:make --input 8x64 --device mine.toml --measured run.json --strict

The time is a lower bound: no program takes less. `costcore devices` lists the devices.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed time), 2 usage error"""

TABLES = (".csv", ".md")
FILES = (*TABLES, ".json", ".html")
"""Suffixes of the file of ``--output``; several devices are a table."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore time",
        "MODEL --device NAME[,NAME ...]",
        "State how long a run of a model takes at least on a device, or compare devices.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument(
        "--device",
        required=True,
        metavar="NAMES",
        help="a device, or several separated by commas: names that `costcore devices` lists, or .toml files",
    )
    parser.add_argument("--dtype", metavar="NAME", help="dtype of weights and activations; default: those of the model")
    parser.add_argument(
        "--fusion",
        default="none",
        choices=LEVELS,
        help="calls that run as one kernel: none, pointwise (element-wise loops), compiler (also epilogues of "
        "products); default: none",
    )
    parser.add_argument(
        "--bound",
        choices=BOUNDS,
        default=LEAST,
        help=f"{OBSERVED}: the larger one that no kernel undercut which was seen on the device; default: {LEAST}",
    )
    parser.add_argument("--cores", type=int, metavar="N", help="cores of a CPU that compute; default: all")
    parser.add_argument(
        "--tf32",
        metavar="NAMES",
        help=f"products of float32 that may run in TF32: {', '.join(TF32_OPERATORS)}, both, or none; default: as the "
        "framework does",
    )
    parser.add_argument(
        "--links",
        metavar="LINKS",
        help="of a saved report of one of several processes: the link between them, such as nvlink4, or one for each "
        "dimension of the mesh, tp=nvlink4,dp=infiniband-ndr",
    )
    parser.add_argument("--groups", action="store_true", help="one row per group of calls, not per type of operator")
    parser.add_argument("--columns", metavar="NAMES", help="names separated by commas, or all")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by a column; default: execution order")
    parser.add_argument("--top", type=int, metavar="N", help="maximum number of rows; the others are summed")
    parser.add_argument(
        "--measured",
        action="append",
        default=[],
        metavar="FILE",
        help="saved report of a measured run of the model (.json): print its time beside the bound and the calibrated "
        "time, by family, with --groups of the calls that are off most; several files: the median of each call",
    )
    add_output(parser, [*renderers()], "table", FILES)
    add_unit(parser)
    add_digits(parser, default=3)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a call is not counted, if something is assumed, if the device lacks a figure that the run "
        "needs, or if a measured time is below its bound",
    )
    add_model_options(parser)
    add_frontend_switches(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    devices = [named(name.strip()) for name in args.device.split(",")]
    options = _checked(args, devices)
    check_model(args.model)
    report = report_of(args.model, args, is_alone=True)
    times = [report.time(device, **options) for device in devices]
    problems = [] if report.status == "complete" else [f"the report is {report.status}"]
    problems += [f"the time on {each.device.name} is partial" for each in times if each.status != report.status]
    if args.measured:
        problems += _compare(times[0], args)
    elif len(times) == 1:
        _show_one(times[0], args)
    else:
        write_output(lambda out: show_devices(times, out, _format(args), unit_of(args), args.digits), args.output)
    if args.strict and problems:
        print_message(f"costcore: {' and '.join(problems)}, which is an error with --strict")
        return FAILURE
    return SUCCESS


def _compare(time: TimeReport, args: argparse.Namespace) -> list[str]:
    """Write measured times beside the others, and return what is wrong: that some are below their bound."""
    comparison = time.compare(*map(Report.from_json, args.measured))
    if args.output is not None and args.output.endswith(".json"):
        comparison.to_json(args.output)
    else:
        by, top = ("call", args.top or 10) if args.groups else ("family", 10)
        show = partial(comparison.show, mode=_format(args), unit=unit_of(args), n_digits=args.digits, by=by, top=top)
        write_output(show, args.output)
    below = comparison.violations or [comparison.total] * comparison.total.is_below_bound
    return [f"{', '.join(group.name for group in below[:5])} took less than the bound"] if below else []


def _checked(args: argparse.Namespace, devices: Sequence[Device]) -> dict[str, Any]:
    """Check the arguments before a model is loaded, and return the options of :meth:`costcore.Report.time`.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    check_digits(args.digits)
    check_top(args.top)
    format_of(args, "table", FILES if len(devices) == 1 else TABLES)
    columns = TIMES if args.groups else TIMES_BY_TYPE
    choose(columns, [*_columns(args, columns), *([args.sort] if args.sort else [])] or ["bound_seconds"])
    if args.dtype is not None:
        check_dtype(args.dtype)
    given = {"--groups": args.groups, "--columns": args.columns, "--sort": args.sort, "--top": args.top}
    given |= {"--measured": args.measured}
    if args.measured and (args.columns or args.sort or str(args.output).endswith(".html")):
        raise ValueError("--measured cannot be used with --columns, --sort or an .html file")
    if len(devices) > 1 and (flags := [flag for flag, value in given.items() if value]):
        raise ValueError(f"{', '.join(flags)} cannot be used with several devices, which are one row each")
    return {
        "dtype": args.dtype,
        "fusion": args.fusion,
        "cores": args.cores,
        "tf32": _tf32(args.tf32),
        "bound": args.bound,
        **_links(args.links),
    }


def _links(text: str | None) -> dict[str, Any]:
    """Return the option ``links``, if it was given: a name, or names by dimension.

    Raises:
        ValueError: if there is no link of that name.
    """
    if text is None:
        return {}
    parts = [part.strip().partition("=") for part in text.split(",")]
    by_group = {name if equals else "": link if equals else name for name, equals, link in parts}
    return {"links": links_by_group(by_group)}


def _tf32(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [] if text == "none" else [name.strip() for name in text.split(",")]


def _columns(args: argparse.Namespace, known: Mapping[str, Any]) -> list[str]:
    if args.columns is None:
        return []
    return [*known] if args.columns == "all" else [name.strip() for name in args.columns.split(",")]


def _format(args: argparse.Namespace) -> str:
    return format_of(args, "table", FILES)


def _show_one(time: TimeReport, args: argparse.Namespace) -> None:
    suffix = "" if args.output is None else Path(args.output).suffix
    show: Callable[..., None] = time.show_report if args.groups else time.show_summary_report
    columns = _columns(args, TIMES if args.groups else TIMES_BY_TYPE) or None
    options = {"sort": args.sort, "top": args.top, "columns": columns, "n_digits": args.digits, "unit": unit_of(args)}
    if suffix == ".json":
        time.to_json(args.output)
    elif suffix == ".html":
        time.to_html(args.output)
    else:
        write: Callable[[IO[str]], None] = partial(_write, show, _format(args), options)
        write_output(write, args.output)


def _write(show: Callable[..., None], mode: str, options: Mapping[str, Any], out: IO[str]) -> None:
    show(out, mode, **options)
