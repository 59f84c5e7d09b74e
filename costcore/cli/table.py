"""``costcore table MODEL ...``: list several models, one row per model."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costcore.api.input_notation import parse_inputs
from costcore.api.target_arguments import split_target
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import asked_mode, check_model, estimate_options
from costcore.cli.options import (
    add_convention,
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_output,
    add_unit,
    command_parser,
    format_of,
    model_forms,
    names_in,
    unit_of,
)
from costcore.cli.running import command, print_message, write_output
from costcore.registry.frontends import reader_of
from costcore.registry.libraries import is_saved_report
from costcore.studies.sweeps.figures import DEFAULT_COLUMNS
from costcore.studies.sweeps.front import LARGE
from costcore.studies.sweeps.model_table import ModelTable
from costcore.studies.sweeps.row import NamedModel
from costcore.studies.sweeps.row_file import SUFFIXES
from costcore.studies.sweeps.run import TableInterrupted
from costcore.studies.sweeps.sweep import variants
from costcore.studies.sweeps.table import table
from costcore.tables.quantities import is_quantity, numbers
from costcore.tables.renderers import renderers
from costcore.text.screen import Screen
from costcore.text.units import check_digits

EPILOG = """examples:
  costcore table torchvision:resnet18 torchvision:resnet50 --input 1x3x224x224 --format md
  costcore table torchvision:inception_v3@1x3x299x299 torchvision:vgg16 --input 1x3x224x224
  costcore table zoo/*.onnx --jobs -1
  costcore table 'nets.py:make(width=[0.5,1.0], depth=[2,4])' --input 1x3x224x224 --output rows.jsonl --resume

exit codes: 0 success, 1 a model failed (its row has the error), 2 usage error, 130 interrupted"""

FILES = (".md", *SUFFIXES)
"""Suffixes of the file of ``--output``."""

_WITH_SHAPE = re.compile(r"(.+)@(\d+(?:x\d+)*(?::\w+)?)", re.DOTALL)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore table", "MODEL[@SHAPE] ...", "Compute the costs of several models, one row per model.", EPILOG
    )
    parser.add_argument(
        "models",
        metavar="MODEL[@SHAPE]",
        nargs="+",
        help=f"{model_forms()}; "
        "'net.py:make(width=[0.5,1.0], depth=[2,4])' is one row per combination of these literals; "
        "@SHAPE replaces --input for this model, as in net.onnx@1x3x224x224",
    )
    add_model_options(parser)
    _add_running(parser)
    add_output(parser, [*renderers()], "table", FILES)
    parser.add_argument("--resume", action="store_true", help="keep the rows of --output that are still right")
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help=f"figures, separated by commas: {', '.join(numbers())}, and conventions; may be repeated",
    )
    parser.add_argument(
        "--scatter",
        nargs=3,
        metavar=("X", "Y", "FILE"),
        help="also draw column Y over column X to an .svg, .png or .pdf file (needs matplotlib)",
    )
    parser.add_argument(
        "--pareto",
        metavar="NAMES",
        help="show only the models than which no other needs less of all of these figures, macs,peak_memory; a minus "
        "sign stands for more: --pareto=-n_params,macs",
    )
    add_convention(parser)
    add_unit(parser)
    add_digits(parser, default=2)
    add_frontend_switches(parser)
    return parser


def _add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options for how rows are computed."""
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes; -1: one per core; default: 1")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="most seconds of one model")
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="most memory of the process of a model, as in '2 GiB' (Linux)"
    )


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_digits(args.digits)
    mode = format_of(args, "table", FILES)
    inputs = parse_inputs(args.input)
    models = [named for text in args.models for named in _named_models(text, inputs)]
    rows_file = args.output if args.output and Path(args.output).suffix in SUFFIXES else None
    try:
        result = table(
            models,
            jobs=_default_jobs(models) if args.jobs is None else args.jobs,
            timeout=args.timeout,
            memory_limit=args.memory_limit,
            output=rows_file,
            resume=args.resume,
            python_path=args.python_path,
            convention=args.convention,
            columns=_columns(args),
            mode=asked_mode(args),
            **estimate_options(args),
        )
    except TableInterrupted as error:
        if error.table.rows:
            print_message(f"costcore: {error}{f'; --resume goes on with {rows_file}' if rows_file else ''}")
            _write(error.table, args, mode, rows_file)
        raise
    _write(result, args, mode, rows_file)
    return FAILURE if result.failed else SUCCESS


def _write(result: ModelTable, args: argparse.Namespace, mode: str, rows_file: str | None) -> None:
    """Write the table, unless its rows are in a file already, and the image of ``--scatter``."""
    if rows_file is None or args.pareto is not None:
        shown = result if args.pareto is None else result.pareto(*names_in([args.pareto]))
        path = args.output if rows_file is None else None
        write_output(
            lambda out: shown.show(out, mode if rows_file is None else "table", unit_of(args), args.digits), path
        )
    for row in result.failed if rows_file or isinstance(sys.stdout, Screen) else ():
        print_message(f"costcore: {row.label} failed: {row.status}")
    sys.stdout.flush()
    if args.scatter is not None:
        result.scatter(*args.scatter)


def _columns(args: argparse.Namespace) -> list[str] | None:
    """Return the figures of a row: those of ``--columns``, and those that ``--pareto`` compares."""
    asked = names_in(args.columns)
    compared = [name.removeprefix(LARGE) for name in names_in([args.pareto] if args.pareto else None)]
    if not compared:
        return asked or None
    return [*dict.fromkeys([*(asked or DEFAULT_COLUMNS), *filter(is_quantity, compared)])]


def _default_jobs(models: Sequence[NamedModel]) -> int | None:
    """Return 1, a process beside this one, if code is run that may end its process; None for files, which are read."""
    return None if all(reader_of(named.model) or is_saved_report(named.model) for named in models) else 1


def _named_models(text: str, inputs: Any) -> list[NamedModel]:
    """Return name, target, inputs and arguments of ``MODEL[@SHAPE]``; several if the target has a grid."""
    match = _WITH_SHAPE.fullmatch(text)
    own_inputs = parse_inputs([match[2]]) if match else inputs
    target, grid = split_target(match[1] if match else text)
    if grid is not None:
        return variants(target, grid, own_inputs)
    check_model(target)
    return [NamedModel(text, target, own_inputs)]
