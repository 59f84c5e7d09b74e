"""The lines below the heading of the page: the command, and the inputs, mode, phases and versions of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from costcore.ledger.caveats import mode_of
from costcore.numbers.symbolic import as_text
from costcore.tables.html import text
from costcore.text.amounts import exact

if TYPE_CHECKING:
    from costcore.ir import Tensor
    from costcore.reports.data.report_data import ReportData
    from costcore.trace.trace import Trace

MOST_INPUTS = 4
"""How many inputs are named; the number of the others is stated."""


def about(report: ReportData, made: str = "") -> str:
    """Return lines of HTML.

    Args:
        report: the report.
        made: the command that wrote the page, its inputs and the date; empty if unknown.
    """
    trace = report.trace
    found = [f"{shape_text(each)} {each.dtype}" for each in inputs_of(trace)] if trace.run.nodes else []
    more = [f"{exact(len(found) - MOST_INPUTS)} more"] if len(found) > MOST_INPUTS else []
    named = ", ".join([*found[:MOST_INPUTS], *more])
    mode = mode_of(trace)
    phases = dict.fromkeys(record.call.phase for record in trace)
    phrases = [
        *([f"input{'s' * (len(found) > 1)} {named}"] if found else []),
        *([f"{mode} mode"] if mode else []),
        *([", ".join(phases)] if phases else []),
        *(f"{name} {version}" for name, version in report.versions.items() if name != "convention"),
    ]
    command = [f"<code>{text(made)}</code>"] if made else []
    return "<br>".join([*command, text(" · ".join(phrases))])


def inputs_of(trace: Trace) -> Iterator[Tensor]:
    """Yield the inputs of a graph: what its calls read and none of them makes, but weights and state.

    Of a model that is run, buffers are among these tensors; the command states its inputs.
    """
    known: set[int] = set()
    for record in trace:
        call = record.call
        if call.phase != "forward":
            continue
        for operand, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            if operand not in known and tensor.role == "data" and tensor.shape:
                yield tensor
            known.add(operand)
        known.update(call.outputs)


def shape_text(tensor: Tensor) -> str:
    """Return a shape as text, ``1 × 3 × 224 × 224``."""
    return " × ".join(map(as_text, tensor.shape))
