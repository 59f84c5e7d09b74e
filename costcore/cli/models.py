"""The code that all commands share: options for models, and reports of models and saved reports."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from costcore.api.estimate import estimate
from costcore.api.load_model import (
    INPUT_FORMS,
    check_target,
    evaluate,
    load_model,
    module_search_path,
    parse_dims,
    parse_inputs,
    parse_shapes,
)
from costcore.counting.conventions.catalog import named
from costcore.errors import CostError, CostWarning, UnknownOptionError
from costcore.fusion.groups import LEVELS
from costcore.messages import did_you_mean
from costcore.registry.frontends import applicable_options, specs
from costcore.reports.caveats import n_assumptions
from costcore.reports.report import Report
from costcore.reports.serialization.saved import saved_report
from costcore.reports.serialization.targets import save, save_output
from costcore.reports.text.escape import printable
from costcore.reports.text.units import UNITS

SUCCESS, FAILURE, USAGE_ERROR, INTERRUPTED = 0, 1, 2, 130
"""The exit codes."""

FLAGS_WITH_VALUES = {"dims": "--dim", "shapes": "--shape", "max_nodes": "--max-nodes"}
"""The flags of frontend options that take a value; all other frontend options are switches."""

MAX_MESSAGE_LENGTH = 10_000
"""The maximum number of characters of a message: names in a model can have any length."""

MODEL = "an .onnx file, package.module:factory, file.py:factory, or a report saved as .json"


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments of a command; unknown ones are an error that suggests near matches."""
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        flags = re.findall(r"--[a-z-]+", parser.format_help())
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(unknown, flags)}")
    return args


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the inputs of a model and for how it is counted."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPE",
        help=f"shape or value of an input: {INPUT_FORMS}; may be repeated",
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help=f"value of a symbolic dimension ({files_with('dims')}, saved reports); may be repeated",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help=f"shape of a value whose shape cannot be inferred, as batch,8 or 1x8 ({files_with('shapes')}); may be "
        "repeated",
    )
    parser.add_argument(
        "--max-nodes",
        type=int,
        metavar="N",
        help=f"most nodes that functions, loops and branches expand to ({files_with('max_nodes')}); default: 100000",
    )
    parser.add_argument("--backward", action="store_true", help="count the backward pass too (PyTorch, Chainer)")
    parser.add_argument(
        "--optimizer",
        metavar="NAME",
        help="count a training step with this optimizer: sgd, sgd_momentum, adam, adamw (PyTorch); implies --backward",
    )
    parser.add_argument("--no-fma", action="store_true", help="count a fused multiply-add as two FLOPs")
    parser.add_argument(
        "--layout",
        default="framework",
        choices=["framework", "free"],
        help="free: ignore data movement (transposition, slicing, copies); default: framework",
    )
    parser.add_argument(
        "--python-path",
        action="append",
        default=[],
        metavar="DIR",
        help="folder to search for modules, in addition to the current one; may be repeated",
    )


def add_frontend_switches(parser: argparse.ArgumentParser) -> None:
    """Add the switches of frontends, after all other options of the command.

    Raises:
        CostError: if the command already has an option of that name.
    """
    parser.set_defaults(frontend_options=[])
    added: set[str] = set()
    for spec in specs().values():
        names = [name for name in spec.options if name not in FLAGS_WITH_VALUES and name not in added]
        if not names:
            continue
        added.update(names)
        group = parser.add_argument_group(f"options for {' and '.join(spec.suffixes)} files")
        for name in names:
            try:
                group.add_argument(
                    flag_of(name),
                    dest="frontend_options",
                    action="append_const",
                    const=name,
                    help=spec.options[name],
                )
            except argparse.ArgumentError as error:
                raise CostError(f"the {spec.name} frontend cannot have an option {name!r}: {error}") from error


def add_convention(parser: argparse.ArgumentParser) -> None:
    """Add ``--convention``."""
    parser.add_argument(
        "--convention",
        metavar="NAME",
        help="count FLOPs as another tool does: a name that `costcore conventions` lists, or a .toml file with rules",
    )


def add_fused(parser: argparse.ArgumentParser) -> None:
    """Add ``--fused``."""
    parser.add_argument(
        "--fused",
        choices=LEVELS,
        help="bytes that are left after fusion. pointwise: element-wise operators, reductions and copies in one loop; "
        "compiler: also after the matrix product before them; default: bytes of every operator by itself",
    )


