"""``costcore MODEL``: the report of a model in one of its views.

Options choose the view (overview, calls, tree, … or one of an analysis), its rows and columns, and the file. They are
checked before the model is loaded.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from costcore._version import __version__
from costcore.analyses.analysis import View, analyses, table_of_view
from costcore.api.estimate import targets_in
from costcore.api.hook import parse_dims, parse_inputs, parse_shapes
from costcore.cli import SUCCESS
from costcore.cli.commands import commands, description, short_help
from costcore.cli.models import check_model, record_needed, report_of
from costcore.cli.options import (
    MODES,
    PICTURES,
    SAVED,
    add_convention,
    add_digits,
    add_frontend_switches,
    add_fusion,
    add_model_options,
    add_unit,
    command_parser,
    format_of,
    model_forms,
    names_in,
    unit_of,
)
from costcore.cli.running import exit_code, made_by, print_message, run_command
from costcore.errors import did_you_mean, unknown
from costcore.files import is_folder
from costcore.ledger.ledger import MODES_WITH_REMARKS, check_depth, check_top, remarks_on_mode
from costcore.plugins import imported, with_plugin_hint
from costcore.registry import specs
from costcore.reports.data import PARTS, check_parts
from costcore.reports.exports import by_suffix
from costcore.reports.report import Report
from costcore.tables.columns import (
    GROUPS,
    LAYERS,
    REPORT,
    SUMMARY,
    TREE,
    GroupColumns,
    LayerColumns,
    ReportColumns,
    SummaryColumns,
    TreeColumns,
    choose,
    with_quantities,
)
from costcore.tables.quantity import is_quantity, needed_options, quantity
from costcore.tables.renderers import renderers
from costcore.tables.result import Result, with_rows_and_columns
from costcore.text.amounts import check_digits
from costcore.text.output import Column, save_output

if TYPE_CHECKING:
    from costcore.analyses.fusion.groups import FusedView


class ReportView(NamedTuple):
    """A view of a report.

    Attributes:
        show: prints it, called with the report.
        columns: its columns by name.
        column_sets: the class with its named column sets.
    """

    show: Callable[..., None]
    columns: Mapping[str, Column]
    column_sets: Any


def _show_groups(fused: FusedView, **options: Any) -> None:
    fused.show_report(**options)


def _show_run(report: Report, *parts: str, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
    report.table(*parts, **options).show(ost, mode, unit, n_digits)


def _show_overview(report: Report, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
    if mode == "md":
        ost.write(f"{Result.to_markdown(report)}\n")
    else:
        is_default = (unit, n_digits) == (DEFAULT_UNIT, DEFAULT_DIGITS)  # the overview has its own defaults
        Result.show(report, ost, mode, *(("auto", None) if is_default else (unit, n_digits)))


OWN: Mapping[str, ReportView] = {
    "report": ReportView(Report.show_report, REPORT, ReportColumns),
    "summary": ReportView(Report.show_summary_report, SUMMARY, SummaryColumns),
    "layers": ReportView(Report.show_layers, LAYERS, LayerColumns),
    "tree": ReportView(Report.show_tree, TREE, TreeColumns),
    "by": ReportView(Report.show_by, GROUPS, GroupColumns),
    "run": ReportView(_show_run, REPORT, ReportColumns),
    "overview": ReportView(_show_overview, {}, None),
}
"""The views of every report; analyses add views."""


def of_analyses() -> dict[str, View]:
    """Return the views of analyses by name."""
    return {each.name: each.view for each in analyses().values() if each.view is not None}


def view_named(name: str) -> ReportView:
    """Return the view of that name."""
    if name in OWN:
        return OWN[name]
    if name == "fused":
        from costcore.analyses.fusion.groups import FUSED, FusedColumns

        return ReportView(_show_groups, FUSED, FusedColumns)
    view = of_analyses()[name]

    def show_table(report: Report, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
        table_of_view(report, name, options).write(ost, mode, unit, n_digits)

    def show_result(report: Report, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
        of_table = {key: options.pop(key, None) for key in ("columns", "sort", "top")}
        with_rows_and_columns(report.analysis(name, **options), **of_table).show(ost, mode, unit, n_digits)

    columns, column_sets = (imported(path) if path else None for path in (view.columns, view.column_sets))
    return ReportView(show_table if view.table else show_result, columns or {}, column_sets)


OF_PARTS = ("report", "summary", "layers", "tree", "by", "run")
"""The views with parts of the run as rows: calls, groups of calls, modules."""

COLUMNS_OF_VIEWS: Mapping[str, Sequence[str]] = {
    "calls": ReportColumns.DEFAULT,
    "summary": SummaryColumns.DEFAULT,
    "layers": LayerColumns.DEFAULT,
    "tree": TreeColumns.DEFAULT,
}
"""The columns of a view that is combined with ``--by``, which chooses the rows."""


def flag_of_view(name: str) -> str:
    """Return the flag of the view of an analysis."""
    return f"--{name.replace('_', '-')}"


def given_flags(args: argparse.Namespace, view: View) -> dict[str, Any]:
    """Return the options of a view that are given, by flag."""
    values = {flag: getattr(args, flag.lstrip("-").replace("-", "_")) for flag in view.arguments}
    return {flag: value for flag, value in values.items() if value is not None and value is not False}


# Options for the view: rows, columns, numbers and file.


TABLES = (".csv", ".md", ".tex")
"""The suffixes of ``--output`` that write the table of the view.

