"""The pattern of a layer, as the calculator of its operator states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from costcore.counting.pricing import CALCULATOR_ERRORS
from costcore.errors import CostError
from costcore.ir import Arrangement, Calculator, Layer, Layout, Pattern, prod
from costcore.messages import qualified_name
from costcore.numbers.dims import Dim
from costcore.registry.calculators import calculators

PATTERNS: tuple[Pattern, ...] = get_args(Pattern)


def pattern_of(layer: Layer) -> Pattern:
    """Return the pattern of a layer; ``opaque`` if its calculator states none, or if it has no calculator.

    A layer without outputs is opaque too: it returns a value to the program, such as the answer of ``torch.equal``, or
    only changes its operands. See :func:`costcore.ir.pattern` for what each pattern means.

    Raises:
        CostError: if the calculator states something else, or if its function raises an exception.
    """
    return stated_pattern(calculators().get(layer.op), layer)


def stated_pattern(calculator: Calculator | None, layer: Layer) -> Pattern:
    """Return the pattern that a calculator states for a layer; see :func:`pattern_of`."""
    if not layer.outputs:
        return "opaque"
    stated = getattr(calculator, "pattern_by_op", {}).get(layer.op) or getattr(calculator, "pattern", "opaque")
    if callable(stated):
        try:
            stated = stated(layer)
        except CALCULATOR_ERRORS as error:
            raise CostError(f"{_named(calculator, layer)} raised {type(error).__name__}: {error}") from error
    if stated not in PATTERNS:
        raise CostError(f"{_named(calculator, layer)} is {stated!r} (expected one of {', '.join(PATTERNS)})")
    return stated  # type: ignore[no-any-return]


def rows_of(layer: Layer) -> Dim | None:
    """Return the number of rows that a reduction computes independently; None if it is unknown.

    Raises:
        CostError: if the function that the calculator states raises an exception.
    """
    calculator = calculators().get(layer.op)
    stated = getattr(calculator, "rows", None)
    if stated is None:
        return _rows_of_shapes(layer)
    try:
        return stated(layer)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{_named(calculator, layer)} raised {type(error).__name__}: {error}") from error


def reduced_axes(layer: Layer) -> tuple[int, ...] | None:
    """Return the axes that a reduction names; None if its calculator states the rows, or if it reduces all axes."""
    axis = layer.attrs.get("axis")
    if axis is None or getattr(calculators().get(layer.op), "rows", None) is not None:
        return None
    return axis if isinstance(axis, tuple) else (axis,)


def layout_of(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement | None:
    """Return what a product needs of the memory of its operands; None if the calculator states nothing.

    Raises:
        CostError: if the function that the calculator states raises an exception.
    """
    calculator = calculators().get(layer.op)
    stated: Layout | None = getattr(calculator, "layout", None)
    try:
        return None if stated is None else stated(layer, orders)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{_named(calculator, layer)} raised {type(error).__name__}: {error}") from error


def _rows_of_shapes(layer: Layer) -> Dim | None:
    shape, axes = next(iter(layer.inputs.values())).shape, reduced_axes(layer)
    if layer.out.size != prod(shape):
        return layer.out.size
    return None if axes is None else prod(size for i, size in enumerate(shape) if i not in axes)


def _named(calculator: Calculator | None, layer: Layer) -> str:
    return f"the pattern that calculator {qualified_name(calculator)} states for {layer.op!r}"
