"""From the command line to a report: modes, inputs and options of models and saved reports."""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from costcore.api.estimate import (
    check_report,
    check_target,
    estimate,
    finetuned,
    has_modes,
    in_mode,
    load_model,
    load_object,
    module_search_path,
)
from costcore.api.hook import input_arguments, parse_dims, parse_inputs, parse_shapes, saved_report
from costcore.cli.options import files_with, flag_of, mesh_of
from costcore.cli.running import print_message, waiting
from costcore.errors import CostError, CostWarning, MissingInputsError, UnknownOptionError
from costcore.ledger.ledger import EVALUATION, TRAIN, n_assumptions, remarks_on_mode
from costcore.registry import applicable_options, costs, default_inputs, frontend_for_file, is_saved_report, specs
from costcore.reports.report import Report
from costcore.tables.renderers import progress


def check_model(target: str, why_no_report: str = "") -> None:
    """Check that ``target`` names a model or a saved report.

    Args:
        target: see :func:`costcore.cli.options.model_forms`.
        why_no_report: why the command cannot use a saved report; empty if it can.

    Raises:
        ValueError: if it does not; the message lists the forms.
    """
    if not is_saved_report(target):
        check_target(target)
    elif why_no_report:
        raise ValueError(f"{target!r} is a saved report, {why_no_report}. Pass the model.")


def is_training_step(args: argparse.Namespace) -> bool:
    """Return whether the options request a training step."""
    return bool(args.backward or args.train or args.optimizer is not None or getattr(args, "is_step", False))


def requested_mode(args: argparse.Namespace) -> str | None:
    """Return the mode requested by ``--train`` or ``--eval``; None to keep the mode of the model.

    Raises:
        ValueError: if both are given.
    """
    if args.train and args.eval:
        raise ValueError("--train cannot be used with --eval")
    return TRAIN if args.train else EVALUATION if args.eval else None


