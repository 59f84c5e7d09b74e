"""``costcore MODEL``: the report of a model in one of its views."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from costcore._version import __version__
from costcore.api.input_notation import parse_dims, parse_inputs, parse_shapes
from costcore.cli.commands import commands, description
from costcore.cli.models import check_model, report_of
from costcore.cli.options import (
    add_frontend_switches,
    add_model_options,
    command_parser,
    model_forms,
)
from costcore.cli.running import exit_code, run_command
from costcore.cli.view_flags import add_table_options, add_view_options
from costcore.cli.view_options import options_of_view, record_what_columns_need
from costcore.cli.view_output import show_counted, show_fused, show_view
from costcore.files import is_folder
from costcore.messages import did_you_mean
from costcore.plugins import with_left_out

EPILOG = """examples:
  costcore model.onnx
  costcore model.onnx --input x=1x3x224x224 --summary --format table
  costcore torchvision:resnet50 --input 1x3x224x224 --tree --depth 2 --unit G
  costcore torchvision:resnet50 --input 1x3x224x224 --by module,op --sort flops --top 10
  costcore my_model.py:make --input ids=1x128:int64 --columns name,macs,n_params
  costcore torchvision:resnet50 --input 8x3x224x224 --memory --optimizer adamw
  costcore model.onnx --arena --align 16 --dim batch=1
  costcore model.onnx --output report.json

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error

A target module:factory is Python code, which is imported and run. An .onnx file is only read."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser("costcore", "MODEL", description(), EPILOG)
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    add_model_options(parser)
    add_view_options(parser)
    add_table_options(parser)
    parser.add_argument("--version", action="version", version=f"costcore {__version__}")
    add_frontend_switches(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Report the cost of a model and return the exit code."""
    parser = build_parser()
    if argv and argv[0].isalpha() and not is_folder(argv[0]):
        known = sorted(commands())
        problem = f"{argv[0]!r} is not a model or a command (commands: {', '.join(known)})"
        parser.error(with_left_out(f"{problem}{did_you_mean(argv[:1], known)}"))
    parser.set_defaults(argv=argv)
    return run_command(parser, argv, _report_model)


def _report_model(args: argparse.Namespace) -> int:
    options = options_of_view(args)
    parse_inputs(args.input)
    parse_dims(args.dim)
    parse_shapes(args.shape)
    check_model(args.model)
    if args.convention is not None:
        from costcore.analyses.conventions.catalog import needs_functions  # few runs have a convention

        args.spelled = needs_functions(args.convention)
    record_what_columns_need(args, options)
    report = report_of(args.model, args, is_alone=True)
    if args.fusion is not None:
        show_fused(report.fused(args.fusion), args, options)
    elif args.convention is None:
        show_view(report, args, options)
    else:
        show_counted(report, args, options)
    return exit_code(report.status, args.strict)
