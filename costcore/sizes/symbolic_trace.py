"""The run of a network with formulas in place of its integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costcore.counting.pricing import Pricer
from costcore.dims import Dim
from costcore.sizes.fitting import Fit
from costcore.sizes.outline import with_integers
from costcore.sizes.samples import Samples
from costcore.trace.call import Call, ModuleCall
from costcore.trace.run import Run
from costcore.trace.trace import Trace


def symbolic_trace(samples: Samples, fit: Fit, pricer: Pricer) -> Trace:
    """Return the first run with a formula in place of every integer, and the costs that follow.

    Free calls that not all runs have are left out.
    """
    made: dict[tuple[int, ...], Dim] = {}

    def expressions(columns: Sequence[tuple[int, ...]]) -> list[Dim]:
        for values in columns:
            if values not in made:
                made[values] = fit.formula(values).of(samples.symbols)
        return [made[values] for values in columns]

    *rows, of_modules = samples.columns(fit.points)
    calls: dict[tuple[Any, ...], Call] = {}
    records = []
    for record, columns in zip(samples.trace, rows, strict=True):
        if columns is None:
            continue
        key = (id(record.call.layer), *columns)
        if key not in calls:
            calls[key] = with_integers(record.call, expressions(columns))
        records.append(pricer(record.call._replace(layer=calls[key].layer, times=calls[key].times)))
    return Trace(tuple(records), _symbolic_run(samples.trace.run, expressions(of_modules or ())))


def _symbolic_run(run: Run, sizes: Sequence[Dim]) -> Run:
    """Return the run with expressions in place of the dimensions of its module calls."""
    left = iter(sizes)

    def with_sizes(shapes: Sequence[Sequence[Dim]]) -> tuple[tuple[Dim, ...], ...]:
        return tuple(tuple(next(left) for _ in shape) for shape in shapes)

    calls = [
        ModuleCall(call.module, call.parent, with_sizes(call.inputs), with_sizes(call.outputs))
        for call in run.module_calls
    ]
    return replace(run, module_calls=tuple(calls))
