"""The reports of the models and saved reports that a command is given."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from costcore.api.estimate import estimate
from costcore.api.input_notation import input_arguments
from costcore.api.load_model import (
    check_target,
    evaluate,
    load_model,
    module_search_path,
    parse_dims,
    parse_inputs,
    parse_shapes,
)
from costcore.cli.options import files_with, flag_of
from costcore.cli.running import print_message
from costcore.errors import CostError, CostWarning, MissingInputsError, UnknownOptionError
from costcore.registry.frontends import applicable_options
from costcore.registry.libraries import (
    TRAIN_MODE,
    costs_more_in_training,
    is_saved_report,
    library_target,
    usual_inputs,
)
from costcore.reports.caveats import n_assumptions
from costcore.reports.report import Report
from costcore.reports.serialization.saved import saved_report


def spelled_for(convention: str | None) -> bool:
    """Return whether a convention needs the functions by which calls were spelled.

    Raises:
        ValueError: if there is no convention of that name.
        CostError, OSError: if a file with rules cannot be read.
    """
    if convention is None:
        return False
    from costcore.counting.conventions.catalog import named

    return named(convention).needs_functions


def check_model(target: str) -> None:
    """Check that ``target`` names a model or a saved report.

    Raises:
        ValueError: if it does not; the message lists the forms.
    """
    if not is_saved_report(target):
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
    if is_saved_report(target):
        return saved_report(target, not args.no_fma, parse_dims(args.dim), is_alone)
    parsed = parse_inputs(args.input if inputs is None else inputs)
    with module_search_path(args.python_path, target), printed_warnings(target, is_quiet):
        model = load_model(target)
        _choose_mode(model, args, target, is_quiet)
        options = estimate_options(args) if is_alone else applicable_options(target, model, estimate_options(args))
        parsed = given_or_usual(parsed, model, target, is_quiet)
        try:
            report = estimate(model, parsed, progress=progress, **options)
        except MissingInputsError as error:
            raise CostError(f"{target}: {missing_inputs(error)}") from error
        except UnknownOptionError as error:
            raise ValueError(_unknown_options(target, error)) from error
        except CostError as error:
            if parsed is not None or isinstance(model, str):
                raise
            raise CostError(f"{error}; no --input was given") from error
    if report.assumptions:
        print_message(f"costcore: {target}: assumed: the totals depend on {n_assumptions(report.trace)}")
    return report


@contextmanager
def printed_warnings(target: str, is_quiet: bool = False) -> Iterator[None]:
    """Print warnings to standard error, those of costcore as a line each, after what runs inside has succeeded."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CostWarning)
        yield
    for warning in () if is_quiet else caught:
        if issubclass(warning.category, CostWarning):
            print_message(f"costcore: {target}: {warning.message}")
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def _choose_mode(model: Any, args: argparse.Namespace, target: str, is_quiet: bool) -> None:
    """Put a model into the mode that the options ask for; otherwise say that it is in train mode if that costs more."""
    is_step = args.backward or args.optimizer is not None
    if getattr(args, "eval", False):
        evaluate(model)
    elif getattr(args, "memory", False) or getattr(args, "train", False) or (is_step and library_target(target)):
        set_mode(model, is_step, target, is_quiet)
    elif getattr(args, "as_published", False) and not args.backward:
        evaluate(model)
    elif not (is_step or is_quiet) and costs_more_in_training(model):
        print_message(f"costcore: {target}: {TRAIN_MODE} (--eval: evaluation mode)")


def set_mode(model: Any, is_training: bool, target: str, is_quiet: bool = False) -> None:
    """Put a model that has modes into train mode or evaluation mode, in which its cost differs, and say which."""
    if callable(getattr(model, "train", None)):
        model.train(is_training)
        mode = "train mode" if is_training else "evaluation mode (--train: a training step, in train mode)"
        if not is_quiet:
            print_message(f"costcore: {target}: {mode}")


def given_or_usual(inputs: Any, model: Any, target: str, is_quiet: bool = False) -> Any:
    """Return the inputs of ``--input``; without any the usual ones of a model of a library, which a line states."""
    usual = usual_inputs(model, target) if inputs is None else None
    if usual is None:
        return inputs
    if not is_quiet:
        print_message(f"costcore: {target}: the usual input is used, {input_arguments(usual.inputs)} ({usual.source})")
    return usual.inputs


def missing_inputs(error: MissingInputsError) -> str:
    """Return the message for a model that needs inputs, with arguments that give them."""
    example = "" if error.example is None else f" For example {input_arguments(error.example)}"
    return f"the model needs inputs. {error.takes}{example}"


def _unknown_options(target: str, error: UnknownOptionError) -> str:
    """Return the message for options of the command line that do not apply to the model."""
    flags = ", ".join(map(flag_of, error.options))
    files = ", ".join(dict.fromkeys(filter(None, map(files_with, error.options))))
    hint = f"; expected a file of type {files}" if files else ""
    if "memory" in error.options:
        hint += "; --arena shows the memory of an inference"
    return f"{target}: {flags} cannot be used with the {error.frontend} frontend{hint}"


def progress(items: Iterable[Any], description: str) -> Iterable[Any]:
    """Show a progress bar on standard error if that is a terminal and the work takes longer than a second."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    bar: Iterable[Any] = tqdm(items, desc=description, delay=1.0, leave=False, file=sys.stderr)
    return bar
