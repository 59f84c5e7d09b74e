"""``costcore profile TRACE``: where the time of a recorded run goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from costcore.analyses.measured.measured import Measured
from costcore.analyses.measured.rows import TITLES
from costcore.api.estimate import estimate
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.models import printed_warnings
from costcore.cli.options import add_digits, add_unit, command_parser, unit_of
from costcore.cli.running import run_command
from costcore.errors import CostError
from costcore.ledger.checks import check_top
from costcore.registry.frontends import reader_of
from costcore.tables.result import Result
from costcore.text.units import check_digits

EPILOG = """examples:
  costcore profile step.pt.trace.json.gz
  costcore profile step.pt.trace.json.gz --by module --top 20
  costcore profile step.pt.trace.json.gz --device h100-sxm5-80gb --format csv
  costcore profile before.json.gz --against after.json.gz

exit codes: 0 success, 1 the trace cannot be read or has no times, 2 usage error"""

FORMATS = ("table", "color", "md", "csv", "json", "html")
SUFFIXES = (".txt", ".md", ".csv", ".json", ".html")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore profile", "TRACE", "State where the time of a run goes that torch.profiler recorded.", EPILOG
    )
    parser.add_argument("trace", metavar="TRACE", help="a trace of torch.profiler, .json or .json.gz")
    parser.add_argument("--device", metavar="NAME", help="whose bounds to compare with; default: that of the trace")
    parser.add_argument("--by", choices=TITLES, help="one row per call, type, op, module, class of module or phase")
    parser.add_argument("--top", type=int, metavar="N", help="with --by: maximum number of rows; the others are summed")
    parser.add_argument("--against", metavar="TRACE", help="another trace: what changed, work or speed")
    parser.add_argument("--et", metavar="FILE", help="the execution trace that was recorded with TRACE")
    parser.add_argument("--profiler-step", type=int, metavar="N", help="the step; default: the one of median time")
    add_unit(parser)
    add_digits(parser, 1)
    parser.add_argument("--format", choices=FORMATS, help="default: a table")
    parser.add_argument(
        "--output", metavar="FILE", help=f"write to FILE, in the format of its suffix: {', '.join(SUFFIXES)}"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(build_parser(), argv, _profile)


def _profile(args: argparse.Namespace) -> int:
    check_top(args.top)
    check_digits(args.digits)
    if args.top is not None and args.by is None:
        raise ValueError("--top requires --by")
    view = _measured(args.trace, args, args.et)
    shown: Result = view if args.by is None else view.table(args.by, args.top)
    if args.against is not None:
        change = view.against(_measured(args.against, args, None), args.by or "class")
        shown = change if args.by is None else change.table().top(args.top)
    if args.output is not None:
        shown.save(args.output)
    else:
        shown.show(sys.stdout, args.format or "table", unit_of(args), args.digits)
    return SUCCESS


def _measured(path: str, args: argparse.Namespace, et: str | None) -> Measured:
    if not reader_of(path):
        raise CostError(f"{path} is not a trace of torch.profiler")
    with printed_warnings(path, is_quiet=True):
        report = estimate(path, et=et, profiler_step=args.profiler_step)
    return report.measured(device=args.device)
