"""What the commands that take models share: their options, and the report of a model, a factory or a saved report."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from costcore.api.estimate import estimate
from costcore.api.load_model import (
    INPUT_FORMS,
    check_target,
    load_model,
    looking_in,
    parse_dims,
    parse_inputs,
    parse_shapes,
)
from costcore.errors import CostError, CostWarning
from costcore.registry.frontends import fitting, specs
from costcore.reports.report import Report
from costcore.reports.serialization.saved import saved_report
from costcore.reports.serialization.targets import written
from costcore.reports.text.escape import printable

GOOD, PROBLEM, USAGE, INTERRUPTED = 0, 1, 2, 130

WITH_VALUES = {"dims": "--dim", "shapes": "--shape"}
"""How options of frontends that take a name and a value are spelled; all others are switches."""

SWITCH = "switch "
"""What stands before the name of an option of frontends where parsed arguments are kept."""

LONGEST_MESSAGE = 10_000
"""Longer messages are cut (characters): a name in a model can be of any length."""

MODEL = "an .onnx file, package.module:factory, file.py:factory, or a report saved as .json"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what a model is run on and how it is counted."""
    parser.add_argument(
        "--input", action="append", default=[], metavar="SHAPE", help=f"an input: {INPUT_FORMS}; may be repeated"
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help=f"a named dimension ({files_with('dims')}, saved reports); may be repeated",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help=f"the shape, batch,8 or 1x8, of a value inside the model ({files_with('shapes')}); may be repeated",
    )
    parser.add_argument("--backward", action="store_true", help="count the backward pass too (PyTorch, Chainer)")
    parser.add_argument("--no-fma", action="store_true", help="count a fused multiply-add as two FLOPs")
    parser.add_argument(
        "--layout", default="framework", choices=["framework", "free"], help="free: moving data costs nothing"
    )
    parser.add_argument(
        "--python-path", action="append", default=[], metavar="DIR", help="a folder of modules, beside the current one"
    )


def add_switches(parser: argparse.ArgumentParser) -> None:
    """The options of frontends, each described as the first that has it does; after all others of the command.

    Raises:
        CostError: where the command has an option of that name.
    """
    group = parser.add_argument_group("options of files that frontends read")
    for name in switches():
        first = next(spec for spec in specs().values() if name in spec.options)
        text = f"{first.options[name]} ({files_with(name)})"
        try:
            group.add_argument(flag_of(name), dest=SWITCH + name, action="store_true", help=text)
        except argparse.ArgumentError as error:
            raise CostError(f"the {first.name} frontend cannot have an option {name!r}: {error}") from error


def files_with(option: str) -> str:
    """How the names of files end that take an option."""
    return ", ".join(suffix for spec in specs().values() if option in spec.options for suffix in spec.suffixes)


def flag_of(option: str) -> str:
    """How the command line spells an option of a frontend: ``--check-shapes``."""
    return WITH_VALUES.get(option, f"--{option.replace('_', '-')}")


def switches() -> list[str]:
    """The options of frontends that the command line has as switches."""
    return [*dict.fromkeys(name for spec in specs().values() for name in spec.options if name not in WITH_VALUES)]


def switched_on(given: argparse.Namespace) -> list[str]:
    """Those of them that the command line gives."""
    return [name for name in switches() if getattr(given, SWITCH + name)]


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str], default: str, suffixes: Sequence[str]) -> None:
    """``--format`` and ``--output``, whose ``suffixes`` are those of formats of the same name."""
    parser.add_argument("--format", choices=sorted(formats), help=f"default: {default}")
    parser.add_argument("--output", metavar="FILE", help=f"write there instead; {', '.join(suffixes)}")


