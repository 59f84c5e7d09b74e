"""The values of a graph beside the operands of its calls: hidden inputs, loops, branches, and what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from costcore.ir import Tensor
from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.dataflow import Dataflow, Step
from costcore.trace.dataflow import Value as Size
from costcore.trace.overwritable import VIEWS, overwritable
from costcore.trace.recorder import Recorder

from ..values.containers import element_of, has_known_shape
from ..values.dimensions import Dimensions
from ..values.value import Container, StoredTensor, Value
from .unranked import UnrankedValues

FEW = 16
"""Among fewer ids a search in a tuple is faster than a set."""


class DataflowLog:
    """Notes what calls read and produce beside the operands of their layers, for plans of memory.

    Args:
        recorder: gives new ids.
        dims: named dimensions.
        unranked: the values of unknown rank.

    Attributes:
        steps: the steps noted so far, see :class:`costcore.trace.dataflow.Dataflow`.
        views: pairs of values that share their memory.
        spans: first and last ids of loops and branches.
        unknown: why lifetimes are unknown.
    """

    def __init__(self, recorder: Recorder, dims: Dimensions, unranked: UnrankedValues) -> None:
        self.steps: list[Step] = []
        self.views: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int]] = []
        self.unknown: dict[str, None] = {}
        self.new_id = recorder.new_id
        self._dims = dims
        self._unranked = unranked

    def identity(self, value: Value) -> int:
        """Return the operand id of a value that is not stored."""
        if not value.identity:
            value.identity = self.new_id()
        return value.identity

    def ids(self, values: Iterable[Value | None]) -> list[int]:
        """Return the ids of values that are computed; a sequence holds references to its items, if they are known."""
        found: list[int] = []
        for value in values:
            if isinstance(value, Container) and value.items is not None:
                found += self.ids(value.items)
            elif value is not None and value.stored is None:
                found.append(value.identity or self.identity(value))  # most have one already
        return found

    def size(self, value: Value, name: str = "") -> Size:
        """Return a value with its bytes; a symbol stands for those of a sequence of unknown items."""
        return Size(self.identity(value), self._nbytes(value), name)

    def operands(self, call: Call, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> None:
        """Note what a call reads and produces beside the operands of its layer."""
        operands = call.inputs if len(call.inputs) < FEW else frozenset(call.inputs)
        results = call.outputs if len(call.outputs) < FEW else frozenset(call.outputs)
        reads = tuple([identity for identity in self.ids(inputs) if identity not in operands])
        makes = []
        for value in outputs:
            if value is None or value.stored is not None:
                continue
            if isinstance(value, Container) and value.items is not None:
                makes += [self.size(item) for item in value.items if not item.identity and item.stored is None]
            elif (value.identity or self.identity(value)) not in results:
                makes.append(self.size(value))
        if reads or makes:
            at, name = (call.outputs[0], "") if call.outputs else (self.new_id(), call.type)
            self.steps.append(Step(at, reads, tuple(makes), name=name))

    def skipped(
        self, first: int, calls: Iterable[Call], steps: Iterable[Step], outputs: Sequence[Value], label: str
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

    def end_of(self, first: int, label: str, inner: Sequence[Value], found: Sequence[Value | None]) -> None:
        """Note the end of a loop or branch: its results continue the values that its graph returned.

        Args:
            first: id at which it begins.
            label: the loop or branch in tables.
            inner: values of its graph that are needed to the end; the results continue the first of them.
            found: the results.
        """
        end = self.new_id()
        makes, takes = self._continued(found, inner)
        self.steps.append(Step(end, tuple(self.ids(inner)), makes, takes, name=f"{label}: end"))
        self.spans.append((first, end))

    def start_of(
        self,
        first: int,
        label: str,
        before: Sequence[Value] = (),
        inner: Sequence[Value] = (),
        further: Iterable[Value] = (),
        reads: Iterable[Value | None] = (),
    ) -> None:
        """Note the start of a loop: its carried values continue those before it, or are copies if these stay.

        Args:
            first: id at which it begins.
            label: the loop or branch in tables.
            before: the values before it.
            inner: the same values in its body.
            further: other values that exist from then on, such as joined outputs.
            reads: other values that it needs.
        """
        makes, takes = self._continued(inner, before)
        makes += tuple(self.size(value) for value in further)
        needed = dict.fromkeys(self.ids([*before, *reads]))
        self.steps.append(Step(first, tuple(needed), makes, takes, name=f"{label}: start"))

    def _continued(
        self, after: Sequence[Value | None], before: Sequence[Value]
    ) -> tuple[tuple[Size, ...], tuple[tuple[int, int], ...]]:
        """Return values that continue others, and the pairs of both that may share their memory."""
        makes, takes = [], []
        for new, old in zip(after, before, strict=False):
            if new is None or new is old or (isinstance(new, Container) and new.items is not None):
                continue
            makes.append(self.size(new))
            if old.stored is None and not isinstance(old, Container):
                takes.append((self.identity(new), self.identity(old)))
        return tuple(makes), tuple(takes)

    def view(self, value: Value, of: int) -> None:
        """Note that a value is in the memory of the one with the id ``of``."""
        if not isinstance(value, Container):
            self.views.append((self.identity(value), of))

    def dataflow(
        self, inputs: Mapping[str, Value], stored: Iterable[StoredTensor], functions_are_reused: bool
    ) -> Dataflow:
        """Return everything that was noted.

        Args:
            inputs: the inputs of the graph by name.
            stored: the stored tensors of the model.
            functions_are_reused: whether equal calls of functions were walked only once.
        """
        if functions_are_reused:
            self.unknown.setdefault("equal calls of the model's functions are counted together")
        return Dataflow(
            inputs=tuple([self.size(value, name) for name, value in inputs.items()]),
            stored=tuple([Size(t.identity, _stored_bytes(t), t.name) for t in stored if t.uses or t.identity]),
            steps=tuple(self.steps),
            views=tuple(self.views),
            spans=tuple(self.spans),
            unknown=tuple(self.unknown),
        )

    def _nbytes(self, value: Value) -> Dim:
        if isinstance(value, Container):
            if value.items is not None:
                return sum(self._nbytes(item) for item in value.items)
            element = element_of(value)
            if element is not None and has_known_shape(element) and value.length is not None:
                return Tensor(element.known_shape, element.dtype).nbytes * value.length
            return self._dims.fresh(f"{value.kind}_{self.identity(value)}_bytes")
        if value.shape is None:
            self._unranked.add(value, f"value_{self.identity(value)}", "")
            return Tensor((self._unranked[value].size,), value.dtype).nbytes
        dims = (
            self._dims.fresh(f"value_{self.identity(value)}_{i}") if d is None else d for i, d in enumerate(value.shape)
        )
        return Tensor(tuple(dims), value.dtype).nbytes


def _stored_bytes(tensor: StoredTensor) -> Dim:
    """Return the bytes of a stored tensor, 0 without a reader."""
    return Tensor((tensor.size,), tensor.dtype).nbytes if tensor.uses else 0
