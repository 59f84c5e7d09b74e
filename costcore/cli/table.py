"""``costcore table MODEL MODEL …``: a table with one row per model."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from costcore.api.load_model import parse_inputs
from costcore.api.table import table
from costcore.cli.models import (
    FAILURE,
    MODEL,
    SUCCESS,
    add_convention,
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_output,
    add_unit,
    check_model,
    estimate_options,
    format_of,
    run_command,
    unit_of,
    write_output,
)
from costcore.reports.tables.renderers import renderers
from costcore.reports.text.units import check_digits

EPILOG = """examples:
  costcore table torchvision.models:resnet18 torchvision.models:resnet50 --input 1x3x224x224 --format md
  costcore table torchvision.models:inception_v3@1x3x299x299 torchvision.models:vgg16 --input 1x3x224x224
  costcore table zoo/*.onnx --jobs -1

exit codes: 0 success, 1 a model failed (its row has the error), 2 usage error"""

FILES = (".csv", ".md")
"""Suffixes of the file of ``--output``."""

_WITH_SHAPE = re.compile(r"(.+)@(\d+(?:x\d+)*(?::\w+)?)")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = argparse.ArgumentParser(
        prog="costcore table",
        usage="costcore table MODEL[@SHAPE] ... [options]      (--help lists the options)",
        description="Compute the costs of several models, one row per model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "models",
        metavar="MODEL[@SHAPE]",
        nargs="+",
        help=f"{MODEL}; @SHAPE replaces --input for this model, as in net.onnx@1x3x224x224",
    )
    add_model_options(parser)
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes (needs joblib); -1: one per core")
    add_output(parser, [*renderers()], "table", FILES)
    add_convention(parser)
    add_unit(parser)
    add_digits(parser, default=2)
    add_frontend_switches(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(build_parser(), argv, _table)


def _table(args: argparse.Namespace) -> int:
    check_digits(args.digits)
    mode = format_of(args, "table", FILES)
    inputs, options = parse_inputs(args.input), estimate_options(args)
    models = [_named_model(text, inputs) for text in args.models]
    result = table(models, jobs=args.jobs, python_path=args.python_path, convention=args.convention, **options)
    write_output(lambda out: result.show(out, mode, unit_of(args), args.digits), args.output)
    return FAILURE if result.failed else SUCCESS


def _named_model(text: str, inputs: Any) -> tuple[str, str, Any]:
    """Return name, target and inputs of ``MODEL[@SHAPE]``."""
    match = _WITH_SHAPE.fullmatch(text)
    target = match[1] if match else text
    check_model(target)
    return text, target, parse_inputs([match[2]]) if match else inputs
