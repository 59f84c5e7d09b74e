"""``costcore diff OLD NEW``: compare two models or saved reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import check_model, record_needed, report_of
from costcore.cli.options import (
    add_frontend_switches,
    add_fusion,
    add_model_options,
    add_output,
    command_parser,
    format_of,
    model_forms,
    names_in,
)
from costcore.cli.running import command, write_output
from costcore.registry.frontends import reader_of, specs
from costcore.reports.report import Report
from costcore.studies.comparisons.comparison import MATCHINGS, MODES, compare
from costcore.studies.comparisons.suggestion import suggestion
from costcore.tables.quantities import needed_options, numeric
from costcore.text.screen import Screen

EPILOG = """examples:
  costcore diff yesterday.json net.py:make --input 1x3x224x224 --format comment
  costcore diff net.py:make net.onnx --input 1x3x224x224
  costcore diff small.onnx large.onnx --exit-code
  costcore diff small.onnx large.onnx --columns fused_mrw,bound_seconds@l4
  costcore diff before.py:make after.py:make --input 8x3x224x224 --memory --optimizer adamw

exit codes: 0 success, 1 model error (with --exit-code also a difference), 2 usage error"""

FILES = (".html", ".json", ".md")
"""Suffixes of the file of ``--output``."""


ON_SCREEN = 4
"""The rows of each table if no format is asked for."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore diff",
        "OLD NEW",
        "Compare two models: a summary of the totals, then the calls added, removed and changed.",
        EPILOG,
    )
    parser.add_argument("old", metavar="OLD", help=model_forms())
    parser.add_argument("new", metavar="NEW", help="as OLD")
    add_model_options(parser)
    parser.add_argument("--input-old", action="append", metavar="SHAPE", help="inputs of OLD, instead of --input")
    parser.add_argument("--input-new", action="append", metavar="SHAPE", help="inputs of NEW, instead of --input")
    parser.add_argument(
        "--by",
        choices=MATCHINGS,
        help="match calls by module or in execution order; default: order if the frameworks differ, else module",
    )
    parser.add_argument(
        "--memory", action="store_true", help="compare the peaks of memory too (PyTorch); saved reports may have them"
    )
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help="further quantities to compare, separated by commas (costcore quantities lists them); may be repeated",
    )
    add_fusion(parser)
    add_output(parser, MODES, "table", FILES)
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help="maximum number of rows of each table; default: no limit, 50 in Markdown, 10 if operators were replaced",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if a call differs")
    add_frontend_switches(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    for target in (args.old, args.new):
        check_model(target)
    if args.top is not None and args.top < 0:
        raise ValueError(f"--top must be at least 0 (got {args.top})")
    mode = format_of(args, "table", FILES)
    columns = names_in(args.columns)
    record_needed(args, needed_options(numeric(name).name for name in columns))
    old = report_of(args.old, args, args.input_old)
    new = report_of(args.new, args, args.input_new)
    if args.fusion is not None:
        old, new = (report.fused(args.fusion).report for report in (old, new))
    comparison = compare(old, new, by=args.by, names=(args.old, args.new), columns=columns)
    if comparison.by == "order" and (found := suggestion((old, new), _regrouped(args, old, new))):
        comparison = replace(comparison, suggestions=(found,))
    usual = 50 if mode == "md" else 10 if comparison.kinds else None
    if isinstance(sys.stdout, Screen):
        usual = ON_SCREEN
    top = usual if args.top is None else args.top
    write_output(lambda out: comparison.show(out, mode, top), args.output)
    return FAILURE if args.exit_code and not comparison.equal else SUCCESS


def _regrouped(args: argparse.Namespace, old: Report, new: Report) -> Callable[[], tuple[Report, Report]] | None:
    """Return a function that reads the files again with ``--regroup``; None if it applies to none or is given."""
    targets = ((args.old, args.input_old, old), (args.new, args.input_new, new))
    files = [reader_of(target) and "regroup" in specs()[reader_of(target)].options for target, _, _ in targets]
    if not any(files) or "regroup" in dict(args.frontend_options):
        return None
    again = argparse.Namespace(**{**vars(args), "frontend_options": [*args.frontend_options, ("regroup", True)]})

    def read() -> tuple[Report, Report]:
        first, second = (
            report_of(target, again, inputs, is_quiet=True) if is_file else report
            for is_file, (target, inputs, report) in zip(files, targets, strict=True)
        )
        return first, second

    return read
