"""``costcore reconcile MODEL A B``: list why the conventions A and B differ."""

from __future__ import annotations

import argparse
import sys

from costcore.analyses.conventions.catalog import named
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.models import check_model, report_of
from costcore.cli.options import (
    add_frontend_switches,
    add_model_options,
    add_output,
    command_parser,
    format_of,
    model_forms,
)
from costcore.cli.running import command, write_output, write_text
from costcore.studies.explanations.reconcile import reconcile
from costcore.text.escape import json_text

EPILOG = """examples:
  costcore reconcile torchvision:resnet50 timm torchvision --input 1x3x224x224
  costcore reconcile net.py:make fvcore ptflops --other old_net.py:make --input 1x3x224x224 --output why.html

costcore conventions lists the conventions.

exit codes: 0 success, 1 model error, 2 usage error"""

FILES = (".html", ".json", ".md", ".csv")
"""Suffixes of the file of ``--output``."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore reconcile",
        "MODEL OLD NEW",
        "List the operators by which two counting conventions differ; the lines add up exactly.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("old", metavar="OLD", help="a convention, or a .toml file with rules")
    parser.add_argument("new", metavar="NEW", help="the convention to compare it with")
    parser.add_argument("--other", metavar="MODEL", help="the model that NEW counts; default: the same")
    parser.add_argument("--input-other", action="append", metavar="SHAPE", help="its inputs, instead of --input")
    add_model_options(parser)
    add_output(parser, ("table", "md", "csv", "json"), "table", FILES)
    add_frontend_switches(parser)
    parser.set_defaults(spelled=True)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    for target in filter(None, (args.model, args.other)):
        check_model(target)
    mode = format_of(args, "table", FILES)
    named(args.old)
    named(args.new)
    report = report_of(args.model, args, is_alone=args.other is None)
    other = None if args.other is None else report_of(args.other, args, args.input_other)
    result = reconcile(report, args.old, args.new, other)
    if mode == "html":
        result.to_html(args.output)
    elif mode == "json":
        write_text(json_text(result.to_dict()) + "\n", args.output)
    else:
        write_output(lambda out: result.show(out, mode), args.output)
    for note in result.notes:
        sys.stderr.write(f"note: {note}\n")
    return SUCCESS
