"""``costcore fit MODEL TARGET``: say whether a model fits a device, and what would help."""

from __future__ import annotations

import argparse

from costcore.api.input_notation import parse_inputs
from costcore.cli.exit_codes import FAILURE, SUCCESS, USAGE_ERROR
from costcore.cli.models import (
    asked_mode,
    asks_for_step,
    check_model,
    estimate_options,
    given_or_usual,
    missing_inputs,
    model_to_capture,
    put_in_mode,
    report_of,
    unknown_options,
)
from costcore.cli.options import (
    RESULT_FILES,
    add_frontend_switches,
    add_memory_terms,
    add_model_options,
    add_result_output,
    command_parser,
    format_of,
    model_forms,
)
from costcore.cli.running import command, print_message, write_result
from costcore.errors import CostError, MissingInputsError, UnknownOptionError
from costcore.registry.frontends import reader_of
from costcore.registry.libraries import is_saved_report
from costcore.studies.fit.target import FORMS, target_of
from costcore.studies.fit.verdict import Verdict, fit

CODES = {True: SUCCESS, False: FAILURE, None: USAGE_ERROR}
"""The exit codes: what cannot be said has that of a usage error."""

EPILOG = """examples:
  costcore fit torchvision:resnet50 l4 --train --optimizer adamw --input 64x3x224x224
  costcore fit torchvision:resnet50 "24 GB" --train --optimizer adamw --input batch,3,224,224
  costcore fit model.onnx "256 KB sram, 1 MB flash" --format json

If a dimension has a name, the largest batch that fits is found too (PyTorch). If the model does not fit, what would
make it fit is captured, and listed with what it needs.

exit codes: 0 it fits, 1 it does not, 2 that cannot be said (also for a model error), or usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore fit", "MODEL TARGET", "Say whether a model fits a device, and what would make it fit.", EPILOG
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("target", metavar="TARGET", help=FORMS)
    add_model_options(parser)
    add_memory_terms(parser, None, "500 MiB, assumed, for GPUs, and for an amount and code")
    parser.add_argument("--align", type=int, default=64, metavar="N", help="alignment of placed values; default: 64")
    parser.add_argument("--no-remedies", action="store_true", help="do not capture what would help")
    add_result_output(parser)
    add_frontend_switches(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model)
    asked_mode(args)
    format_of(args, "table", RESULT_FILES)
    target_of(args.target)
    try:
        verdict = _verdict(args)
    except MissingInputsError as error:
        print_message(f"costcore: {args.model}: {missing_inputs(error)}")
        return CODES[None]
    except (CostError, OSError) as error:
        print_message(f"costcore: {error}")
        return CODES[None]
    write_result(verdict, args)
    return CODES[verdict.fits]


def _verdict(args: argparse.Namespace) -> Verdict:
    terms = {name: getattr(args, name) for name in ("context", "workspace", "fragmentation", "align")}
    terms["remedies"] = not args.no_remedies
    if is_saved_report(args.model):
        return fit(report_of(args.model, args, is_alone=True), None, args.target, **terms)
    if reader_of(args.model) and asks_for_step(args):
        raise ValueError(
            f"{args.model} is a file, of which an inference fits or not: leave out --train and --optimizer, "
            "or pass the PyTorch model that is trained, as file.py:factory"
        )
    with model_to_capture(args) as model:
        put_in_mode(model, args.model, args)
        options = estimate_options(args)
        options.pop("backward", None)
        optimizer = options.pop("optimizer", None)
        inputs = given_or_usual(parse_inputs(args.input), model, args.model)
        options |= {**terms, "train": asks_for_step(args), "optimizer": optimizer}
        try:
            return fit(model, inputs, args.target, **options)
        except UnknownOptionError as error:
            raise ValueError(unknown_options(args.model, error)) from error