Suffixes in ``SAVED`` write its workbook or picture; suffixes of exports write the complete report.
"""

DEFAULT_FORMAT, DEFAULT_UNIT, DEFAULT_DIGITS = "color", "autoaligned", 3


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the view of the report."""
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--overview",
        action="store_true",
        help="totals, and the operator types with the most FLOPs; the default",
    )
    view.add_argument(
        "--calls",
        action="store_true",
        help="one row per operator call; the default with --columns, --format or --output",
    )
    view.add_argument("--summary", action="store_true", help="one row per operator type")
    view.add_argument("--layers", action="store_true", help="one row per operator call, in torchstat's format")
    view.add_argument("--tree", action="store_true", help="the module hierarchy, one row per module")
    for name, each in of_analyses().items():
        view.add_argument(flag_of_view(name), action="store_true", help=each.help)
    parser.add_argument(
        "--by",
        metavar="PARTS",
        help=f"group rows by {', '.join(PARTS)}, or by several keys (module,op)",
    )
    parser.add_argument(
        "--depth", type=int, metavar="N", help="maximum depth of --tree or of --by module; default: no limit"
    )
    parser.add_argument(
        "--no-fold",
        dest="fold",
        action="store_false",
        help="--tree: one row per module, even if consecutive modules are equal",
    )
    for name, each in of_analyses().items():
        for flag, how in each.arguments.items():
            parser.add_argument(flag, **{**how, "help": f"{flag_of_view(name)}: {how['help']}"})


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the rows, columns, numbers and format of the view."""
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        help="sort by a column, numbers descending; default: execution order; with --top the first number in "
        "--columns, else FLOPs",
    )
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help="maximum number of rows (with --tree: per module); a row 'others' sums the rest",
    )
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help="quantities from `costcore quantities` separated by commas, such as macs,flops@fvcore,bound_seconds@l4, "
        "or default, percent, all",
    )
    add_convention(parser)
    add_fusion(parser)
    add_unit(parser)
    add_digits(parser, DEFAULT_DIGITS)
    parser.add_argument(
        "--format",
        choices=sorted([*renderers(), "json"]),
        help="output format, with all rows (json: the complete report); default: a table of at most 40 lines, in color "
        "in a terminal",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=f"write to FILE, in the format of its suffix: {', '.join(suffixes())} (.json, .html: the complete report)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a call is not counted, or if something is assumed"
    )


def suffixes() -> list[str]:
    """Return the suffixes for ``--output``."""
    return [*by_suffix(), *TABLES, *SAVED]


# From flags to a view and its options, with checks.


MODES_OF_OVERVIEW = ("color", "md", "table")
"""The formats of an overview: Markdown, and the same text for both others."""


def options_of_view(args: argparse.Namespace) -> dict[str, Any]:
    """Check the arguments for the output before a model is loaded, and return the options of the view.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    name = args.view = _view(args)
    _check_flags(args, name)
    keys = _keys(args) if name in ("by", "run") else []
    options: dict[str, Any] = {"keys": keys, "top": args.top, "n_digits": args.digits, "unit": unit_of(args)}
    view = of_analyses().get(name)
    if view is None or not view.order:
        options["sort"] = args.sort
    if name in ("tree", "by"):
        options["depth"] = args.depth
    if name == "tree":
        options["fold"] = args.fold
    if view is not None:
        options |= {flag.lstrip("-").replace("-", "_"): value for flag, value in given_flags(args, view).items()}
        options["top"] = view.top if args.top is None else args.top
    beside = {**COLUMNS_OF_VIEWS, **{each: found.beside for each, found in of_analyses().items()}}
    if args.columns not in (None, ["default"]):
        options["columns"] = _columns(args.columns, name)
    elif args.by is not None and (chosen := next((each for each in beside if getattr(args, each)), None)):
        options["columns"] = beside[chosen]
    if args.top is not None and args.sort is None and name in (*OF_PARTS, "fused"):
        options["sort"] = _default_order(args, options.get("columns", ()))
    return options


