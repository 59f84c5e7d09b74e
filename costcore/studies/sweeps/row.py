"""The row of one model in a table of models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

from costcore.api.estimate import estimate
from costcore.api.input_notation import input_arguments
from costcore.api.load_model import load_model
from costcore.api.modes import check_report, in_mode
from costcore.api.saved import saved_report
from costcore.api.user_code import module_search_path
from costcore.errors import CostError, CostWarning
from costcore.ledger.caveats import remarks_on_mode
from costcore.numbers.dims import Dim
from costcore.registry.frontends import applicable_options, frontend_of
from costcore.registry.libraries import is_saved_report, usual_inputs
from costcore.reports.exports.facts import status
from costcore.reports.report import Report
from costcore.studies.sweeps.figures import figure, figures_of
from costcore.trace.input_shapes import has_names


class ModelRow(NamedTuple):
    """The row of one model.

    Attributes:
        name: the name of the model.
        costs: the figures by name of their column, ``flops``, ``n_params``, …; None for a figure that is unknown. Empty
            if the model failed.
        status: ``complete``, ``partial`` with the operators that are not counted, or the error if the model failed;
            with the usual input of a library that was used for want of another, and the reason for each unknown figure.
        failed: True if the costs of the model could not be computed.
        arguments: the arguments of the function that returned the model, by name; None if it has none.
    """

    name: str
    costs: Mapping[str, Dim | float | None]
    status: str
    failed: bool = False
    arguments: Mapping[str, Any] | None = None

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the model failed because it could not allocate memory."""
        return self.failed and self.status.startswith(OUT_OF_MEMORY)

    @property
    def label(self) -> str:
        """The name with the arguments, ``make(width=0.5, depth=2)``."""
        if self.arguments is None:
            return self.name
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.plain_arguments.items())})"

    @property
    def plain_arguments(self) -> dict[str, Any]:
        """The arguments, functions and classes by their names."""
        arguments = self.arguments or {}
        return {name: getattr(value, "__qualname__", value) for name, value in arguments.items()}


@dataclass(frozen=True)
class Settings:
    """What all rows of a table have in common.

    Attributes:
        columns: the names of the figures, see :mod:`costcore.studies.sweeps.figures`.
        convention: the convention by which FLOPs are counted; None for that of costcore.
        python_path: folders to search for the modules of targets, before the current folder.
        options: further arguments of :func:`costcore.estimate`.
        mode: the mode into which models are put; None for that in which they come.
    """

    columns: Sequence[str]
    convention: str | PathLike[str] | None = None
    python_path: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None


class NamedModel(NamedTuple):
    """A model to count.

    Attributes:
        name: its name.
        model: the model as for :func:`costcore.table`; with arguments, the function that returns it, or the target
            (``nets.py:make``) of that function.
        inputs: its inputs; with arguments, they may be a function of these.
        arguments: the arguments of the function; None if ``model`` is a model.
    """

    name: str
    model: Any
    inputs: Any = None
    arguments: Mapping[str, Any] | None = None


OUT_OF_MEMORY = "out of memory: "
"""What the status of a model that could not allocate memory starts with."""


def row_of(named: NamedModel, settings: Settings) -> ModelRow:
    """Return the row of one model. An exception is the status of its row."""
    try:
        with module_search_path(settings.python_path, named.model), warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # the row lists the operators that are not counted
            report, remarks = _report(named, settings)
            costs, reasons = figures_of(report, settings.columns)
            if settings.convention is not None and "flops" in costs:
                costs["flops"] = report.under(settings.convention).total
            said = [status(report), *remarks, *remarks_on_mode(report.trace), *reasons]
            return ModelRow(named.name, costs, "; ".join(said), arguments=named.arguments)
    except (Exception, SystemExit) as error:  # a failing model must not affect the rows of the others
        problem = failure(error, named.model)
        return ModelRow(named.name, {}, problem, failed=True, arguments=named.arguments)


def failure(error: BaseException, model: object = None) -> str:
    """Return the status of a model that raised ``error``; it starts with :data:`OUT_OF_MEMORY` if that is why.

    The name of the model, which is beside the status, is not repeated.
    """
    message = str(error) if isinstance(error, CostError) else f"{type(error).__name__}: {error}"
    message = message.removeprefix(f"{model} failed: ")
    return OUT_OF_MEMORY + message if _is_memory_error(error) else message


def _is_memory_error(error: BaseException | None) -> bool:
    """Return whether memory could not be allocated; PyTorch then raises a ``RuntimeError``."""
    for _ in range(100):
        if error is None:
            break
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _report(named: NamedModel, settings: Settings) -> tuple[Report, list[str]]:
    """Return the report of a model, and what its row says of inputs that nobody gave."""
    options, inputs = settings.options, named.inputs
    model: Any = named.model
    is_step = bool(options.get("backward")) or options.get("optimizer") is not None
    if isinstance(model, str) and is_saved_report(model):
        model = saved_report(model, options.get("fma_1flop", True), options.get("dims"))
    if isinstance(model, Report):
        check_report(model, None, named.name, settings.mode, is_step)
        return model, []
    if named.arguments is not None and callable(inputs):
        inputs = inputs(**named.arguments)
    target = named.name
    remarks: list[str] = []
    if isinstance(model, str):
        target, model = model, load_model(model, named.arguments)
        inputs, remarks = _given_or_usual(inputs, model, target)
        options = applicable_options(target, model, options)
    elif named.arguments is not None:
        model = model(**named.arguments)
    is_made = isinstance(named.model, str) or named.arguments is not None
    if is_made:
        in_mode(model, target, settings.mode, is_step)
    report = estimate(model, inputs, **_needed(model, inputs, settings), **options)
    check_report(report, model if is_made else None, target, settings.mode, is_step)
    return report, remarks


def _given_or_usual(inputs: Any, model: Any, target: str) -> tuple[Any, list[str]]:
    """Return inputs; without any, the usual ones of a model of a library, and a remark that states them."""
    usual = usual_inputs(model, target) if inputs is None else None
    if usual is None:
        return inputs, []
    return usual.inputs, [f"the usual input is used, {input_arguments(usual.inputs)} ({usual.source})"]


def _needed(model: Any, inputs: Any, settings: Settings) -> dict[str, Any]:
    """Return the options that the columns need, which are not given, and which the model accepts."""
    needed = {option: value for name in settings.columns for option, value in figure(name).needs.items()}
    if not needed:
        return {}
    spec = frontend_of(model)
    accepted = {"spelled", *spec.options, *spec.model_options} - settings.options.keys()
    if has_names(inputs):
        accepted.discard("memory")  # has no formula
    return {name: value for name, value in needed.items() if name in accepted}