def estimate_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of :func:`costcore.estimate`.

    Raises:
        ValueError: if a ``--dim`` or ``--shape`` is invalid.
    """
    options: dict[str, Any] = {"fma_1flop": args.fma_1flop, "layout": args.layout}
    options |= dict(args.frontend_options)
    if getattr(args, "record_api_calls", False):
        options["record_api_calls"] = True
    if args.dim:
        options["dims"] = parse_dims(args.dim)
    if args.shape:
        options["shapes"] = parse_shapes(args.shape)
    for name in ("max_nodes", "et", "profiler_step", "graphs", "checkpoint", "precision"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    if args.backward or args.train or getattr(args, "is_step", False):
        options["backward"] = True
    if args.optimizer is not None:
        options["optimizer"] = args.optimizer
    if getattr(args, "memory", False):
        options["memory"] = True
    if str(getattr(args, "output", "")).endswith(".html"):  # the page shows the line of a call
        options["tracebacks"] = True
    if getattr(args, "nonzero", False):
        options["nonzero"] = True
    if getattr(args, "attention", "all") != "all":
        options["attention"] = args.attention
    if getattr(args, "cuda", False):
        options["device"] = "cuda"
    if targets := getattr(args, "calculator", ()):
        options["calculators"] = [_calculator(target) for target in targets]
    return options | _distribution(args)


def _calculator(target: str) -> Any:
    found = load_object(target)
    if not isinstance(found, costs) and not hasattr(found, "costs_of"):
        raise ValueError(f"--calculator {target} has no operator. Decorate it with @costcore.costs(…)")
    return found


def _distribution(args: argparse.Namespace) -> dict[str, Any]:
    if (args.mesh is None) != (args.plan is None):
        raise ValueError("--mesh and --plan need each other: the processes, and how the model is distributed over them")
    if args.mesh is None:
        return {}
    return {"mesh": mesh_of(args.mesh), "plan": load_object(args.plan) if re.search("[:.]", args.plan) else args.plan}


def record_needed(args: argparse.Namespace, needs: Mapping[str, Any], target: str = "") -> None:
    """Turn on the recordings that quantities need.

    Args:
        args: the options, which :func:`report_of` reads.
        needs: the options of :func:`costcore.estimate` that they need.
        target: the only model; its memory is recorded if its frontend can.
    """
    reader = frontend_for_file(target) if target else ""
    args.record_api_calls = getattr(args, "record_api_calls", False) or "record_api_calls" in needs
    args.nonzero = "nonzero" in needs
    has_memory = not reader or "memory" in specs()[reader].model_options
    args.memory = getattr(args, "memory", False) or ("memory" in needs and has_memory)


def report_of(
    target: str,
    args: argparse.Namespace,
    inputs: list[str] | None = None,
    is_alone: bool = False,
    is_quiet: bool = False,
) -> Report:
    """Return the report of a model or a saved report; warnings are printed to standard error.

    For a saved report, only ``--no-fma-1flop`` and ``--dim`` have an effect.

    Args:
        target: see :func:`costcore.cli.options.model_forms`.
        args: the parsed options of :func:`add_model_options` and :func:`add_frontend_switches`.
        inputs: arguments instead of ``--input``.
        is_alone: whether this is the only model of the command. With several models, options for files of another type
            are ignored.
        is_quiet: whether warnings are not printed.

    Raises:
        CostError, OSError: if a model or file cannot be read.
        TypeError, ValueError: if an option does not apply to the model.
    """
    requested_mode(args)
    if is_saved_report(target):
        if is_alone:
            _check_options_of_report(target, args)
        report = saved_report(target, args.fma_1flop, parse_dims(args.dim), is_alone)
        _check_and_print_mode(report, None, target, args, is_quiet)
        return report
    parsed = parse_inputs(args.input if inputs is None else inputs)
    with module_search_path(args.python_path, target), printed_warnings(target, is_quiet):
        model = loaded(target, args)
        put_in_mode(model, target, args, is_quiet)
        options = estimate_options(args) if is_alone else applicable_options(target, model, estimate_options(args))
        parsed = inputs_or_default(args, parsed, model, target, is_quiet)
        try:
            report = estimate(model, parsed, progress=progress, **options)
        except MissingInputsError as error:
            raise CostError(f"{target}: {missing_inputs(error, args)}") from error
        except UnknownOptionError as error:
            raise ValueError(unknown_options(target, error)) from error
        except CostError as error:
            if hint := _hint(error, args.input if inputs is None else inputs, args):
                raise CostError(hint) from error
            if parsed is not None or isinstance(model, str):
                raise
            raise CostError(f"{error}; no --input was given") from error
    _check_and_print_mode(report, model, target, args, is_quiet)
    if report.assumptions:
        print_message(f"costcore: {target}: assumed: the totals depend on {n_assumptions(report.trace)}")
    return report


def _hint(error: CostError, texts: Sequence[str], args: argparse.Namespace) -> str:
    # A message if a misread --input explains the error; else empty.
    first = str(error).partition("\n")[0]
    lists = [text for text in texts if re.fullmatch(r"([^=]+:?=)?\[\d+(,\s*\d+)+\]", text)]
    if lists and "list" in first:
        name, equals, value = lists[0].rpartition("=")
        shape = "x".join(re.findall(r"\d+", value))
        what, argument = first.partition(" - got (")[0], f"{name.removesuffix(':')}{equals}{shape}"
        return f"{what}. {value} are values; for a shape: --input {argument}"
    if getattr(args, "seq", None) and "unexpected keyword argument 'input_ids'" in first:
        return f"{first}. --seq is the input of language models: pass the shape of this one, --input 1x3x224x224"
    return ""


def _check_and_print_mode(report: Report, model: Any, target: str, args: argparse.Namespace, is_quiet: bool) -> None:
    mode = requested_mode(args)
    check_report(report, model, target, mode, is_training_step(args))
    for remark in () if is_quiet or mode else remarks_on_mode(report.trace):
        other = f" (--train: {TRAIN} mode)" if is_training_step(args) else f" (--eval: {EVALUATION} mode)"
        print_message(f"costcore: {target}: {remark}{other if has_modes(model) else ''}")


def _check_options_of_report(target: str, args: argparse.Namespace) -> None:
    # These options have no effect on a saved report, which is counted already.
    flags = {
        **{flag_of(name): getattr(args, name) for name in ("input", "shape", "backward", "train", "optimizer")},
        **{flag_of(name): getattr(args, name) for name in ("max_nodes", "et")},
        "--profiler-step": args.profiler_step is not None,
        "--graphs": args.graphs,
        "--layout": args.layout != "framework",
        **{flag_of(name): getattr(args, name) for name in ("checkpoint", "precision", "mesh", "plan", "calculator")},
        **{flag_of(name): getattr(args, name) is not None for name in ("lora", "dora", "quantize")},
        "--cuda": args.cuda,
        "--attention": getattr(args, "attention", "all") != "all",
        **{flag_of(name): True for name, _ in args.frontend_options},
    }
    if given := [flag for flag, value in flags.items() if value]:
        raise ValueError(f"{target}: {', '.join(given)} cannot be used with a saved report")


@contextmanager
def printed_warnings(target: str, is_quiet: bool = False) -> Iterator[None]:
    """Context manager: on success, print warnings to standard error, warnings of costcore as one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CostWarning)
        yield
    for warning in () if is_quiet else caught:
        if issubclass(warning.category, CostWarning):
            print_message(f"costcore: {target}: {warning.message}")
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def model_to_capture(args: argparse.Namespace, what: str = "") -> Iterator[Any]:
    """Context manager: load the model of a command, and show on a terminal how long its capture takes."""
    paths = module_search_path(args.python_path, args.model)
    with paths, printed_warnings(args.model), waiting(f"capturing {what}{args.model}"):
        model = loaded(args.model, args)
        try:
            yield model
        except CostError as error:
            if hint := _hint(error, args.input, args):
                raise CostError(hint) from error
            raise


