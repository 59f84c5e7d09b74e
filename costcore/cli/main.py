"""The command line: ``costcore MODEL``, and the way to the other commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from costcore._version import __version__
from costcore.api.load_model import parse_dims, parse_inputs, parse_shapes
from costcore.cli.models import (
    GOOD,
    INTERRUPTED,
    MODEL,
    PROBLEM,
    add_model_options,
    add_switches,
    check_model,
    flag_of,
    format_of,
    report_of,
    switched_on,
    switches,
    tell,
)
from costcore.errors import CostError
from costcore.reports.caveats import FOOTED
from costcore.reports.columns import (
    GROUPS,
    LAYERS,
    REPORT,
    SUMMARY,
    TREE,
    Column,
    GroupColumns,
    LayerColumns,
    ReportColumns,
    SummaryColumns,
    TreeColumns,
    choose,
)
from costcore.reports.ledger import KEYS
from costcore.reports.report import Report
from costcore.reports.serialization.targets import written
from costcore.reports.tables.arrange import check_top
from costcore.reports.tables.module_tree import check_depth
from costcore.reports.tables.renderers import renderers
from costcore.reports.text.units import UNITS, check_digits

COMMANDS: Mapping[str, str] = {
    "check": "costcore.cli.check:main",
    "diff": "costcore.cli.diff:main",
    "table": "costcore.cli.table:main",
}
"""The other commands: what runs each."""

FILES: Mapping[str, Callable[[Report, Callable[..., None], str], object]] = {
    ".json": lambda report, show, path: report.to_json(path),
    ".html": lambda report, show, path: report.to_html(path),
    ".csv": lambda report, show, path: written(partial(show, mode="csv"), path),
    ".md": lambda report, show, path: written(partial(show, mode="md"), path),
}
"""What writes the file of ``--output``, by its suffix."""

COLOR = "color"
"""The format where none is given."""

EXAMPLES = """commands (costcore COMMAND --help tells more):
  costcore diff A B            what changed between two models or saved reports
  costcore check MODEL         hold a model to a budget
  costcore table MODEL ...     one row a model

examples:
  costcore model.onnx
  costcore model.onnx --input x=1x3x224x224 --summary --format table
  costcore torchvision.models:resnet50 --input 1x3x224x224 --tree --depth 2 --unit G
  costcore torchvision.models:resnet50 --input 1x3x224x224 --by module,op --sort flops --top 10
  costcore my_model.py:make --input ids=1x128:int64 --columns name,macs,params
  costcore model.onnx --output report.json

