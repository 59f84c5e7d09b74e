"""The values of a graph beside the operands of its calls: hidden inputs, loops, branches, and what is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.dataflow import Dataflow, Step
from costcore.trace.dataflow import Value as Size
from costcore.trace.overwritable import VIEWS, overwritable
from costcore.trace.recorder import Recorder

V = TypeVar("V")

FEW = 16
"""Among fewer ids a search in a tuple is faster than a set."""


class DataflowLog(ABC, Generic[V]):
    """Notes what calls read and produce beside the operands of their layers, for plans of memory.

    A frontend derives from it and says what its values are: :meth:`identity`, :meth:`ids`, :meth:`nbytes`,
    :meth:`own_memory` and :meth:`made`.

    Args:
        recorder: gives new ids.

    Attributes:
        steps: the steps noted so far, see :class:`costcore.trace.dataflow.Dataflow`.
        views: pairs of values that share their memory.
        spans: first and last ids of loops and branches.
        unknown: why lifetimes are unknown.
        unplanned: ids of values whose shapes a runtime does not know before it runs.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.steps: list[Step] = []
        self.views: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int]] = []
        self.unknown: dict[str, None] = {}
        self.unplanned: tuple[int, ...] = ()
        self.new_id = recorder.new_id

    @abstractmethod
    def identity(self, value: V) -> int:
        """Return the operand id of a value."""

    @abstractmethod
    def ids(self, values: Iterable[V | None]) -> list[int]:
        """Return the ids of those values that are computed, not stored."""

    @abstractmethod
    def nbytes(self, value: V) -> Dim:
        """Return the bytes of a value in memory."""

    @abstractmethod
    def own_memory(self, value: V) -> bool:
        """Return whether a value is computed, and has memory of its own."""

    def can_be_continued(self, value: V) -> bool:
        """Return whether another value may take over the memory of a value."""
        return self.own_memory(value)

    def made(self, outputs: Sequence[V | None], results: frozenset[int] | tuple[int, ...]) -> list[V]:
        """Return the values that a node computes beside those with the ids ``results``."""
        return [v for v in outputs if v is not None and self.own_memory(v) and self.identity(v) not in results]

    def size(self, value: V, name: str = "") -> Size:
        """Return a value with its bytes."""
        return Size(self.identity(value), self.nbytes(value), name)

    def operands(
        self, call: Call, inputs: Iterable[V | None], outputs: Sequence[V | None], scratch: Sequence[Dim] = ()
    ) -> None:
        """Note what a call reads and produces beside the operands of its layer.

        Args:
            call: the call.
            inputs: all values that its node reads.
            outputs: all values that its node produces.
            scratch: bytes of each buffer that the runtime takes for it while it runs.
        """
        operands = call.inputs if len(call.inputs) < FEW else frozenset(call.inputs)
        results = call.outputs if len(call.outputs) < FEW else frozenset(call.outputs)
        reads = tuple([identity for identity in self.ids(inputs) if identity not in operands])
        made = self.made(outputs, results)
        if reads or made or scratch:
            makes = [self.size(value) for value in made]
            makes += [Size(self.new_id(), nbytes, f"scratch of {call.type}") for nbytes in scratch]
            at, name = (call.outputs[0], "") if call.outputs else (self.new_id(), call.type)
            self.steps.append(Step(at, reads, tuple(makes), name=name))

    def skipped(
        self, first: int, calls: Iterable[Call], steps: Iterable[Step], outputs: Sequence[V], label: str
    ) -> None:
        """Note the calls of a branch that is not counted: its memory is needed if data selects it.

        Args:
            first: id at which the choice begins.
            calls: the calls of the branch.
            steps: what was noted of values in it.
            outputs: what the branch returns.
            label: the branch in tables.
        """
        beside: dict[int, list[Step]] = {}
        moments: list[tuple[int, Step]] = []
        for step in steps:
            if step.name:
                moments.append((step.at, step))
            else:
                beside.setdefault(step.at, []).append(step)
        last = first
        for call in calls:
            last = call.outputs[0] if call.outputs else last
            further = beside.pop(last, [])
            sizes = zip(call.outputs, call.layer.outputs, strict=True)
            makes = [Size(identity, tensor.nbytes) for identity, tensor in sizes]
            views = [(call.outputs[0], call.inputs[0])] if call.layer.op in VIEWS and call.inputs and makes else []
            pairs = [(call.outputs[0], call.inputs[k]) for k in overwritable(call.layer)]
            moments.append(
                (
                    last,
                    Step(
                        last,
                        (*call.inputs, *(identity for step in further for identity in step.reads)),
                        (*makes, *(value for step in further for value in step.makes)),
                        overwrites=tuple(pairs),
                        views=tuple(views),
                        name=f"{label}: {call.type}",
                    ),
                )
            )
        self.steps += [step._replace(at=first) for _, step in sorted(moments, key=lambda moment: moment[0])]
        self.steps.append(Step(first, tuple(self.ids(outputs)), name=f"{label}: end"))

    def start_of(
        self,
        first: int,
        label: str,
        before: Sequence[V] = (),
        inner: Sequence[V] = (),
        further: Iterable[V] = (),
        reads: Iterable[V | None] = (),
    ) -> None:
        """Note the start of an inner graph: its values continue those before it, or are copies if these stay.

        Args:
            first: id at which it begins.
            label: the graph in tables.
            before: the values before it.
            inner: the same values in the graph.
            further: other values that exist from then on, such as joined outputs.
            reads: other values that it needs.
        """
        makes, takes = self._continued(inner, before)
        makes += tuple(self.size(value) for value in further)
        needed = dict.fromkeys(self.ids([*before, *reads]))
        self.steps.append(Step(first, tuple(needed), makes, takes, name=f"{label}: start"))

    def end_of(self, first: int, label: str, inner: Sequence[V], found: Sequence[V | None]) -> None:
        """Note the end of an inner graph, between whose calls no others run.

        Args:
            first: id at which it begins.
            label: the graph in tables.
            inner: values of the graph that are needed to the end; the results continue the first of them.
            found: the results.
        """
        end = self.new_id()
        makes, takes = self._continued(found, inner)
        self.steps.append(Step(end, tuple(self.ids(inner)), makes, takes, name=f"{label}: end"))
        self.spans.append((first, end))

    def _continued(
        self, after: Sequence[V | None], before: Sequence[V]
    ) -> tuple[tuple[Size, ...], tuple[tuple[int, int], ...]]:
        """Return values that continue others, and the pairs of both that may share their memory."""
        makes, takes = [], []
        for new, old in zip(after, before, strict=False):
            if new is None or new is old or not self.own_memory(new):
                continue
            makes.append(self.size(new))
            if self.can_be_continued(old):
                takes.append((self.identity(new), self.identity(old)))
        return tuple(makes), tuple(takes)

    def view(self, value: V, of: int) -> None:
        """Note that a value is in the memory of the one with the id ``of``."""
        self.views.append((self.identity(value), of))

    def dataflow(self, inputs: Iterable[Size], stored: Iterable[Size]) -> Dataflow:
        """Return everything that was noted, with the inputs of the graph and its stored tensors."""
        return Dataflow(
            inputs=tuple(inputs),
            stored=tuple(stored),
            steps=tuple(self.steps),
            views=tuple(self.views),
            spans=tuple(self.spans),
            unknown=tuple(self.unknown),
            unplanned=self.unplanned,
        )