def spelled_for(convention: str | None) -> bool:
    """Return whether a convention needs the functions by which calls were spelled.

    Raises:
        ValueError: if there is no convention of that name.
        CostError, OSError: if a file with rules cannot be read.
    """
    return convention is not None and named(convention).needs_functions


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add ``--unit``; ``none`` stands for exact numbers."""
    parser.add_argument(
        "--unit",
        default="autoaligned",
        choices=["none", *filter(None, UNITS)],
        help="prefix of the numbers; default: autoaligned, one prefix per column",
    )


def add_digits(parser: argparse.ArgumentParser, default: int) -> None:
    """Add ``--digits``."""
    parser.add_argument(
        "--digits",
        type=int,
        default=default,
        metavar="N",
        help=f"digits after the decimal point, 0 to 10; default: {default}",
    )


def unit_of(args: argparse.Namespace) -> str | None:
    """Return the unit of numbers as :meth:`Report.show_report` takes it."""
    return None if args.unit == "none" else str(args.unit)


def files_with(option: str) -> str:
    """Return the suffixes of the files that an option applies to."""
    return ", ".join(suffix for spec in specs().values() if option in spec.options for suffix in spec.suffixes)


def flag_of(option: str) -> str:
    """Return the flag of an option of a frontend, such as ``--check-shapes``."""
    return FLAGS_WITH_VALUES.get(option, f"--{option.replace('_', '-')}")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str], default: str, suffixes: Sequence[str]) -> None:
    """Add ``--format`` and ``--output``; each of ``suffixes`` stands for the format of that name."""
    parser.add_argument("--format", choices=sorted(formats), help=f"default: {default}")
    parser.add_argument(
        "--output", metavar="FILE", help=f"write to FILE, in the format of its suffix: {', '.join(suffixes)}"
    )


def format_of(args: argparse.Namespace, default: str, suffixes: Sequence[str]) -> str:
    """Return the output format.

    Raises:
        ValueError: if the output file has another suffix, or ``--format`` is given for a file.
    """
    if args.output is None:
        return str(args.format or default)
    if args.format is not None:
        raise ValueError("--format is for standard output. With --output, the suffix of the file selects the format.")
    suffix = Path(args.output).suffix
    if suffix not in suffixes:
        raise ValueError(f"--output {args.output!r} has an unknown suffix (expected one of {', '.join(suffixes)})")
    return suffix[1:]


def write_output(show: Callable[[IO[str]], None], path: str | None) -> None:
    """Call ``show`` with standard output, or with the file of that path."""
    if path is None:
        show(sys.stdout)
    else:
        save_output(show, path)


def write_text(text: str, path: str | None) -> None:
    """Write a text to standard output, or to the file of that path."""
    save(text, sys.stdout if path is None else path)


def check_model(target: str) -> None:
    """Check that ``target`` names a model or a saved report.

    Raises:
        ValueError: if it does not; the message lists the forms.
    """
    if not target.endswith(".json"):
        check_target(target)


def estimate_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of :func:`costcore.estimate`.

    Raises:
        ValueError: if a ``--dim`` or ``--shape`` is invalid.
    """
    options: dict[str, Any] = {"fma_1flop": not args.no_fma, "layout": args.layout}
    options |= dict.fromkeys(args.frontend_options, True)
    if getattr(args, "spelled", False):
        options["spelled"] = True
    if args.dim:
        options["dims"] = parse_dims(args.dim)
    if args.shape:
        options["shapes"] = parse_shapes(args.shape)
    if args.max_nodes is not None:
        options["max_nodes"] = args.max_nodes
    if args.backward:
        options["backward"] = True
    if args.optimizer is not None:
        options["optimizer"] = args.optimizer
    if getattr(args, "memory", False):
        options["memory"] = True
    return options


def report_of(
    target: str,
    args: argparse.Namespace,
    inputs: list[str] | None = None,
    is_alone: bool = False,
    is_quiet: bool = False,
) -> Report:
    """Return the report of a model or a saved report; warnings are printed to standard error.

    For a saved report, only ``--no-fma`` and ``--dim`` have an effect.

    Args:
        target: see :data:`MODEL`.
        args: the parsed options of :func:`add_model_options` and :func:`add_frontend_switches`.
        inputs: arguments that replace those of ``--input``.
        is_alone: whether this is the only model of the command. If it is not, options for files of another type are
            ignored instead of refused.
        is_quiet: whether warnings are not printed.

    Raises:
        CostError, OSError: if a model or file cannot be read.
        TypeError, ValueError: if an option does not apply to the model.
    """
    if target.endswith(".json"):
        return saved_report(target, not args.no_fma, parse_dims(args.dim), is_alone)
    parsed = parse_inputs(args.input if inputs is None else inputs)
    with module_search_path(args.python_path, target), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CostWarning)
        model = load_model(target)
        if getattr(args, "as_published", False) and not args.backward:
            evaluate(model)
        options = estimate_options(args) if is_alone else applicable_options(target, estimate_options(args))
        try:
            report = estimate(model, parsed, progress=progress, **options)
        except UnknownOptionError as error:
            raise ValueError(_unknown_options(target, error)) from error
        except CostError as error:
            if parsed is not None or isinstance(model, str):
                raise
            raise CostError(f"{error}; no --input was given") from error
    for warning in () if is_quiet else caught:
        print_message(f"costcore: {target}: {warning.message}")
    if report.assumptions:
        print_message(f"costcore: {target}: assumed: the totals depend on {n_assumptions(report.trace)}")
    return report


def _unknown_options(target: str, error: UnknownOptionError) -> str:
    """Return the message for options of the command line that do not apply to the model."""
    flags = ", ".join(map(flag_of, error.options))
    files = ", ".join(dict.fromkeys(filter(None, map(files_with, error.options))))
    hint = f"; expected a file of type {files}" if files else ""
    if "memory" in error.options:
        hint += "; --arena shows the memory of an inference"
    return f"{target}: {flags} cannot be used with the {error.frontend} frontend{hint}"


def run_command(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, action: Callable[[argparse.Namespace], int]
) -> int:
    """Run the ``action`` of a command with its arguments and return its exit code; an error has no traceback."""
    args = parse_arguments(parser, argv)
    try:
        code = action(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # avoids another error at exit
        return SUCCESS
    except (CostError, OSError) as error:
        print_message(f"costcore: {error}")
        return FAILURE
    except (TypeError, ValueError) as error:
        parser.error(str(error))


def print_message(text: str) -> None:
    """Print to standard error. Control characters, which may be in names of a model, are escaped."""
    shown = "\n".join(map(printable, text.split("\n")))
    print(shown if len(shown) <= MAX_MESSAGE_LENGTH else shown[: MAX_MESSAGE_LENGTH - 1] + "…", file=sys.stderr)


def progress(items: Iterable[Any], description: str) -> Iterable[Any]:
    """Show a progress bar on standard error if that is a terminal and the work takes longer than a second."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    bar: Iterable[Any] = tqdm(items, desc=description, delay=1.0, leave=False, file=sys.stderr)
    return bar
