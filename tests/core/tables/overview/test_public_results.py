"""Whatever a function of the package returns to a user of a notebook can be shown there: found by annotations."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import costcore
from tests.core.results import Result

PARTS = {
    *(
        "Assumption",
        "BlockDelta",
        "Bound",
        "Blocks",
        "Call",
        "CallCost",
        "Conversion",
        "ConversionChange",
        "Cost",
        "Delta",
        "Difference",
        "ExpertLayers",
        "Group",
        "Kind",
        "Latent",
        "Layer",
        "Line",
    ),
    *("ModelRow", "Operations", "Plan", "Regrouping", "Slot", "Tally", "Tensor", "TimedGroup", "Value"),
    *("Answer", "Convention", "MeasuredCall", "MeasuredGroup", "ReceptiveField", "Rates"),
    *("Rank", "Reading", "RuleFigure", "Stage"),
}
"""The records of which results consist, which one line shows."""

OTHERS = {
    *("CostError", "CostWarning", "costs", "Dim", "Formulas", "Ledger", "RenderedTable", "Trace"),
    *("GroupColumns", "LayerColumns", "ReceptiveFieldColumns", "ReportColumns", "SummaryColumns", "TreeColumns"),
}
"""What is no result: arguments, errors, and what programs read."""


def imported_for_types(module: types.ModuleType) -> dict[str, Any]:
    """Return what a module imports only for type checkers, by name."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom) and each.module:
                    module_of_names = import_module(each.module)
                    found |= {a.asname or a.name: getattr(module_of_names, a.name, None) for a in each.names}
    return found


def classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes of this package that a value of an annotation is, or holds."""
    if isinstance(annotation, type) and annotation.__module__.startswith("costcore."):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from classes_in(argument)


def returned_by(function: Any) -> Iterator[type]:
    """Yield the classes of this package that a function returns."""
    function = inspect.unwrap(function)
    annotation = getattr(function, "__annotations__", {}).get("return")
    if annotation is not None:
        module = sys.modules[function.__module__]
        yield from classes_in(eval(annotation, {**vars(module), **imported_for_types(module)}))


def reachable() -> set[type]:
    """Return the public classes, and all that their public methods, properties and attributes return."""
    found: set[type] = set()
    waiting = [getattr(costcore, name) for name in costcore.__all__]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, type):
            waiting += [each for each in returned_by(item) if each not in found]
        elif item not in found:
            found.add(item)
            for name in (each for each in dir(item) if not each.startswith("_")):
                member = inspect.getattr_static(item, name)
                if isinstance(member, property):
                    member = member.fget
                elif hasattr(member, "func"):  # a cached property
                    member = member.func
                if inspect.isfunction(member):
                    waiting.append(member)
    return found


def test_every_result_is_displayed():
    """A picture is shown as it is drawn."""
    plain = {each.__name__ for each in reachable() if not issubclass(each, Result)}
    assert plain == PARTS | OTHERS | {"Picture"}
