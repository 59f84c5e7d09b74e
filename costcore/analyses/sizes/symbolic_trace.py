"""The run of a network with formulas in place of its integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.analyses.sizes.fitting import Fit
from costcore.analyses.sizes.outline import with_integers
from costcore.analyses.sizes.samples import Samples
from costcore.counting.pricing import Pricer
from costcore.numbers.dims import Dim, minimum
from costcore.numbers.expressions import symbol_of
from costcore.trace.call import Call, ModuleCall
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace


def symbolic_trace(samples: Samples, fit: Fit, pricer: Pricer) -> tuple[Trace, list[int]]:
    """Return the first run with a formula in place of every integer and the costs that follow, and which calls it has.

    A free call that the runs lack at one size only has a formula of how often it runs, 0 or 1 times. One that they lack
    at other sizes is left out, and what reads its result reads what it had read.
    """
    made: dict[tuple[int, ...], Dim] = {}

    def expressions(columns: Sequence[tuple[int, ...]]) -> list[Dim]:
        for values in columns:
            if values not in made:
                made[values] = fit.formula(values).of(samples.symbols)
        return [made[values] for values in columns]

    *rows, of_modules = samples.columns(fit.points)
    calls: dict[tuple[Any, ...], tuple[Call, tuple[Dim, ...]]] = {}
    ids: list[tuple[Dim, ...]] = []
    records: dict[int, CallCost] = {}
    names: dict[int, int] = {}
    for row, (record, columns) in enumerate(zip(samples.trace, rows, strict=True)):
        read = tuple(names.get(each, each) for each in record.call.inputs)
        present: Dim = 1
        if columns is None:
            where = samples.absence(row)
            columns = None if where is None else fit.columns_but(row, *where)
            if where is None or columns is None:
                names.update(dict.fromkeys(record.call.outputs, read[0]) if read else {})
                continue
            present = minimum(1, (symbol_of(samples.symbols[where[0]]) - where[1]) ** 2)
        key = (id(record.call.layer), *columns)
        if key not in calls:
            calls[key] = with_integers(record.call, expressions(columns))
        call, of_call = calls[key]
        ids.append(of_call)
        records[row] = pricer(record.call._replace(layer=call.layer, inputs=read, times=call.times * present))
    run = _symbolic_run(samples.trace.run, expressions(of_modules or ()))
    if run.unfolded is not None:  # free calls that some runs lack end what is known of ids
        run = run.recording(unfolded=run.unfolded._replace(ids=tuple(ids)) if len(ids) == len(samples.trace) else None)
    trace = Trace(tuple(records.get(row, record) for row, record in enumerate(samples.trace)), run)
    return trace.only(records), [*records]


def _symbolic_run(run: Run, sizes: Sequence[Dim]) -> Run:
    """Return the run with expressions in place of the dimensions of its module calls."""
    left = iter(sizes)

    def with_sizes(shapes: Sequence[Sequence[Dim]]) -> tuple[tuple[Dim, ...], ...]:
        return tuple(tuple(next(left) for _ in shape) for shape in shapes)

    calls = [
        ModuleCall(call.module, call.parent, with_sizes(call.inputs), with_sizes(call.outputs))
        for call in run.module_calls
    ]
    return run.recording(module_calls=tuple(calls), returned=tuple(left) or run.returned)
