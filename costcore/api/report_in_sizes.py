"""The report of a network whose sizes are symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.analyses.sizes.formulas import trace_in_sizes
from costcore.analyses.sizes.inputs import NamedInputs
from costcore.analyses.sizes.limits import LAST, LAST_COMPUTED, limits_of
from costcore.counting.pricing import Pricer
from costcore.errors import CostError
from costcore.registry.custom import CustomCalculators
from costcore.reports.report import Report
from costcore.trace.trace import Trace

LARGEST = 2**40
"""The largest value of a range: tensors of larger sizes have more elements than frameworks can number."""


def report_in_sizes(
    inputs: Any,
    ranges: Mapping[str, tuple[int, int]] | None,
    capture: Callable[[Any], Trace],
    custom: CustomCalculators,
    layout: str,
    *,
    computes: bool = False,
) -> Report:
    """Return a report whose dimensions are expressions of the names in the shapes of the inputs.

    Args:
        inputs: the inputs, with names in their shapes.
        ranges: the smallest and the largest value by name, if they are known.
        capture: returns the run on integer inputs.
        custom: the calculators of the user.
        layout: ``"framework"`` or ``"free"``.
        computes: whether a run computes values, so that it is captured at smaller sizes where no range states others.

    Raises:
        TypeError, ValueError: if a name or a range is invalid, or memory is recorded.
        CostError: if there are no exact formulas.
    """
    named = NamedInputs(inputs)
    stated = checked_ranges(named.ranges, named.symbols) | checked_ranges(ranges or {}, named.symbols)
    if custom.by_native:
        raise CostError(
            f"calculators of the form calculator(function, inputs) cannot compute with names such as "
            f"{named.symbols[0]!r}; write them as calculator(layer)"
        )

    def captured(sized: Any) -> Trace:
        trace = capture(sized)
        if trace.run.memory is not None:
            raise ValueError(
                f"memory=True needs integers in place of {', '.join(named.symbols)}: when memory is allocated and "
                "freed has no formula"
            )
        return trace

    limits = limits_of(named, stated, LAST_COMPUTED if computes else LAST)
    return Report(trace_in_sizes(named, captured, Pricer(custom.table(), layout), limits))


def checked_ranges(ranges: object, symbols: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return ranges by symbol.

    Raises:
        TypeError: if they are not a mapping of names to pairs of integers.
        ValueError: if the inputs have no such symbol, or a range is empty, not positive or too large.
    """
    if not isinstance(ranges, Mapping):
        raise TypeError(f"ranges must be a mapping such as {{'seq': (2, 8192)}} (got {ranges!r})")
    checked = {}
    for name, limits in ranges.items():
        if name not in symbols:
            known = ", ".join(symbols)
            raise ValueError(f"ranges: the shapes of the inputs have no name {name!r} (names are {known})")
        if not isinstance(limits, (tuple, list)) or len(limits) != 2 or any(type(size) is not int for size in limits):
            raise TypeError(f"ranges: {name!r} needs its smallest and its largest value, (2, 8192) (got {limits!r})")
        low, high = limits
        if high > LARGEST:
            raise ValueError(f"ranges: the largest value of {name!r} cannot exceed {LARGEST:,} (got {high})")
        if not 1 <= low < high:
            raise ValueError(
                f"ranges: {name!r} needs 1 <= smallest < largest value (got {low} and {high}); write an integer in "
                "place of a name that has one value"
            )
        checked[str(name)] = low, high
    return checked
