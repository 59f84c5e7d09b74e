"""Custom calculators of one run: the operator of each, and which of the two forms it has."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from costcore.errors import CostWarning
from costcore.ir import Calculator
from costcore.messages import qualified_name
from costcore.registry.calculators import MergedCalculators, calculators, check_calculator
from costcore.registry.frontends import load, loaded, rows, specs
from costcore.trace.call import Call

NEAR = 0.45
"""Similarity above which a name may be a mistake for another (``difflib``): convolution and conv2d have 0.47."""


class CustomCalculators:
    """Calculators that the user adds for one run.

    Args:
        fma_1flop: the option of that name that native calculators receive.

    Attributes:
        by_layer: calculators ``calculator(layer)``, by canonical or native name.
        by_native: native calculators ``calculator(function, inputs, **options)``, which return elements instead of
            bytes, by native name. Their options are bound.
    """

    def __init__(self, fma_1flop: bool = True) -> None:
        self.by_layer: dict[str, Calculator] = {}
        self.by_native: dict[str, partial[Any]] = {}
        self._fma_1flop = fma_1flop
        self._added: dict[tuple[str, ...], Any] = {}
        """Every calculator by all names of its operator."""

    def add(self, op: object, calculator: Any) -> None:
        """Use ``calculator`` for ``op``; warn if it replaces a built-in one.

        Args:
            op: a canonical name (``"conv"``), a framework's own operator (a Chainer function class, an aten operator, a
                function of ``torch.nn.functional``), or its full name (``"ai.onnx::Conv"``, ``"mylib::foo"``).
            calculator: ``calculator(layer) -> Cost``, or ``-> (flops, mread, mwrite, params[, macs])`` with bytes; or,
                for operators of a frontend that calls native calculators (Chainer),
                ``calculator(function, inputs, **options) -> (flops, read, written, params)`` with elements.

        Raises:
            TypeError: if the calculator does not take these arguments, or ``op`` is not an operator.
            ValueError: if no operator has that name; suggests the nearest names.
        """
        names = resolve(op)
        is_native = _is_native(calculator)
        if is_native:
            names = _native_names(op)
            if not names:
                offered = ", ".join(name for name, spec in specs().items() if spec.native_calculators) or "none"
                raise TypeError(
                    f"{qualified_name(calculator)} takes (function, inputs), the form for operators of some frontends "
                    f"({offered}), but {_named(op)} is not one of them. Write it as calculator(layer)."
                )
        else:
            check_calculator(calculator)
        added: Mapping[str, Any] = self.by_native if is_native else self.by_layer
        replaced = [name for name in names if _is_built_in(name)]
        if replaced and not any(name in added for name in names):
            warnings.warn(
                f"{qualified_name(calculator)} replaces the built-in calculator of {', '.join(replaced)} for this run",
                CostWarning,
                stacklevel=3,
            )
        if is_native:
            self.by_native.update(dict.fromkeys(names, partial(calculator, fma_1flop=self._fma_1flop)))
        else:
            self.by_layer.update(dict.fromkeys(names, calculator))
        self._added[names] = calculator

    def table(self) -> Mapping[str, Calculator]:
        """Return all calculators of the run: the registered ones, overridden by these."""
        return MergedCalculators(self.by_layer, calculators())

    def unused(self, calls: Iterable[Call], without_built_in: bool = False) -> list[str]:
        """Return a sentence for every calculator that none of ``calls`` used, with similar names among the calls.

        The list is empty if nothing ran. ``without_built_in`` skips calculators of operators that have a built-in one.
        """
        called = {(call.operator, call.layer.op) for call in calls} if self._added else set()
        natives: dict[str, list[str]] = {}
        for native in sorted({native for native, _ in called}):
            natives.setdefault(_op_type(native), []).append(native)
        table = self.table()
        used = {native if native in table or native in self.by_native else op for native, op in called}
        sentences = []
        for names, calculator in self._added.items():
            if without_built_in and any(map(_is_built_in, names)):
                continue
            if used and used.isdisjoint(names):
                matches = (difflib.get_close_matches(_op_type(name), natives, n=3, cutoff=NEAR) for name in names)
                near = dict.fromkeys(native for close in matches for op_type in close for native in natives[op_type])
                hint = f". Similar operators that were called: {', '.join(near)}" if near else ""
                sentences.append(
                    f"{qualified_name(calculator)}, the calculator for {', '.join(names)}, was never used: "
                    f"no such operator was called{hint}"
                )
        return sentences


def resolve(op: object) -> tuple[str, ...]:
    """Return the names under which calls of ``op`` find their calculator.

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
            f"{_named(op)} is not an operator of an imported framework ({frontends}). Expected a canonical name such "
            "as 'conv', a full name such as 'ai.onnx::Conv', or a function or class of a framework."
        )
    domain, separator, op_type = op.partition("::")
    if separator and domain and op_type:
        return (op,)
    near = difflib.get_close_matches(op, calculators(), n=3)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "DETAILS.md lists the canonical names."
    raise ValueError(f"unknown operator {op!r} (expected a canonical name, or the form 'domain::Type'). {hint}")


def _op_type(name: str) -> str:
    """Return the part of a name that is compared with others: without the domain, which many share."""
    return name.rpartition("::")[2].lower()


def _named(op: object) -> str:
    """Return an operator, or whatever was given for one, as messages name it; long objects by their class."""
    text = repr(op)
    return text if len(text) <= 80 and "\n" not in text else f"an object of {type(op).__name__}"


def _native_names(op: object) -> tuple[str, ...]:
    """Return the native names of ``op`` in an imported framework whose frontend calls native calculators."""
    offering = (load(name) for name in loaded() if specs()[name].native_calculators)
    return next((names for frontend in offering if (names := frontend.native_names(op))), ())


def _is_native(calculator: object) -> bool:
    """Return True if it takes two positional arguments and ``fma_1flop``."""
    if not callable(calculator):
        return False
    try:
        inspect.signature(calculator).bind("function", "inputs", fma_1flop=True)
    except (TypeError, ValueError):
        return False
    return True


def _is_built_in(name: str) -> bool:
    if name in calculators():
        return True
    return any(row.native == name for frontend in loaded() for row in rows(frontend))
