"""``costcore table MODEL MODEL …``: one row a model."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from costcore.api.load_model import parse_inputs
from costcore.api.table import table
from costcore.cli.models import (
    GOOD,
    MODEL,
    PROBLEM,
    add_model_options,
    add_output,
    add_switches,
    check_model,
    format_of,
    options_of,
    put_out,
    run_command,
)
from costcore.reports.tables.renderers import renderers
from costcore.reports.text.units import UNITS, check_digits

EXAMPLES = """examples:
  costcore table torchvision.models:resnet18 torchvision.models:resnet50 --input 1x3x224x224 --format md
  costcore table torchvision.models:inception_v3@1x3x299x299 torchvision.models:vgg16 --input 1x3x224x224
  costcore table zoo/*.onnx --jobs -1

exit codes: 0 good, 1 a model failed (its row says why), 2 a problem with the arguments"""

FILES = (".csv", ".md")
"""How the name of the file of ``--output`` may end."""

_WITH_SHAPE = re.compile(r"(.+)@(\d+(?:x\d+)*(?::\w+)?)")


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="costcore table",
        usage="costcore table MODEL[@SHAPE] ... [options]      (--help lists the options)",
        description="Costs of many models, one row each.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "models",
        metavar="MODEL[@SHAPE]",
        nargs="+",
        help=f"{MODEL}; with its own input shape where it has one, net.onnx@1x3x224x224 (of an unnamed input)",
    )
    add_model_options(made)
    made.add_argument("--jobs", type=int, metavar="N", help="processes at work (needs joblib), -1 for one a core")
    add_output(made, [*renderers()], "table", FILES)
    made.add_argument(
        "--unit", default="autoaligned", choices=["none", *filter(None, UNITS)], help="default: autoaligned"
    )
    made.add_argument("--digits", type=int, default=2, metavar="N", help="digits after the decimal point, default 2")
    add_switches(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parser()
    given = arguments.parse_args(argv)
    return run_command(arguments, lambda: _table(given))


def _table(given: argparse.Namespace) -> int:
    check_digits(given.digits)
    mode = format_of(given, "table", FILES)
    inputs, options = parse_inputs(given.input), options_of(given)
    models = [_model(text, inputs) for text in given.models]
    made = table(models, jobs=given.jobs, python_path=given.python_path, **options)
    unit = None if given.unit == "none" else given.unit
    put_out(lambda out: made.show(out, mode, unit, given.digits), given.output)
    return PROBLEM if made.failed else GOOD


def _model(text: str, inputs: Any) -> tuple[str, str, Any]:
    match = _WITH_SHAPE.fullmatch(text)
    target, own = (match[1], parse_inputs([match[2]])) if match else (text, inputs)
    check_model(target)
    return text, target, own
