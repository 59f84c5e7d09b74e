"""The run of a network whose sizes are symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from costcore.analyses.sizes.above import assumed_above, note_of
from costcore.analyses.sizes.alignment import OtherOperatorsError
from costcore.analyses.sizes.checks import ends_of, exceptions, held_out_points, verify
from costcore.analyses.sizes.fitting import Fit
from costcore.analyses.sizes.folding import folded
from costcore.analyses.sizes.inputs import NamedInputs
from costcore.analyses.sizes.limits import FIRST, Limits
from costcore.analyses.sizes.samples import Point, Samples
from costcore.analyses.sizes.starts import multiple_that_works, start
from costcore.analyses.sizes.symbolic_trace import symbolic_trace
from costcore.counting.pricing import Pricer
from costcore.errors import CostError
from costcore.trace.trace import Trace
from costcore.trace.unrolling import FEWEST

UNROLLED = 8
"""A network that unrolls loops is captured at sizes that many times smaller, as it runs more calls at larger ones."""


LEFT_OUT = "calls without cost that run at some sizes only are left out: n_layers does not count them"
"""What a report says if a network takes, for example, no slice of a whole axis, at sizes that no formula gives."""


def trace_in_sizes(
    inputs: NamedInputs, capture: Callable[[Any], Trace], pricer: Pricer, limits: Sequence[Limits]
) -> Trace:
    """Return the run of a network whose sizes are symbols.

    It is captured at integer sizes. An expression is fitted to every dimension and to every integer attribute of the
    calls, exactly, and the calculators compute the costs from these. Then all are checked at further sizes.

    Args:
        inputs: the inputs, with names in their shapes.
        capture: returns the run on integer inputs.
        pricer: computes the costs.
        limits: the values of every symbol.

    Raises:
        CostError: if the network fails at a size, runs other operators at other sizes, or has a dimension for which no
            formula was found or that differs from its formula.
    """
    try:
        return _trace_in_sizes(Samples(inputs, capture), limits, pricer)
    except OtherOperatorsError:
        nearer = [each if each.is_stated else each.nearer(UNROLLED) for each in limits]
        from_short, from_long = ([each.from_at_least(low) for each in nearer] for low in (FEWEST, FIRST["sequence"]))
        for tried, keeps_ids in ((from_short, True), (from_long, True), (nearer, False), (from_long, False)):
            try:
                return _trace_in_sizes(Samples(inputs, _folding(capture, keeps_ids)), tried, pricer)
            except CostError as error:
                if not keeps_ids and not isinstance(error, OtherOperatorsError):
                    raise
        raise


def _folding(capture: Callable[[Any], Trace], keeps_ids: bool) -> Callable[[Any], Trace]:
    return lambda inputs: folded(capture(inputs), keeps_ids)


def _trace_in_sizes(samples: Samples, limits: Sequence[Limits], pricer: Pricer) -> Trace:
    base, limits = start(samples, limits)
    fit = _fitted(samples, base, limits)
    ends = ends_of(samples, fit, limits)
    held_out = held_out_points(samples, fit, ends)
    trace, rows = symbolic_trace(samples, fit, pricer)
    verify(samples, fit, zip(rows, trace, strict=True), held_out)
    names = ", ".join(samples.symbols)
    above = assumed_above(samples, trace)
    made = f"formulas in {names}: from {len(fit.points)} captures, checked at {len(held_out)} further points"
    left_out = [LEFT_OUT] * (samples.has_further_calls or len(rows) < len(samples.trace))
    run = replace(
        trace.run,
        notes=(*trace.run.notes, made, *exceptions(samples.symbols, limits, ends), *map(note_of, above), *left_out),
        assumptions=tuple(each for each in samples.assumed if each not in {found for found, *_ in above}),
    ).recording(ranges=dict(zip(samples.symbols, ends, strict=True)), assumed_above=tuple(above))
    return Trace(trace.records, run)


def _fitted(samples: Samples, base: Point, limits: Sequence[Limits]) -> Fit:
    try:
        return Fit(samples, base, limits)
    except CostError as error:
        for position, symbol in enumerate(samples.symbols):
            nearby = (*base[:position], base[position] + 1, *base[position + 1 :])
            if nearby in samples.failed and (step := multiple_that_works(samples, base, position)):
                advice = f'It runs alike at multiples of {step}: write "{step}*{symbol}" in place of "{symbol}".'
                raise CostError(f"{str(error).rstrip('.')}. {advice}") from error
        raise