def loaded(target: str, args: argparse.Namespace) -> Any:
    """Return the model of a target, with the adapters that the options request.

    Raises:
        CostError: if the model cannot be made, or takes no adapters.
        ValueError: if the options contradict each other.
    """
    lora, dora = getattr(args, "lora", None), getattr(args, "dora", None)
    if lora is None and dora is None:
        for name in ("lora_targets", "quantize"):
            if getattr(args, name, None) is not None:
                raise ValueError(f"--{name.replace('_', '-')} needs --lora RANK or --dora RANK")
        return load_model(target)
    if lora is not None and dora is not None:
        raise ValueError("--lora cannot be used with --dora")
    kind = "dora" if lora is None else "lora"
    names = [name.strip() for name in (args.lora_targets or "").split(",") if name.strip()]
    return finetuned(load_model(target), getattr(args, kind), names, kind, args.quantize)


def put_in_mode(model: Any, target: str, args: argparse.Namespace, is_quiet: bool = False) -> None:
    """Put a model into the requested mode, see :func:`in_mode`; train mode is announced."""
    if in_mode(model, target, requested_mode(args), is_training_step(args)) == TRAIN and not is_quiet:
        print_message(f"costcore: {target}: {TRAIN} mode")


def inputs_or_default(args: argparse.Namespace, inputs: Any, model: Any, target: str, is_quiet: bool = False) -> Any:
    """Return the inputs of ``--input``, or the default inputs of a library model, which are announced and on pages."""
    default = default_inputs(model, target) if inputs is None else None
    args.default_input = "" if default is None else input_arguments(default.inputs)
    if default is None:
        return inputs
    if not is_quiet:
        print_message(f"costcore: {target}: using default input {args.default_input} ({default.source})")
    return default.inputs


def missing_inputs(error: MissingInputsError, args: argparse.Namespace) -> str:
    """Return the message for a model that needs inputs, with a command line that gives them."""
    if error.example is not None:
        example, what = input_arguments(error.example), ""
    else:
        names = error.names if len(error.names) > 1 else ()
        example = " ".join(f"--input {name}=SHAPE" for name in names) or "--input SHAPE"
        what = " (SHAPE: 1x3x224x224 for images, 1x128:int64 for tokens)"
    import shlex  # few runs have an error

    return f"the model needs inputs. {error.takes} For example: {shlex.join(args.command_line)} {example}{what}"


def unknown_options(target: str, error: UnknownOptionError) -> str:
    """Return the message for options of the command line that do not apply to the model."""
    flags = ", ".join(map(flag_of, error.options))
    files = ", ".join(dict.fromkeys(filter(None, map(files_with, error.options))))
    hint = f"; expected a file of type {files}" if files else ""
    if {"backward", "optimizer"} & {*error.options}:
        hint += "; a training step needs the code of the model, file.py:factory"
    if "memory" in error.options:
        hint += "; --arena shows the memory of an inference"
    return f"{target}: {flags} cannot be used with the {error.frontend} frontend{hint}"
