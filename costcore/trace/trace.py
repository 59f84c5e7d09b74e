"""The trace: a captured run with the cost of every call, which every analysis reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from costcore.ir import Cost
from costcore.trace.call import Call, Uncounted, with_names
from costcore.trace.records import records_of_part
from costcore.trace.run import Run


class CallCost(NamedTuple):
    """A call and its cost.

    Attributes:
        call: the call.
        cost: what one execution of it costs; None if it could not be counted.
        uncounted: why it could not be counted; None if it has a cost.
        reason: the same as a sentence, with the operator's name or the error of its calculator.
        seconds: how long the call took; None if that was not measured.
    """

    call: Call
    cost: Cost | None
    uncounted: Uncounted | None = None
    reason: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """A captured run: its calls in order, the cost of each, and what holds for all of them.

    This is the input of every analysis, of this package and of others: ``report.trace`` returns it. Iterating over it
    yields a :class:`CallCost` for each call::

        for call, cost, *_ in report.trace:
            print(call.name, call.layer.op, call.inputs, call.outputs, call.storages, cost)

    Operand ids (``call.inputs``, ``call.outputs``) connect calls to a graph: an id among the outputs of one call and
    the inputs of another is a value that the first produces and the second reads. Storage ids identify views and
    in-place writes. Parameter ids identify shared parameters; ``run.parameters`` has the size of each. Ids are unique
    within a run.

    Attributes:
        records: a :class:`CallCost` for every call, in the order of execution.
        run: options, parameters, modules, assumptions and versions of the run.
    """

    records: tuple[CallCost, ...]
    run: Run

    def __repr__(self) -> str:
        return f"<Trace: {len(self)} call{'s' * (len(self) != 1)}, {self.status}>"

    def __iter__(self) -> Iterator[CallCost]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call in the order of execution, those without a cost too."""
        return tuple(record.call for record in self.records)

    @property
    def costs(self) -> tuple[Cost | None, ...]:
        """The cost of one execution of each call, None for a call that could not be counted.

        A call in the body of a loop runs ``call.times`` times.
        """
        return tuple(record.cost for record in self.records)

    def only(self, positions: Iterable[int]) -> Trace:
        """Return the run with some of its calls, named anew.

        Args:
            positions: the positions of these calls, in order.
        """
        new = {position: i for i, position in enumerate(positions)}
        calls = with_names(self.records[position].call for position in new)
        records = (self.records[position]._replace(call=call) for position, call in zip(new, calls, strict=True))
        return Trace(tuple(records), replace(self.run, records=records_of_part(self.run.records, new)))

    @property
    def is_complete(self) -> bool:
        """Whether every call has a cost."""
        return all(record.cost is not None for record in self.records)

    @property
    def has_backward(self) -> bool:
        """Whether a backward pass was captured, as in a training step."""
        return any(record.call.phase == "backward" for record in self.records)

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``; see :attr:`costcore.Report.status`."""
        if not self.is_complete:
            return "partial"
        return "assumed" if self.run.assumptions else "complete"