exit codes: 0 good, 1 a problem with the model (with --strict also an unknown operator),
2 a problem with the arguments
A module:factory target runs that code; an .onnx file is only read."""


class View(NamedTuple):
    """What the command can show: the method of the report, its columns, and their sets."""

    show: Callable[..., None]
    known: Mapping[str, Column]
    sets: Any


VIEWS: Mapping[str, View] = {
    "report": View(Report.show_report, REPORT, ReportColumns),
    "summary": View(Report.show_summary_report, SUMMARY, SummaryColumns),
    "layers": View(Report.show_layers, LAYERS, LayerColumns),
    "tree": View(Report.show_tree, TREE, TreeColumns),
    "by": View(Report.show_by, GROUPS, GroupColumns),
}


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="costcore",
        usage="costcore MODEL [options]      (--help lists the options)",
        description="What one pass of a neural network costs: FLOPs, MACs, bytes read and written, parameters.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("model", metavar="MODEL", help=MODEL)
    add_model_options(made)
    view = made.add_mutually_exclusive_group()
    view.add_argument("--summary", action="store_true", help="sums by type of operator instead of every call")
    view.add_argument("--layers", action="store_true", help="every call with shapes, memory, MAdd and Flops")
    view.add_argument("--tree", action="store_true", help="the modules of the model, nested")
    view.add_argument("--by", metavar="KEYS", help=f"sums by {', '.join(KEYS)}, or several of them (module,op)")
    made.add_argument("--depth", type=int, metavar="N", help="levels of --tree; default: all")
    made.add_argument("--sort", metavar="COLUMN", help="largest first, or by the alphabet; default: in order of calls")
    made.add_argument("--top", type=int, metavar="N", help="rows to show (of each module in --tree); others are summed")
    made.add_argument(
        "--format", choices=sorted(renderers()), help="default: a table, in colour where the terminal has it"
    )
    made.add_argument(
        "--unit", default="autoaligned", choices=["none", *filter(None, UNITS)], help="default: autoaligned"
    )
    made.add_argument(
        "--columns", action="append", metavar="NAMES", help="names separated by commas, or default, percent, all"
    )
    made.add_argument(
        "--digits", type=int, default=3, metavar="N", help="digits after the decimal point (0-10), default 3"
    )
    made.add_argument(
        "--output", metavar="FILE", help=f"write there instead; {', '.join(FILES)} (.json, .html: the whole report)"
    )
    made.add_argument("--strict", action="store_true", help="exit with 1 where an operator is unknown")
    made.add_argument("--version", action="version", version=f"costcore {__version__}")
    add_switches(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code and never ends in a traceback for bad input."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv and argv[0] in COMMANDS:
            module, _, function = COMMANDS[argv[0]].partition(":")
            return int(getattr(import_module(module), function)(argv[1:]))
        return _main(argv)
    except CostError as error:  # a plug-in is broken: the renderers it may offer are among the arguments
        return _fail(str(error))
    except KeyboardInterrupt:
        print("costcore: interrupted", file=sys.stderr)
        return INTERRUPTED


def _main(argv: Sequence[str]) -> int:
    arguments = parser()
    if argv and argv[0].isalpha() and not Path(argv[0]).is_dir():
        arguments.error(f"{argv[0]!r} is neither a model nor a command; commands are {', '.join(COMMANDS)}")
    given = arguments.parse_args(argv)
    try:
        shown = _options(given)
        parse_inputs(given.input)
        parse_dims(given.dim)
        parse_shapes(given.shape)
        check_model(given.model)
    except (TypeError, ValueError) as error:
        arguments.error(str(error))
    try:
        report = _report(given)
        _show(report, given, shown)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # keeps the interpreter quiet at exit
    except (CostError, OSError) as error:
        return _fail(str(error))
    except (TypeError, ValueError) as error:
        arguments.error(str(error))
    else:
        if given.strict and report.status == "partial":
            return _fail("the report is partial, which --strict does not allow")
    return GOOD


def _options(given: argparse.Namespace) -> dict[str, Any]:
    """What the report is to be shown with, checked before a model is touched.

    Raises:
        TypeError, ValueError: saying what is accepted.
    """
    name = _view(given)
    view, keys = VIEWS[name], [key.strip() for key in given.by.split(",")] if given.by is not None else []
    if unknown := [key for key in keys if key not in KEYS]:
        raise ValueError(f"--by {unknown[0]!r} is not known; accepted are {', '.join(KEYS)}")
    if given.depth is not None and name != "tree":
        raise ValueError("--depth is for --tree")
    check_depth(given.depth)
    check_top(given.top)
    check_digits(given.digits)
    format_of(given, COLOR, [*FILES])
    options: dict[str, Any] = {"keys": keys, "sort": given.sort, "top": given.top, "n_digits": given.digits}
    if given.sort is not None:
        choose(view.known, [given.sort])
    if name == "tree":
        options["depth"] = given.depth
    if given.columns not in (None, ["default"]):
        percent = getattr(view.sets, "DEFAULT_AND_PERCENT", view.sets.DEFAULT)
        named = {"default": view.sets.DEFAULT, "percent": percent, "all": view.sets.ALL}
        words = [word.strip() for text in given.columns for word in text.split(",")]
        options["columns"] = [*dict.fromkeys(column for word in words for column in named.get(word, [word]))]
        choose(view.known, options["columns"])
    return {**options, "unit": None if given.unit == "none" else given.unit}


def _view(given: argparse.Namespace) -> str:
    if given.by is not None:
        return "by"
    return next((name for name in ("summary", "layers", "tree") if getattr(given, name)), "report")


def _report(given: argparse.Namespace) -> Report:
    live = given.input or given.shape or given.backward or switched_on(given) or given.layout != "framework"
    if given.model.endswith(".json") and live:
        flags = ["--input", "--shape", "--backward", *map(flag_of, switches())]
        raise ValueError(f"a saved report takes none of {', '.join(flags)} and --layout")
    return report_of(given.model, given, is_alone=True)


def _show(report: Report, given: argparse.Namespace, options: dict[str, Any]) -> None:
    """Write the report to standard output or to the file, and what does not stand under it to standard error."""
    keys = options.pop("keys")

    def show(ost: IO[str], mode: str) -> None:
        VIEWS[_view(given)].show(report, *keys, ost=ost, mode=mode, **options)

    if given.output is None:
        show(sys.stdout, given.format or COLOR)
        sys.stdout.flush()
    else:
        FILES[Path(given.output).suffix](report, show, given.output)
    if given.output is not None or given.format not in (None, *FOOTED):
        for remark in report.remarks:
            tell(remark)
    for note in _notes(report):
        tell(f"note: {note}")


def _notes(report: Report) -> list[str]:
    """The notes of a report, with one line for all regrouped nodes: a large network has hundreds of groups."""
    groups = Counter(regrouping.op for regrouping in report.regrouped)
    if groups.total() < 2:
        return report.notes
    counts = ", ".join(f"{op} {n}" for op, n in groups.most_common())
    line = f"regrouped {groups.total()} groups: {counts}; a report in a file (--output report.json) lists their nodes"
    return [*report.trace.run.notes, line]


def _fail(text: str) -> int:
    tell(f"costcore: {text}")
    return PROBLEM
