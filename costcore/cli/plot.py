"""``costcore plot MODEL --over seq=128:4096:128``: a figure over the values of a name among the sizes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from costcore.api.load_model import parse_dims
from costcore.cli.models import check_model, report_of
from costcore.cli.options import MODEL, add_frontend_switches, add_model_options, command_parser
from costcore.cli.running import SUCCESS, run_command, write_text
from costcore.reports.report_data import AMOUNTS
from costcore.sizes.curve import as_csv, parse_sizes

EPILOG = """examples:
  costcore plot torchvision.models:resnet50 --input 1,3,size,size --over size=64:1024:32 --output macs.svg
  costcore plot my_model.py:make --input ids=batch,seq:int64 --over seq=128:131072:log2 --at batch=1 --column mread
  costcore plot model.onnx --over seq=128,256,512 --at batch=8

exit codes: 0 success, 1 model error, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore plot",
        "MODEL --over NAME=FROM:TO:STEP",
        "Write a total over the values of a name among the sizes, as CSV or as an image.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "--over",
        required=True,
        metavar="NAME=SIZES",
        help="the name and its values: 128:4096:128, 128:131072:log2 or 1,2,4",
    )
    parser.add_argument(
        "--at", action="append", default=[], metavar="NAME=N", help="value of another name; may be repeated"
    )
    parser.add_argument("--column", default="flops", choices=AMOUNTS, help="default: flops")
    parser.add_argument("--output", metavar="FILE", help=".csv, .svg, .png or .pdf; default: CSV on standard output")
    add_model_options(parser)
    add_frontend_switches(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(build_parser(), argv, _plot)


def _plot(args: argparse.Namespace) -> int:
    over, _, text = args.over.partition("=")
    sizes, at = parse_sizes(text), parse_dims(args.at)
    check_model(args.model)
    options: dict[str, Any] = {"over": over, "at": at, "sizes": sizes, "target": args.output}
    found = report_of(args.model, args, is_alone=True).plot(args.column, **options)
    if args.output is None:
        write_text(as_csv(found, args.column, over), None)
    return SUCCESS