def _default_order(args: argparse.Namespace, columns: Sequence[str]) -> str:
    amounts = (name for name in columns if is_quantity(name) and quantity(name).is_number)
    return next(amounts, "flops" if args.fusion is None else "mrw")


def _keys(args: argparse.Namespace) -> list[str]:
    return [key.strip() for key in args.by.split(",")]


def record_what_columns_need(args: argparse.Namespace, options: Mapping[str, Any]) -> None:
    """Turn on the recordings that the columns need, if the frontend has them."""
    names = [*options.get("columns", ()), *([] if args.sort is None else [args.sort])]
    known = view_named(args.view).columns
    needs = needed_options(name for name in names if name not in known and (known or is_quantity(name)))
    needs |= analyses()[args.view].needs if args.view in of_analyses() else {}
    record_needed(args, needs, args.model)


def _check_flags(args: argparse.Namespace, name: str) -> None:
    views = of_analyses()
    for other, view in views.items():
        if other != name and (given := [*given_flags(args, view)]):
            raise ValueError(f"{given[0]} requires {flag_of_view(other)}")
    if args.by is not None:
        _check_parts(args)
    elif args.depth is not None and name != "tree":
        raise ValueError("--depth requires --tree or --by module: rows of other views are not nested")
    if not args.fold and name != "tree":
        raise ValueError("--no-fold requires --tree")
    if args.fusion is not None and name in views and views[name].is_of_original:
        raise ValueError(f"--fusion cannot be used with {flag_of_view(name)}, which fusion does not change")
    if name == "overview":
        _check_flags_of_overview(args)
    if args.sort is not None and name in views and views[name].order:
        raise ValueError(f"--sort cannot be used with {flag_of_view(name)}, {views[name].order}")
    if args.sort is not None:
        _check_columns(name, [args.sort])
    check_depth(args.depth)
    check_top(args.top)
    check_digits(args.digits)
    format_of(args, DEFAULT_FORMAT, suffixes())


def _check_parts(args: argparse.Namespace) -> None:
    reasons = {"overview": "it shows totals and types; leave out one of them"}
    for view, rows in {**reasons, **{name: each.rows for name, each in of_analyses().items()}}.items():
        if rows and getattr(args, view):
            raise ValueError(f"{flag_of_view(view)} cannot be used with --by: {rows}")
    try:
        check_parts(_keys(args), args.depth)
    except ValueError as error:
        raise ValueError(f"--by: {error}") from error


def _check_columns(view: str, names: Sequence[str]) -> None:
    columns = view_named(view).columns
    if view in OF_PARTS:
        with_quantities(columns, names)
    elif columns:
        choose(columns, names)


def _check_flags_of_overview(args: argparse.Namespace) -> None:
    flags = ("columns", "sort", "top", "fusion", "convention", "output")
    if given := [f"--{flag}" for flag in flags if getattr(args, flag) is not None]:
        raise ValueError(f"{', '.join(given)} cannot be used with --overview")
    if args.format not in (None, *MODES_OF_OVERVIEW):
        raise ValueError(f"--overview: {unknown('format', args.format, MODES_OF_OVERVIEW)}")


