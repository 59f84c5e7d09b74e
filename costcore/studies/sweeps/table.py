"""Tables with one row per model, computed in this process, in several, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from os import PathLike
from typing import Any

from costcore.api.modes import MODES
from costcore.messages import unknown
from costcore.studies.sweeps.figures import check_columns
from costcore.studies.sweeps.model_table import ModelTable
from costcore.studies.sweeps.row import NamedModel, Settings
from costcore.studies.sweeps.run import model_table
from costcore.studies.sweeps.task import Plan
from costcore.studies.sweeps.tasks import memory_of


def table(
    models: Iterable[Any] | Mapping[str, Any],
    inputs: Any = None,
    *,
    jobs: int | None = None,
    timeout: float | None = None,
    memory_limit: int | str | None = None,
    output: str | PathLike[str] | None = None,
    resume: bool = False,
    python_path: Sequence[str] = (),
    convention: str | PathLike[str] | None = None,
    columns: Iterable[str] | None = None,
    mode: str | None = None,
    **options: Any,
) -> ModelTable:
    """Compute the costs of several models, one row per model. If a model fails, its row has the error.

    By default, models are counted in this process, which a model can end. With ``jobs``, ``timeout`` or
    ``memory_limit``, and on a cluster, they are counted in processes beside it: a model that ends its process, hangs or
    fills the memory then has a row that says so.

    Args:
        models: models as for :func:`costcore.estimate`, reports, or targets as on the command line
            (``"torchvision.models:resnet50"``, ``"net.onnx"``, a saved ``"report.json"``). A model may also be a tuple
            ``(name, model)`` or ``(name, model, inputs)``, and ``models`` may be a mapping of names to models.
        inputs: the inputs of all models without inputs of their own. Without any, targets of libraries
            (``"timm:resnet50"``) are counted on their usual input, and the status of their row states it.
        jobs: the number of processes; -1 is one per core. Default: the setting of ``joblib.parallel_config`` with its
            backend (such as Dask or Ray), or else this process.
        timeout: the seconds that a model may take.
        memory_limit: the memory that the process of a model may allocate, with that of Python and the framework, as
            bytes or ``"2 GiB"`` (Linux).
        output: a ``.jsonl``, ``.csv`` or ``.parquet`` file that every row is written to as it comes.
        resume: take rows from ``output`` that did not fail and whose model, inputs, options and version are the same.
            Models count by the content of their file, or by the code of the function that makes them and of what it
            imports; models that are objects are always counted again.
        python_path: folders to search for the modules of targets, before the current folder.
        convention: the convention by which FLOPs are counted, see :meth:`costcore.Report.under`; default: costcore's.
        columns: the figures to show, in order: any quantity that :func:`costcore.quantities` lists (``"macs"``,
            ``"peak_memory"``, ``"bound_seconds@mine.toml:bfloat16"``), and conventions by their name (``"fvcore"``). An
            option that a figure needs, such as ``memory=True``, is turned on. Default: parameters, FLOPs, MACs, bytes
            read and written, and activations.
        mode: ``"train"`` or ``"evaluation"``, into which models of targets and of functions are put; default: that in
            which they come, see :func:`costcore.api.modes.in_mode`. A model that is an object stays as it is.
        options: further arguments of :func:`costcore.estimate`, the same for all models. Options for files of one type
            (``dims``, ``shapes``, ``regroup``, ``check_shapes``, ``max_nodes``: ``.onnx``) are ignored for other
            targets, except that ``dims`` also applies to saved reports.

    Raises:
        CostError: if ``output`` contains something else, or needs a package that is not installed.
        OSError: if ``output`` cannot be read or written.
        TypeError, ValueError: if an argument is invalid.
    """
    if isinstance(models, (str, bytes)) or not isinstance(models, Iterable):
        raise TypeError(f"models must be a list or mapping of models (got {models!r})")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise ValueError(f"jobs must be a number of processes, or -1 for one per core (got {jobs!r})")
    if resume and output is None:
        raise ValueError("resume needs the .jsonl, .csv or .parquet file of the earlier run as output")
    if mode not in (None, *MODES):
        raise ValueError(unknown("mode", mode, MODES))
    if convention is not None:
        from costcore.analyses.conventions.catalog import needs_functions

        options = {"spelled": True, **options} if needs_functions(convention) else options
    settings = Settings(check_columns(columns), convention, list(python_path), options, mode)
    several = [_named(model, inputs) for model in (models.items() if isinstance(models, Mapping) else models)]
    plan = Plan(jobs, _seconds(timeout), memory_of(memory_limit))
    return model_table(several, settings, plan, output, resume)


def _named(model: Any, inputs: Any) -> NamedModel:
    if isinstance(model, NamedModel):
        return model
    if isinstance(model, tuple):
        if len(model) not in (2, 3) or not isinstance(model[0], str):
            raise TypeError(f"a tuple in models must be (name, model) or (name, model, inputs) (got {model!r})")
        return NamedModel(model[0], model[1], model[2] if len(model) == 3 else inputs)
    return NamedModel(model if isinstance(model, str) else type(model).__name__, model, inputs)


def _seconds(timeout: object) -> float | None:
    if timeout is None:
        return None
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not isfinite(timeout) or timeout <= 0:  # type: ignore[arg-type, operator]
        raise ValueError(f"timeout must be a positive number of seconds (got {timeout!r})")
    return float(timeout)  # type: ignore[arg-type]
