"""What the commands that take models share: their options, and the report of a model, a factory or a saved report."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from costcore.errors import CostError, CostWarning
from costcore.estimating import estimate
from costcore.loading import INPUT_FORMS, check_target, load_model, looking_in, parse_dims, parse_inputs
from costcore.reports.renderers import printable
from costcore.reports.report import Report
from costcore.reports.saved import saved_report

GOOD, PROBLEM, USAGE, INTERRUPTED = 0, 1, 2, 130

ONNX_FLAGS = {"dims": "--dim", "regroup": "--regroup", "check_shapes": "--check-shapes"}
"""The options for ONNX models by the argument of :func:`costcore.estimate` that they are."""

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
        help="a named dimension (ONNX, saved reports); may be repeated",
    )
    parser.add_argument("--backward", action="store_true", help="count the backward pass too (PyTorch, Chainer)")
    parser.add_argument(
        "--regroup", action="store_true", help="count what exporters spell out as the operator it was (ONNX)"
    )
    parser.add_argument(
        "--check-shapes", action="store_true", help="ask onnx for its shapes too, tell differences (ONNX)"
    )
    parser.add_argument("--no-fma", action="store_true", help="count a fused multiply-add as two FLOPs")
    parser.add_argument(
        "--layout", default="framework", choices=["framework", "free"], help="free: moving data costs nothing"
    )
    parser.add_argument(
        "--python-path", action="append", default=[], metavar="DIR", help="a folder of modules, beside the current one"
    )


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


def options_of(given: argparse.Namespace, target: str, is_alone: bool = False) -> dict[str, Any]:
    """The keyword arguments of :func:`costcore.estimate` that the command line asks for.

    What is for ONNX only is left out for the other models of a command; a model that ``is_alone`` is to refuse it.

    Raises:
        ValueError: for a ``--dim`` of another form.
    """
    options: dict[str, Any] = {"fma_1flop": not given.no_fma, "layout": given.layout}
    if is_alone or target.endswith(".onnx"):
        if given.dim:
            options["dims"] = parse_dims(given.dim)
        options |= {name: True for name in ("regroup", "check_shapes") if getattr(given, name)}
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
        is_alone: whether this is the only model of the command, see :func:`options_of`.

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
        options = options_of(given, target, is_alone)
        try:
            report = estimate(model, parsed, progress=progress, **options)
        except CostError as error:
            if parsed is not None or isinstance(model, str):
                raise
            raise CostError(f"{error}; no --input was given") from error
        except TypeError as error:
            flags = [flag for name, flag in ONNX_FLAGS.items() if name in options and name in str(error)]
            if not flags:
                raise
            raise TypeError(f"{', '.join(flags)} (ONNX only) cannot be used for {target}: {error}") from error
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
