"""``costcore explain MODEL N``: say by which rules somebody got the number N."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial

from costcore.api.input_notation import parse_inputs
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import check_model, report_of
from costcore.cli.options import (
    RESULT_FILES,
    add_frontend_switches,
    add_model_options,
    add_result_output,
    command_parser,
    format_of,
    model_forms,
)
from costcore.cli.running import command, write_result
from costcore.registry.libraries import is_saved_report
from costcore.reports.report import Report
from costcore.studies.explanations.explain import explain
from costcore.studies.explanations.number import read_number
from costcore.studies.explanations.sizes import other_sizes

EPILOG = """examples:
  costcore explain torchvision:resnet50 4.14G --input 1x3x224x224
  costcore explain timm:vit_base_patch16_224 17.6G --input 1x3x224x224 --source timm --year 2021
  costcore explain net.onnx "8.2 GOPS" --format json

exit codes: 0 the number is explained, 1 model error, or nothing gives this number, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore explain",
        "MODEL NUMBER",
        "Say by which counting rules, and which changes, somebody got a number for a network.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument(
        "number", metavar="NUMBER", help="the number with its prefix and unit: 4.14G, '8.2 GOPS', 4.1e9"
    )
    parser.add_argument("--significant", type=int, metavar="N", help="its significant digits; default: those written")
    parser.add_argument(
        "--source", metavar="TOOL", help="the tool or library whose table has the number; default: that of the network"
    )
    parser.add_argument("--year", type=int, metavar="YEAR", help="of the number: younger tools cannot have printed it")
    add_result_output(parser)
    add_model_options(parser)
    add_frontend_switches(parser)
    parser.set_defaults(spelled=True)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model)
    read_number(args.number, args.significant)
    format_of(args, "table", RESULT_FILES)
    report = report_of(args.model, args, is_alone=True)
    explanation = explain(report, args.number, args.significant, sizes=_sizes(args), source=args.source, year=args.year)
    write_result(explanation, args)
    return FAILURE if explanation.best is None else SUCCESS


def _sizes(args: argparse.Namespace) -> Mapping[str, Callable[[], Report]]:
    """Return reports of the model at other usual input sizes; none for a saved report or several inputs."""
    if is_saved_report(args.model) or len(args.input) != 1:
        return {}
    return {
        text: partial(report_of, args.model, args, [text], is_alone=True, is_quiet=True)
        for text in other_sizes(args.input[0], parse_inputs(args.input))
    }