def _columns(texts: Sequence[str], view: str) -> list[str]:
    names, sets = names_in(texts), view_named(view).column_sets
    if sets is None:
        return names
    percent = getattr(sets, "DEFAULT_AND_PERCENT", sets.DEFAULT)
    by_name = {"default": sets.DEFAULT, "percent": percent, "all": sets.ALL}
    columns = [*dict.fromkeys(column for name in names for column in by_name.get(name, [name]))]
    _check_columns(view, columns)
    if "params" in names and "n_params" not in columns:
        print_message("costcore: params are the settings of operators; --columns n_params counts parameters")
    return columns


def _view(args: argparse.Namespace) -> str:
    if args.by is not None:
        return {"call": "report", "tree": "tree", "run": "run"}.get(args.by.strip(), "by")
    names = ("overview", "summary", "layers", "tree", *of_analyses())
    for name in names:
        if getattr(args, name):
            return name
    if args.calls or args.convention is not None:
        return "report"
    if args.fusion is not None:
        return "fused"
    return "report" if _has_table_options(args) else "overview"


def asks_for_table(args: argparse.Namespace) -> bool:
    """Return whether an option requests a table: its rows, columns, format or file."""
    return args.view != "report" or args.calls or _has_table_options(args)


def _has_table_options(args: argparse.Namespace) -> bool:
    given = (args.columns, args.sort, args.top, args.format, args.output)
    return any(value is not None for value in given)


# Output: the report to standard output or a file, notes to standard error.


def show_view(
    report: Report, args: argparse.Namespace, options: dict[str, Any], fused: FusedView | None = None
) -> None:
    """Write the report to standard output or to a file, and further notes to standard error.

    Args:
        report: the report.
        args: the arguments of the command.
        options: the options of the view.
        fused: the view of this report after fusion, if requested.
    """
    keys, allocator = options.pop("keys"), options.pop("allocator", None)

    def show(ost: IO[str], mode: str) -> None:
        shown = fused if args.view == "fused" else report
        view_named(args.view).show(shown, *keys, ost=ost, mode=mode, **options)

    if args.format == "json":
        report.to_json(sys.stdout)
    elif args.output is None:
        show(sys.stdout, args.format or DEFAULT_FORMAT)
        sys.stdout.flush()
    elif (suffix := Path(args.output).suffix) in TABLES:
        save_output(partial(show, mode=MODES.get(suffix, suffix[1:])), args.output)
    elif suffix in SAVED:
        _save_view(report if fused is None else fused, args, keys, options)
    else:
        columns = [name for name in options.get("columns", ()) if is_quantity(name)]
        if fused is not None:
            from costcore.analyses.fusion.groups import unfused

            columns.insert(0, unfused(fused.original))
        export = by_suffix()[suffix].name
        is_unnamed = export == "page" and not report.tree()["type"]  # a model from a file has no class
        header = {"made": made_by(args)} if export == "page" else {}
        header |= {"title": Path(args.model).name} if is_unnamed else {}
        report.export(export, args.output, columns=columns, **header)
    if args.output is not None or args.format not in (None, *MODES_WITH_REMARKS):
        said = remarks_on_mode(report.trace)
        for remark in report.remarks:
            if remark not in said:
                print_message(remark)
    if allocator is not None and report.memory is not None:
        _show_below(report.memory.allocator(allocator).describe(), args)
    for note in _notes(report):
        print_message(f"note: {note}")


PARTS_OF_VIEWS = {"report": "call", "summary": "type", "layers": "call", "tree": "tree", "run": "run"}
"""The ``parts`` of :meth:`costcore.Report.table` for the table of a view."""


def _save_view(report: Any, args: argparse.Namespace, keys: Sequence[str], options: Mapping[str, Any]) -> None:
    """Write a workbook or a picture: of the analysis, of modules if these are the rows, else of operators."""
    view, columns = args.view, options.get("columns")
    if view in of_analyses():
        own = {
            key: value for key, value in options.items() if key not in ("columns", "sort", "top", "n_digits", "unit")
        }
        report.analysis(view, **own).save(args.output)
        return
    if view == "fused":
        report.save(args.output)
        return
    chosen = {key: options[key] for key in ("sort", "top", "depth") if options.get(key) is not None}
    parts = keys or [PARTS_OF_VIEWS[view]]
    if Path(args.output).suffix in PICTURES and parts[0] in ("call", "type", "op", "tree", "module") and not chosen:
        amounts = [name for name in columns or () if is_quantity(name) and quantity(name).has_share]
        kind = "modules" if parts[0] in ("tree", "module") else "operators"
        report.plot(kind, column=next(iter(amounts), None), target=args.output)
        return
    report.table(*parts, columns=columns or view_named(view).column_sets.DEFAULT, **chosen).save(args.output)


