"""Calculators of one run: which operator they are meant for, and in which of the two forms they are written."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from costcore.counting.pricing import check_calculator
from costcore.errors import CostWarning
from costcore.ir import Calculator
from costcore.messages import place
from costcore.registry.calculators import calculators
from costcore.registry.frontends import load, loaded, rows, specs
from costcore.trace.call import Call

NEAR = 0.45
"""How like two names are that may be meant for one another (``difflib``): convolution and conv2d are 0.47."""


class CustomCalculators:
    """Calculators that hold for one run and no other.

    Args:
        fma_1flop: what native calculators receive as their option of that name.

    Attributes:
        by_layer: calculators ``calculator(layer)``, by neutral or native name.
        by_native: native calculators ``calculator(function, inputs, **options)``, which return elements instead of
            bytes, by native name. Their options are bound.
    """

    def __init__(self, fma_1flop: bool = True) -> None:
        self.by_layer: dict[str, Calculator] = {}
        self.by_native: dict[str, partial[Any]] = {}
        self._fma_1flop = fma_1flop
        self._added: dict[tuple[str, ...], Any] = {}
        """Every calculator by all the names that its operator has."""

    def add(self, op: object, calculator: Any) -> None:
        """Take ``calculator`` for ``op``; warns where that has a built-in one.

        Args:
            op: a neutral name (``"conv"``), a framework's own operator (a Chainer function class, an aten operator, a
                function of ``torch.nn.functional``), or its full name (``"ai.onnx::Conv"``, ``"mylib::foo"``).
            calculator: ``calculator(layer) -> Cost``, or ``-> (flops, mread, mwrite, params[, macs])`` with bytes; or,
                for operators of a frontend that calls native calculators (Chainer),
                ``calculator(function, inputs, **options) -> (flops, read, written, params)`` with elements.

        Raises:
            TypeError: for something that cannot be called so, or an ``op`` that is no operator.
            ValueError: for a name that no operator has; suggests the nearest.
        """
        names = resolve(op)
        is_native = _is_native(calculator)
        if is_native:
            names = _native_names(op)
            if not names:
                offered = ", ".join(name for name, spec in specs().items() if spec.native_calculators) or "none"
                raise TypeError(
                    f"{place(calculator)} takes (function, inputs), the form for operators of some frontends "
                    f"({offered}), but {_named(op)} is not one of them. Write it as calculator(layer)."
                )
        else:
            check_calculator(calculator)
        added: Mapping[str, Any] = self.by_native if is_native else self.by_layer
        replaced = [name for name in names if _is_built_in(name)]
        if replaced and not any(name in added for name in names):
            warnings.warn(
                f"{place(calculator)} replaces the built-in calculator of {', '.join(replaced)} for this run",
                CostWarning,
                stacklevel=3,
            )
        if is_native:
            self.by_native.update(dict.fromkeys(names, partial(calculator, fma_1flop=self._fma_1flop)))
        else:
            self.by_layer.update(dict.fromkeys(names, calculator))
        self._added[names] = calculator

    def table(self) -> Mapping[str, Calculator]:
        """All calculators of the run: the registered ones, and these over them."""
        return {**calculators(), **self.by_layer}

    def unused(self, calls: Iterable[Call], only_foreign: bool = False) -> list[str]:
        """A sentence for every calculator that met none of ``calls``, with the nearest names that these have.

        Nothing is said where nothing ran; with ``only_foreign`` nothing of operators that are known without it.
        """
        met = {(call.native, call.layer.op) for call in calls} if self._added else set()
        natives: dict[str, list[str]] = {}
        for native in sorted({native for native, _ in met}):
            natives.setdefault(_kind(native), []).append(native)
        known = self.table()
        priced_by = {native if native in known or native in self.by_native else op for native, op in met}
        sentences = []
        for names, calculator in self._added.items():
            if only_foreign and any(map(_is_built_in, names)):
                continue
            if priced_by and priced_by.isdisjoint(names):
                kinds = (difflib.get_close_matches(_kind(name), natives, n=3, cutoff=NEAR) for name in names)
                near = dict.fromkeys(native for close in kinds for kind in close for native in natives[kind])
                hint = f"; the nearest that ran: {', '.join(near)}" if near else ""
                sentences.append(f"{place(calculator)}, the calculator for {', '.join(names)}, met no call{hint}")
        return sentences


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
            f"{_named(op)} is no operator of a framework that is imported (frontends: {frontends}); expected a neutral "
            "name such as 'conv', a full name such as 'ai.onnx::Conv', or a framework's own function or class"
        )
    domain, separator, kind = op.partition("::")
    if separator and domain and kind:
        return (op,)
    near = difflib.get_close_matches(op, calculators(), n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; DETAILS.md lists the neutral names"
    raise ValueError(f"{op!r} is no operator: neither a neutral name nor of the form 'domain::Type'{hint}")


def _kind(name: str) -> str:
    """What two names are compared by: without the domain, which many have in common."""
    return name.rpartition("::")[2].lower()


def _named(op: object) -> str:
    """An operator, or what was given for one, in a sentence: a model is told by its class."""
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
