"""The quantities that exist: built in, of analyses, and of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.errors import CostError
from costcore.messages import unknown
from costcore.plugins import cached, objects_from_plugins, with_left_out
from costcore.tables.costs import COSTS
from costcore.tables.quantity import Quantity, check_quantity
from costcore.text.table import Column


@cached
def registered() -> Mapping[str, Quantity]:
    """Return every quantity by name; one with parameters as ``bound_seconds@DEVICE``.

    Raises:
        CostError: if a plug-in fails, or if two quantities have the same name.
    """
    known = dict(COSTS)
    for quantities in objects_from_plugins("costcore_quantities", Quantity):
        for quantity in quantities:
            try:
                check_quantity(quantity)
            except ValueError as error:
                raise CostError(str(error)) from error
            if quantity.name in known:
                raise CostError(f"there are two quantities {quantity.name!r}. Rename that of the plug-in.")
            known[quantity.name] = quantity
    return known


def quantity(name: str) -> Quantity:
    """Return the quantity of that name, with its parameter: ``flops``, ``flops@fvcore``, ``bound_seconds@l4:bfloat16``.

    Raises:
        ValueError: if there is none, or if the parameter is missing or unknown.
        CostError, OSError: if a file that the parameter names cannot be read.
    """
    return COSTS[name] if name in COSTS else _found(name)


@cached
def _found(name: str) -> Quantity:
    known = registered()
    if name in known and "@" not in name:
        return known[name]
    stem, _, parameter = name.partition("@")
    family = _with_parameter(stem)
    if family is None or family.at is None:
        raise ValueError(with_left_out(unknown("column", name, known)))
    if not parameter:
        raise ValueError(f"column {name!r} needs a parameter: {family.name}")
    return family.at(parameter)


def _with_parameter(stem: str) -> Quantity | None:
    return next((each for name, each in registered().items() if name.startswith(f"{stem}@")), None)


def is_quantity(name: object) -> bool:
    """Return whether this is a quantity, the name of one, or that of one which takes what follows ``@`` in it."""
    if isinstance(name, Quantity):
        return True
    if not isinstance(name, str):
        return False
    name = name.removesuffix("%")
    return name in COSTS or name in registered() or _with_parameter(name.partition("@")[0]) is not None


def column_of(name: str | Quantity) -> Column:
    """Return the column of a quantity, or of its share of the total: ``macs%``.

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`; also if the quantity has no share.
    """
    if isinstance(name, Quantity):
        check_quantity(name)
        return name.column
    found = quantity(name.removesuffix("%"))
    if not name.endswith("%"):
        return found.column
    if not found.has_share:
        raise ValueError(f"{found.name} has no share of a total: its values do not add up")
    return Column(name, found.title, "percent", found.certainty)


def chosen(names: Iterable[str | Quantity]) -> list[Quantity]:
    """Return the quantities of columns, each once; a share is of its quantity.

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`.
    """
    found = (each if isinstance(each, Quantity) else quantity(each.removesuffix("%")) for each in names)
    return [*{each.name: each for each in found}.values()]


def numbers() -> list[str]:
    """Return the names of all quantities whose values are numbers."""
    return [name for name, each in registered().items() if each.is_number]


def numeric(name: str) -> Quantity:
    """Return the quantity of that name, whose values are numbers.

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`; also if its values are text.
    """
    if not is_quantity(name):
        raise ValueError(with_left_out(unknown("column", name, numbers())))
    found = quantity(name)
    if not found.is_number:
        raise ValueError(f"column {name!r} is text (expected a number, such as macs)")
    return found


def needed_options(names: Iterable[str]) -> dict[str, Any]:
    """Return the options of :func:`costcore.estimate` that the quantities of these names need.

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`.
    """
    return {option: value for each in chosen(names) for option, value in each.needs.items()}
