"""Calculators of one run: which operator they are meant for, and in which of the two forms they are written."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from costcore.errors import CostWarning
from costcore.frontend import load, loaded, rows
from costcore.ir import Calculator
from costcore.pricing import check_calculator
from costcore.registry import calculators, place

ELEMENTWISE_FRONTEND = "chainer"
"""The frontend whose functions take calculators in the older form."""


class CustomCalculators:
    """Calculators that hold for one run and no other.

    Attributes:
        by_layer: calculators ``calculator(layer)``, by neutral or native name.
        by_elements: calculators in the older form ``calculator(func, in_data, **kwargs)``, which return elements
            instead of bytes, by native name.
    """

    def __init__(self) -> None:
        self.by_layer: dict[str, Calculator] = {}
        self.by_elements: dict[str, Any] = {}

    def add(self, op: object, calculator: Any) -> None:
        """Take ``calculator`` for ``op``.

        Args:
            op: a neutral name (``"conv"``), a framework's own operator (a Chainer function class, an aten operator, a
                function of ``torch.nn.functional``), or its full name (``"ai.onnx::Conv"``, ``"mylib::foo"``).
            calculator: ``calculator(layer) -> (flops, mread, mwrite, params[, macs])`` with bytes; or, for Chainer
                functions, ``calculator(func, in_data, **kwargs) -> (flops, read, written, params)`` with elements.

        Raises:
            TypeError: for something that cannot be called so, or an ``op`` that is no operator.
            ValueError: for a name that no operator has; suggests the nearest.
        """
        names = resolve(op)
        if _is_older_form(calculator):
            older = load(ELEMENTWISE_FRONTEND).native_names(op) if ELEMENTWISE_FRONTEND in loaded() else ()
            if not older:
                raise TypeError(
                    f"{place(calculator)} takes (func, in_data), the form for Chainer functions, but {op!r} is none; "
                    "write it as calculator(layer)"
                )
            names, table = older, self.by_elements
        else:
            check_calculator(calculator)
            table = self.by_layer
        replaced = [name for name in names if _is_built_in(name)]
        if replaced and not any(name in table for name in names):
            warnings.warn(
                f"{place(calculator)} replaces the built-in calculator of {', '.join(replaced)} for this run",
                CostWarning,
                stacklevel=3,
            )
        table.update(dict.fromkeys(names, calculator))

    def table(self) -> Mapping[str, Calculator]:
        """All calculators of the run: the registered ones, and these over them."""
        return {**calculators(), **self.by_layer}


def resolve(op: object) -> tuple[str, ...]:
    """The names that calls of ``op`` are priced by.

    Raises:
        TypeError, ValueError: as :meth:`CustomCalculators.add`.
    """
    if isinstance(op, str) and op in calculators():
        return (op,)
    for name in loaded():
        if natives := load(name).native_names(op):
            return natives
    if not isinstance(op, str):
        frontends = ", ".join(loaded()) or "none"
        raise TypeError(
            f"{op!r} is no operator of a framework that is imported (frontends: {frontends}); expected a neutral name "
            "such as 'conv', a full name such as 'ai.onnx::Conv', or a framework's own function or class"
        )
    domain, separator, kind = op.partition("::")
    if separator and domain and kind:
        return (op,)
    near = difflib.get_close_matches(op, calculators(), n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; DETAILS.md lists the neutral names"
    raise ValueError(f"{op!r} is no operator: neither a neutral name nor of the form 'domain::Type'{hint}")


def _is_older_form(calculator: object) -> bool:
    """Whether it wants two positional arguments."""
    if not callable(calculator):
        return False
    try:
        inspect.signature(calculator).bind("func", "in_data", fma_1flop=True)
    except (TypeError, ValueError):
        return False
    return True


def _is_built_in(name: str) -> bool:
    if name in calculators():
        return True
    return any(row.native == name for frontend in loaded() for row in rows(frontend))
