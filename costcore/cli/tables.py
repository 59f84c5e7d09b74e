"""Commands that write tables: ``table``, ``plot``, ``conventions``, ``devices``, ``quantities`` and ``conformance``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costcore.analyses.analysis import drawn_by
from costcore.analyses.conventions.convention import Convention, conventions, find_convention
from costcore.analyses.devices.device import CALIBRATED, Device, devices, find_device
from costcore.api.estimate import check_target, load_object, module_search_path, split_target
from costcore.api.hook import parse_dims, parse_inputs
from costcore.cli import FAILURE, SUCCESS
from costcore.cli.models import (
    check_model,
    estimate_options,
    printed_warnings,
    record_needed,
    report_of,
    requested_mode,
)
from costcore.cli.options import (
    SAVED,
    add_convention,
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_output,
    add_python_path,
    add_unit,
    command_parser,
    format_of,
    model_forms,
    names_in,
    unit_of,
)
from costcore.cli.running import command, print_message, save_workbook_or_picture, write_output, write_page, write_text
from costcore.errors import CostError, unknown
from costcore.files import exists
from costcore.registry import frontend_for_file, is_saved_report
from costcore.reports.plots import kinds, request
from costcore.studies.conformance import DIFFERS, EQUAL, MISSING, Conformance
from costcore.studies.sweeps.rows import DEFAULT_COLUMNS, SUFFIXES, NamedModel
from costcore.studies.sweeps.table import LABELS, LARGE, ModelTable, TableInterrupted, argument_names, table, variants
from costcore.tables.pictures import SUFFIXES as PICTURE_SUFFIXES
from costcore.tables.pictures import THEMES, check_suffix
from costcore.tables.quantity import is_quantity, needed_options, numbers
from costcore.tables.renderers import rendered, terminal_width, wrapped_last
from costcore.tables.result import Table, quantities
from costcore.text.amounts import Formatted, check_digits
from costcore.text.output import Column, Screen
from costcore.trace.run import LEVELS

TABLE_EXAMPLES = """examples:
  costcore table torchvision:resnet18 torchvision:resnet50 --input 1x3x224x224 --format md
  costcore table torchvision:inception_v3@1x3x299x299 torchvision:vgg16 --input 1x3x224x224
  costcore table small=nets.py:small large=nets.py:large --input 1x3x224x224
  costcore table zoo/*.onnx --jobs -1
  costcore table 'nets.py:make(width=[0.5,1.0], depth=[2,4])' --input 1x3x224x224 --output rows.jsonl --resume

exit codes: 0 success, 1 a model failed (its row has the error), 2 usage error, 130 interrupted"""

TABLE_FILES = (".md", ".html", *SUFFIXES, ".tex", *SAVED)
"""Suffixes of the file of ``--output``."""

_WITH_NAME = re.compile(r"([^:/@(=]+)=(.+)", re.DOTALL)
_WITH_SHAPE = re.compile(r"(.+)@(\d+(?:x\d+)*(?::\w+)?)", re.DOTALL)


def table_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore table",
        "[NAME=]MODEL[@SHAPE] ...",
        "Compute the costs of several models, one row per model.",
        TABLE_EXAMPLES,
    )
    parser.add_argument(
        "models",
        metavar="[NAME=]MODEL[@SHAPE]",
        nargs="+",
        help=f"{model_forms()}; "
        "'net.py:make(width=[0.5,1.0], depth=[2,4])' is one row per combination of these literals; "
        "@SHAPE replaces --input for this model, as in net.onnx@1x3x224x224; NAME= is the name of its row",
    )
    add_model_options(parser)
    _add_running(parser)
    add_output(parser, TABLE_FILES)
    parser.add_argument("--resume", action="store_true", help="keep the rows of --output that are up to date")
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help=f"figures, separated by commas: {', '.join(numbers())}, and conventions; may be repeated",
    )
    parser.add_argument(
        "--sort", metavar="COLUMN", help="sort by a column, numbers descending; default: order of the arguments"
    )
    parser.add_argument(
        "--scatter",
        nargs=3,
        metavar=("X", "Y", "FILE"),
        help="also draw column Y over column X to an .svg, .png or .pdf file (needs matplotlib)",
    )
    parser.add_argument("--scatter-color", metavar="NAME", help="the column that colors the points of --scatter")
    parser.add_argument(
        "--pareto",
        metavar="NAMES",
        help="show only the Pareto-optimal models by these figures, macs,peak_memory; a minus sign maximizes a figure: "
        "--pareto=-n_params,macs",
    )
    add_convention(parser)
    add_unit(parser)
    add_digits(parser, default=2)
    add_frontend_switches(parser)
    return parser


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes; -1: one per core; default: 1")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="maximum seconds per model")
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="maximum memory of the process of a model, '2 GiB' (Linux)"
    )


@command(table_parser)
def run_table(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_digits(args.digits)
    mode = format_of(args, "table", TABLE_FILES)
    if args.scatter_color is not None and args.scatter is None:
        raise ValueError("--scatter-color requires --scatter")
    inputs = parse_inputs(args.input)
    several = [_named_models(text, inputs) for text in args.models]
    models = several[0] if len(several) == 1 else [named for each in several for named in each]
    rows_file = args.output if args.output and Path(args.output).suffix in SUFFIXES else None
    labels = [*LABELS, *argument_names(models)]
    if args.sort is not None and args.sort not in labels and not is_quantity(args.sort):
        raise ValueError(unknown("column", args.sort, [*labels, *numbers()]))
    try:
        with printed_warnings(rows_file or "table"):
            result = table(
                models,
                jobs=_default_jobs(models) if args.jobs is None else args.jobs,
                timeout=args.timeout,
                memory_limit=args.memory_limit,
                output=rows_file,
                resume=args.resume,
                python_path=args.python_path,
                convention=args.convention,
                columns=_columns(args),
                mode=requested_mode(args),
                **estimate_options(args),
            )
    except TableInterrupted as error:
        if error.table.rows:
            print_message(f"costcore: {error}{f'; --resume continues {rows_file}' if rows_file else ''}")
            _write(error.table, args, mode, rows_file)
        raise
    _write(result, args, mode, rows_file)
    return FAILURE if result.failed else SUCCESS


def _write(result: ModelTable, args: argparse.Namespace, mode: str, rows_file: str | None) -> None:
    chosen = result if args.pareto is None else result.pareto(*names_in([args.pareto]))
    if rows_file is None or args.pareto is not None or args.sort is not None:
        shown = chosen if args.sort is None else chosen.sorted(args.sort)
        path = args.output if rows_file is None else None
        if path is not None and mode == "html":
            write_page(shown, args)
        elif path is None or not save_workbook_or_picture(shown, args):
            write_output(
                lambda out: shown.show(out, mode if rows_file is None else "table", unit_of(args), args.digits), path
            )
    for row in result.failed if rows_file or isinstance(sys.stdout, Screen) else ():
        print_message(f"costcore: {row.label} failed: {row.status}")
    sys.stdout.flush()
    if args.scatter is not None:
        x, y, path = args.scatter
        chosen.scatter(x, y, path, args.scatter_color)


def _columns(args: argparse.Namespace) -> list[str] | None:
    asked = names_in(args.columns)
    compared = [name.removeprefix(LARGE) for name in names_in([args.pareto] if args.pareto else None)]
    compared += [] if args.sort in (None, *LABELS) else [args.sort]
    if not compared:
        return asked or None
    return [*dict.fromkeys([*(asked or DEFAULT_COLUMNS), *filter(is_quantity, compared)])]


def _default_jobs(models: Sequence[NamedModel]) -> int | None:
    # Files are only read; code may end its process.
    return None if all(frontend_for_file(named.model) or is_saved_report(named.model) for named in models) else 1


def _named_models(text: str, inputs: Any) -> Sequence[NamedModel]:
    named = _WITH_NAME.fullmatch(text)
    if named and (exists(text) or exists(text.partition(":")[0])):  # a file whose name has an equals sign
        named = None
    name, text = named.groups() if named else (text, text)
    match = _WITH_SHAPE.fullmatch(text)
    own_inputs = parse_inputs([match[2]]) if match else inputs
    if text.endswith(SUFFIXES) and exists(text):
        raise ValueError(
            f"{text!r} has the rows of a table, not a model. Read it with pandas, or continue the table: "
            f"costcore table MODEL ... --output {text} --resume"
        )
    target, grid = split_target(match[1] if match else text)
    if grid is not None:
        return variants(target, grid, own_inputs, name if named else None)
    check_model(target)
    return [NamedModel(name, target, own_inputs)]


# ``costcore plot``.


PLOT_EXAMPLES = """examples:
  costcore plot torchvision:resnet50 --input 1x3x224x224 --output operators.svg
  costcore plot torchvision:resnet50 --input 1x3x224x224 --kind modules --column mrw --output modules.png
  costcore plot model.onnx --kind roofline --device h100-sxm5-80gb --theme dark --output roofline.svg
  costcore plot torchvision:resnet50 --input 1,3,size,size --over size=64:1024:32 --output macs.svg
  costcore plot my_model.py:make --input ids=batch,seq:int64 --over seq=128:131072:log2 --at batch=1 --column mread
  costcore plot model.onnx --over seq=128,256,512 --at batch=8

exit codes: 0 success, 1 model error, 2 usage error"""


def plot_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore plot",
        "MODEL [--kind KIND]",
        "Write a picture of a report, as an image or as CSV: costs by operator or module, FLOPs against "
        "bytes, live memory, a roofline, or a total over the values of a name among the sizes.",
        PLOT_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("--kind", choices=kinds(), help="default: operators, or sizes with --over")
    parser.add_argument(
        "--over",
        metavar="NAME=SIZES",
        help="sizes: the name and its values: 128:4096:128, 128:131072:log2 or 1,2,4",
    )
    parser.add_argument(
        "--at", action="append", default=[], metavar="NAME=N", help="sizes: value of another name; may be repeated"
    )
    parser.add_argument("--column", metavar="NAME", help="operators, modules, sizes: the quantity; default: flops")
    parser.add_argument("--device", metavar="DEVICE", help="roofline: a name that costcore devices lists, or a file")
    parser.add_argument("--dtype", help="roofline: dtype of weights and activations, such as bfloat16")
    parser.add_argument("--fusion", choices=LEVELS, help="roofline: level of fusion; default: none")
    parser.add_argument("--theme", choices=sorted(THEMES), default="light", help="default: light")
    parser.add_argument("--output", metavar="FILE", help=".csv, .svg, .png or .pdf; default: CSV on standard output")
    add_model_options(parser)
    add_frontend_switches(parser)
    parser.set_defaults(all_rows=None)
    return parser


@command(plot_parser)
def run_plot(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    name, _, text = (args.over or "").partition("=")
    over, sizes = None, None
    if args.over is not None:
        from costcore.analyses.sizes.formulas import parse_sizes  # other kinds of pictures work without it

        over, sizes = name, parse_sizes(text)
    asked = request(args.kind, args.column, over, args.device)
    needs = needed_options([asked.column])
    if asked.kind in drawn_by():
        needs |= drawn_by()[asked.kind].needs
    record_needed(args, needs, args.model)
    if args.output is not None:
        check_suffix(args.output, (".csv", *PICTURE_SUFFIXES))
    check_model(args.model)
    options: dict[str, Any] = {"at": parse_dims(args.at), "dtype": args.dtype, "fusion": args.fusion}
    picture = report_of(args.model, args, is_alone=True).plot(
        args.kind,
        column=args.column,
        over=over,
        sizes=sizes,
        device=args.device,
        theme=args.theme,
        target=args.output,
        **{option: value for option, value in options.items() if value is not None},
    )
    if args.output is None:
        write_text(picture.to_csv(), None)
    return SUCCESS


# Output of the lists ``conventions``, ``devices`` and ``quantities``.


LISTING_FILES = (".csv", ".md", ".tex", ".json", ".xlsx")
"""Suffixes of the file of ``--output``."""


def add_listing_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` and ``--output``."""
    add_output(parser, LISTING_FILES)


def write_list(table: Table, args: argparse.Namespace) -> int:
    """Write a table as wide as the terminal, and return the exit code."""
    mode = format_of(args, "table", LISTING_FILES)
    if not save_workbook_or_picture(table, args):
        write_output(lambda out: table.show(out, mode), args.output)
    return SUCCESS


def write_one(table: Table, args: argparse.Namespace) -> int:
    """Write a table with all of its text, and return the exit code."""
    mode = format_of(args, "table", LISTING_FILES)
    if save_workbook_or_picture(table, args):
        return SUCCESS
    width = terminal_width(sys.stdout) if args.output is None else None
    text = table.to_json() if mode == "json" else rendered(wrapped_last(table.text(), width), mode)
    write_text(text, args.output)
    return SUCCESS


# ``costcore conventions``.


CONVENTIONS_COLUMNS = (
    *(Column("name", "Name"), Column("tool", "Tool"), Column("unit", "Unit"), Column("says", "It says")),
    *(Column("rules", "# Rules", "count"), Column("description", "What it counts")),
)

CONVENTIONS_DROPPED_FIRST = ("says", "rules", "tool", "unit")
"""The columns that a narrow terminal drops, in this order."""


def conventions_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore conventions",
        "[NAME]",
        "List the counting conventions of other tools, or the rules of one.",
        "exit codes: 0 success, 1 a convention cannot be read, 2 usage error",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="a convention, or a .toml file with rules")
    add_listing_output(parser)
    return parser


@command(conventions_parser)
def run_conventions(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    return (
        write_list(_all_conventions(), args)
        if args.name is None
        else write_one(rules(find_convention(args.name)), args)
    )


def _all_conventions() -> Table:
    rows = [
        {
            **{key: getattr(each, key) for key in ("name", "unit", "description")},
            "tool": each.label,
            "says": each.calls_it,
            "rules": each.n_rules,
        }
        for each in conventions().values()
    ]
    return Table("Conventions", CONVENTIONS_COLUMNS, rows, dropped_first=CONVENTIONS_DROPPED_FIRST)


def rules(convention: Convention) -> Table:
    """Return the rules of a convention, one a row."""
    rows = []
    for each in convention.counts:
        others = {} if each.default is None else {"every other": each.default}
        rows += [
            {"by": each.by, "key": key, "rule": expression.text} for key, expression in {**each.rules, **others}.items()
        ]
    columns = [Column("by", "By"), Column("key", "Rule for"), Column("rule", convention.unit)]
    return Table(convention.label, columns, rows)


# ``costcore devices``.


HALF = ("bfloat16", "float16")

DEVICES_COLUMNS = (
    *(Column("name", "Name"), Column("vendor", "Vendor"), Column("kind", "Kind")),
    Column("half", "Half precision", "ratio", unit="TFLOP/s"),
    Column("float32", "float32", "ratio", unit="TFLOP/s"),
    *(Column("int8", "int8", "ratio", unit="TOP/s"), Column("memory", "Memory", "ratio", unit="GB/s")),
    Column("sources", "Sources"),
)
"""Peaks are dense, at the highest clock."""

DEVICES_DROPPED_FIRST = ("sources", "int8", "vendor", "kind", "float32")
"""The columns that a narrow terminal drops, in this order."""


def devices_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore devices",
        "[NAME]",
        "List the known devices, or devices with a word in their name; for one device, its figures and their sources.",
        "exit codes: 0 success, 1 a device cannot be read, 2 usage error",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="name of a device, a .toml file, or a part of names: cortex, h100, amd"
    )
    parser.add_argument("--device", metavar="NAME", help="name of a device, or a .toml file")
    add_listing_output(parser)
    return parser


@command(devices_parser)
def run_devices(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.device is not None and args.name is not None:
        raise ValueError("--device cannot be combined with NAME")
    name, known = args.device or args.name, devices()
    shown = {each: device for each, device in known.items() if args.name is None or _matches(device, args.name)}
    if name is None or (args.name is not None and name not in known and len(shown) > 1):
        return write_list(_all_devices(shown), args)
    only = next(iter(shown)) if len(shown) == 1 else name
    return write_one(_details(find_device(only)), args)


def _matches(device: Device, word: str) -> bool:
    return any(word.lower() in text.lower() for text in (device.name, device.vendor, device.kind, *device.aliases))


def _all_devices(shown: Mapping[str, Device]) -> Table:
    rows = [
        {
            **{key: getattr(device, key) for key in ("name", "vendor", "kind")},
            "sources": device.checked,
            "half": _tera(max(_peak(device, name) for name in HALF)),
            "float32": _tera(_peak(device, "float32", ["vector"])),
            "int8": _tera(_peak(device, "int8")),
            "memory": _number(device.memory.dram_gbs),
        }
        for device in shown.values()
    ]
    found = [name for name in CALIBRATED if any(name.startswith(each) for each in shown)]
    notes = [f"calibrated from public traces, for estimates with an error: {', '.join(found)}"] if found else []
    return Table("Devices", DEVICES_COLUMNS, rows, dropped_first=DEVICES_DROPPED_FIRST, remarks=notes)


def _peak(device: Device, dtype: str, engines: Sequence[str] = ("matrix", "vector")) -> float:
    return max(device.peak.get(engine, {}).get(dtype, 0.0) for engine in engines)


def _details(device: Device) -> Table:
    rows: list[tuple[str, str | Formatted]] = [
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
        rows.append((f"cache {i}", f"{cache.nbytes:,} bytes{rate}{each}"))
    rows += [("does not bind", ", ".join(device.unbounded))] if device.unbounded else []
    rows += [("fast convolutions", "yes" if device.fast_convolution else "no")]
    rows += [("calibrated", "yes" if device.calibration else "no")]
    rows += [("note", note) for note in device.notes]
    rows += [(f"source, {each.checked}", f"{each.title}: {each.states} {each.url}".strip()) for each in device.sources]
    columns = [Column("what", device.name), Column("value", "")]
    return Table(device.name, columns, [{"what": what, "value": value} for what, value in rows])


def _tera(value: float) -> str | Formatted:
    return Formatted(value, f"{value:.4g}") if value else ""


def _number(value: float | None) -> str | Formatted:
    return "" if value is None else Formatted(value, f"{value:.6g}")


# ``costcore quantities``.


def quantities_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore quantities",
        "",
        "List the quantities for --columns, --sort, budgets and plots: name, kind, meaning, and where they are known.",
        "exit codes: 0 success, 1 a plug-in fails, 2 usage error",
    )
    add_listing_output(parser)
    return parser


@command(quantities_parser)
def run_quantities(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    return write_list(quantities(), args)


# ``costcore conformance``.


CONFORMANCE_EXAMPLES = """example:
  costcore conformance tests/layers.py:BUILDERS

BUILDERS is a mapping of names of rows to functions without arguments that return the report of this layer or network,
{"relu": lambda: estimate(relu, (2, 3, 4, 4))}. Rows without a builder are listed as not built.

exit codes: 0 all rows that are built are equal, 1 some differ, or an error, 2 usage error"""


def conformance_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore conformance",
        "BUILDERS",
        "Check a frontend: compare its costs of layers and networks with costs worked out by hand.",
        CONFORMANCE_EXAMPLES,
    )
    parser.add_argument("builders", metavar="BUILDERS", help="package.module:BUILDERS or file.py:BUILDERS")
    add_python_path(parser)
    add_listing_output(parser)
    return parser


@command(conformance_parser)
def run_conformance(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    with module_search_path(args.python_path, args.builders):
        check_target(args.builders)
        builders = load_object(args.builders)
        if not isinstance(builders, Mapping):
            raise CostError(f"{args.builders} is not a mapping of names to functions (got {type(builders).__name__})")
        found = Conformance(builders)
    write_list(found.table, args)
    counts = (f"{sum(each.state == state for each in found.outcomes)} {state}" for state in (EQUAL, DIFFERS, MISSING))
    print_message(f"costcore: {', '.join(counts)}")
    return FAILURE if found.differences else SUCCESS
