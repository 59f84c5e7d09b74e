"""``costcore profile TRACE``: state where the time of a recorded run goes."""

from __future__ import annotations

import argparse
import sys

from costcore.analyses.measured.measured import Measured
from costcore.analyses.measured.rows import TITLES
from costcore.analyses.timing.bound import BOUNDS, LEAST
from costcore.api.estimate import estimate
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.models import printed_warnings, report_of
from costcore.cli.options import (
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_unit,
    command_parser,
    model_forms,
    unit_of,
)
from costcore.cli.running import command
from costcore.errors import CostError
from costcore.ledger.checks import check_top
from costcore.registry.frontends import reader_of
from costcore.reports.report import Report
from costcore.tables.result import Result
from costcore.text.units import check_digits

EPILOG = """examples:
  costcore profile step.pt.trace.json.gz
  costcore profile step.pt.trace.json.gz --by module --top 20
  costcore profile step.pt.trace.json.gz --device h100-sxm5-80gb --format csv
  costcore profile before.json.gz --against after.json.gz
  costcore profile onnxruntime_profile.json --model model.onnx --input x=1x3x224x224

exit codes: 0 success, 1 the trace cannot be read or has no times, 2 usage error"""

FORMATS = ("table", "color", "md", "csv", "json", "html")
SUFFIXES = (".txt", ".md", ".csv", ".json", ".html")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore profile", "TRACE", "State where the time of a run goes that a profiler recorded.", EPILOG
    )
    parser.add_argument("trace", metavar="TRACE", help="a trace of torch.profiler, or with --model of a runtime")
    parser.add_argument(
        "--model", metavar="MODEL", help=f"the model that ran, whose calls take the times: {model_forms()}"
    )
    parser.add_argument("--device", metavar="NAME", help="whose bounds to compare with; default: that of the trace")
    parser.add_argument("--bound", choices=BOUNDS, default=LEAST, help=f"the bound; default: {LEAST}")
    parser.add_argument("--by", choices=TITLES, help="one row per call, type, op, module, class of module or phase")
    parser.add_argument("--top", type=int, metavar="N", help="with --by: maximum number of rows; the others are summed")
    parser.add_argument("--against", metavar="TRACE", help="another trace: what changed, work or speed")
    add_unit(parser)
    add_digits(parser, 1)
    parser.add_argument("--format", choices=FORMATS, help="default: a table")
    parser.add_argument(
        "--output", metavar="FILE", help=f"write to FILE, in the format of its suffix: {', '.join(SUFFIXES)}"
    )
    add_model_options(parser)
    add_frontend_switches(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
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
    is_trace = bool(reader_of(path))
    if not is_trace and args.model is None:
        raise CostError(f"{path} is not a trace of torch.profiler. A profile of ONNX Runtime needs --model model.onnx")
    profile: Report | str = path
    if is_trace:
        with printed_warnings(path, is_quiet=True):
            profile = estimate(path, et=et, profiler_step=args.profiler_step, graphs=args.graphs)
    if args.model is not None:
        return report_of(args.model, args).measured(profile, args.device, args.bound)
    assert isinstance(profile, Report)
    return profile.measured(device=args.device, bound=args.bound)