def format_of(given: argparse.Namespace, default: str, suffixes: Sequence[str]) -> str:
    """The format that the command line asks for.

    Raises:
        ValueError: for a file of another suffix, or beside ``--format``.
    """
    if given.output is None:
        return str(given.format or default)
    if given.format is not None:
        raise ValueError("--format is for standard output; the suffix of --output decides its own")
    suffix = Path(given.output).suffix
    if suffix not in suffixes:
        raise ValueError(f"--output {given.output!r} does not end in one of {', '.join(suffixes)}")
    return suffix[1:]


def put_out(show: Callable[[IO[str]], None], path: str | None) -> None:
    """Show on standard output, or in the file of that path."""
    if path is None:
        show(sys.stdout)
    else:
        written(show, path)


def check_model(target: str) -> None:
    """Refuse what names neither a model nor a saved report.

    Raises:
        ValueError: saying what is accepted.
    """
    if target.endswith(".json"):
        return
    try:
        check_target(target)
    except ValueError as error:
        raise ValueError(f"{error}, or a report saved as .json") from error


def options_of(given: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of :func:`costcore.estimate` that the command line asks for.

    Raises:
        ValueError: for a ``--dim`` or ``--shape`` of another form.
    """
    options: dict[str, Any] = {"fma_1flop": not given.no_fma, "layout": given.layout}
    options |= dict.fromkeys(switched_on(given), True)
    if given.dim:
        options["dims"] = parse_dims(given.dim)
    if given.shape:
        options["shapes"] = parse_shapes(given.shape)
    if given.backward:
        options["backward"] = True
    return options


def report_of(
    target: str, given: argparse.Namespace, inputs: list[str] | None = None, is_alone: bool = False
) -> Report:
    """The report of what ``target`` names; warnings go to standard error as sentences.

    A saved report is read as it is, but for ``--no-fma`` and ``--dim``, which hold for it too.

    Args:
        target: see :data:`MODEL`.
        given: the parsed :func:`add_model_options`.
        inputs: instead of ``--input``.
        is_alone: whether this is the only model of the command: beside others it is not given, and so does not refuse,
            what only files of another kind take.

    Raises:
        CostError, OSError: for a model or file that cannot be read; says which and why.
        TypeError, ValueError: for an option that does not fit it.
    """
    if target.endswith(".json"):
        return saved_report(target, not given.no_fma, parse_dims(given.dim), is_alone)
    parsed = parse_inputs(given.input if inputs is None else inputs)
    with looking_in(given.python_path, target), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CostWarning)
        model = load_model(target)
        options = options_of(given) if is_alone else fitting(target, options_of(given))
        try:
            report = estimate(model, parsed, progress=progress, **options)
        except CostError as error:
            if parsed is not None or isinstance(model, str):
                raise
            raise CostError(f"{error}; no --input was given") from error
        except TypeError as error:
            refused = [name for name in options.keys() - fitting(target, options).keys() if name in str(error)]
            if not refused:
                raise
            flags = ", ".join(map(flag_of, sorted(refused)))
            raise TypeError(f"{flags} cannot be used for {target}: {error}") from error
    for warning in caught:
        tell(f"costcore: {target}: {warning.message}")
    return report


def run_command(parser: argparse.ArgumentParser, action: Any) -> int:
    """Run a command's ``action``: its exit code, and for what it refuses a sentence and code 1, or 2 for arguments."""
    try:
        code = int(action())
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # keeps the interpreter quiet at exit
        return GOOD
    except (CostError, OSError) as error:
        tell(f"costcore: {error}")
        return PROBLEM
    except (TypeError, ValueError) as error:
        parser.error(str(error))


def tell(text: str) -> None:
    """Write to standard error. Names in it come from models: what a terminal would obey is spelled out."""
    shown = "\n".join(map(printable, text.split("\n")))
    print(shown if len(shown) <= LONGEST_MESSAGE else shown[: LONGEST_MESSAGE - 1] + "…", file=sys.stderr)


def progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """A progress bar on standard error, where that is a terminal and the work takes longer than a second."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    bar: Iterable[Any] = tqdm(items, desc=what, delay=1.0, leave=False, file=sys.stderr)
    return bar
