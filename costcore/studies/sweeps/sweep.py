"""Tables with one row per variant of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from costcore.api.load_model import check_target
from costcore.messages import short_repr
from costcore.registry.frontends import reader_of
from costcore.registry.libraries import is_saved_report
from costcore.studies.sweeps.grid import combinations
from costcore.studies.sweeps.model_table import ModelTable
from costcore.studies.sweeps.row import NamedModel
from costcore.studies.sweeps.table import table


def sweep(
    make: Callable[..., Any] | str,
    grid: Mapping[str, Iterable[Any]],
    inputs: Any = None,
    *,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> ModelTable:
    """Compute the costs of every variant that a function makes, one row per combination of its arguments.

    For example::

        sweep(make, {"width": [0.5, 0.75, 1.0], "depth": range(2, 20)}, (1, 3, 224, 224), columns=["macs"])

    Args:
        make: a function that takes the arguments by name and returns a model, or its target, ``"nets.py:make"``.
        grid: the values of every argument by its name. The last argument varies fastest.
        inputs: the inputs of all variants, as for :func:`costcore.estimate`, or a function that takes the arguments by
            name and returns the inputs.
        columns: the figures to show, see :func:`costcore.table`.
        options: all further arguments of :func:`costcore.table`: ``jobs``, ``timeout``, ``memory_limit``, ``output``,
            ``resume``, ``convention``, ``python_path``, ``mode``, and those of :func:`costcore.estimate`.

    Returns:
        The table. The arguments are columns of it; ``to_dataframe()`` and ``scatter(x, y, target)`` take it on.

    Raises:
        CostError, OSError: if ``output`` cannot be read or written.
        TypeError, ValueError: if an argument is invalid.
    """
    return table(variants(make, grid, inputs), columns=columns, **options)


def variants(make: Callable[..., Any] | str, grid: Mapping[str, Iterable[Any]], inputs: Any) -> list[NamedModel]:
    """Return the models of a grid; arguments as for :func:`sweep`.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    if isinstance(make, str):
        check_target(make)
        if reader_of(make) or is_saved_report(make):
            raise ValueError(f"{make!r} is a file, which has no arguments (expected module:function)")
    elif not callable(make):
        raise TypeError(f"make must be a function that returns a model, or its target (got {short_repr(make)})")
    name = make if isinstance(make, str) else getattr(make, "__name__", type(make).__name__)
    return [NamedModel(name, make, inputs, arguments) for arguments in combinations(grid)]