def _show_below(line: str, args: argparse.Namespace) -> None:
    # Output for programs stays unchanged: the line goes to standard error.
    if args.output is None and args.format in (None, *MODES_WITH_REMARKS):
        print(line)
    else:
        print_message(line)


def show_fused(fused: FusedView, args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Write a report with the bytes after fusion: its groups, or the requested table or file."""
    if args.convention is not None:
        show_counted(fused.report, args, options)
    else:
        show_view(fused.report, args, options, fused)
    if args.view == "memory":
        _show_below("memory is for a run without fusion", args)


def show_counted(report: Report, args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Write a report under a convention: two lines, or the requested table."""
    counted = report.under(args.convention)
    if asks_for_table(args):
        described = counted.describe(options["unit"], args.digits)
        show_view(counted.report, args, options)
        if args.view in (views := of_analyses()) and views[args.view].without_flops:
            _show_below(described, args)
    else:
        print(counted.describe(options["unit"], args.digits))
        for note in _notes(report):
            print_message(f"note: {note}")
    for note in counted.notes:
        print_message(f"note: {note}")


def _notes(report: Report) -> list[str]:
    # One line for all regrouped nodes: there can be hundreds of groups.
    groups = Counter(regrouping.op for regrouping in report.regrouped)
    if groups.total() < 2:
        return report.notes
    counts = ", ".join(f"{op} {n}" for op, n in groups.most_common())
    line = f"regrouped {groups.total()} groups of nodes: {counts}. To list the nodes, use --output report.json."
    return [*report.trace.run.notes, line]


# ``costcore MODEL``.


EPILOG = """examples:
  costcore model.onnx
  costcore model.onnx --input x=1x3x224x224 --summary --format table
  costcore torchvision:resnet50 --input 1x3x224x224 --tree --depth 2 --unit G
  costcore torchvision:resnet50 --input 1x3x224x224 --by module,op --sort flops --top 10
  costcore my_model.py:make --input ids=1x128:int64 --columns name,macs,n_params
  costcore torchvision:resnet50 --input 8x3x224x224 --memory --optimizer adamw
  costcore model.onnx --arena --align 16 --dim batch=1
  costcore model.onnx --output report.json

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error

A target module:factory is Python code, which is imported and run. An .onnx file is only read."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser("costcore", "MODEL", description(), EPILOG)
    parser.words = [*commands()]
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    add_model_options(parser)
    add_view_options(parser)
    add_table_options(parser)
    parser.add_argument("--help-all", action="help", help="list all options")
    parser.add_argument("--version", action="version", version=f"costcore {__version__}")
    add_frontend_switches(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Report the cost of a model and return the exit code."""
    if list(argv) in (["-h"], ["--help"]):
        print(short_help())
        return SUCCESS
    parser = build_parser()
    if argv and argv[0].isalpha() and not is_folder(argv[0]) and not targets_in(f"{argv[0]}.py"):
        known = sorted(commands())
        problem = f"{argv[0]!r} is not a model or a command (commands: {', '.join(known)})"
        libraries = " or ".join(f"{prefix}:{argv[0]}" for spec in specs().values() for prefix in spec.libraries)
        near = did_you_mean(argv[:1], known) or (f". A model of a library is {libraries}" if libraries else "")
        parser.error(with_plugin_hint(f"{problem}{near}"))
    return run_command(parser, argv, _report_model)


def _report_model(args: argparse.Namespace) -> int:
    options = options_of_view(args)
    parse_inputs(args.input)
    parse_dims(args.dim)
    parse_shapes(args.shape)
    check_model(args.model)
    if args.convention is not None:
        from costcore.analyses.conventions.convention import needs_functions  # few runs have a convention

        args.record_api_calls = needs_functions(args.convention)
    record_what_columns_need(args, options)
    report = report_of(args.model, args, is_alone=True)
    if args.fusion is not None:
        show_fused(report.fused(args.fusion), args, options)
    elif args.convention is None:
        show_view(report, args, options)
    else:
        show_counted(report, args, options)
    return exit_code(report.status, args.strict)
