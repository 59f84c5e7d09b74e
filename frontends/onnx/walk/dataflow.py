"""The values of a graph beside the operands of its calls: hidden inputs, loops, branches, and what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from costcore.dims import Dim
from costcore.ir import Tensor
from costcore.trace.call import Call
from costcore.trace.dataflow import Dataflow, Step
from costcore.trace.dataflow import Value as Size
from costcore.trace.recorder import Recorder

from ..values.containers import element_of, has_known_shape
from ..values.dimensions import Dimensions
from ..values.value import Container, StoredTensor, Value
from .unranked import UnrankedValues


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
                found.append(self.identity(value))
        return found

    def size(self, value: Value, name: str = "") -> Size:
        """Return a value with its bytes; a symbol stands for those of a sequence of unknown items."""
        return Size(self.identity(value), self._nbytes(value), name)

    def operands(self, call: Call, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> None:
        """Note what a call reads and produces beside the operands of its layer."""
        reads = tuple([identity for identity in self.ids(inputs) if identity not in call.inputs])
        makes = []
        for value in outputs:
            if value is None or value.stored is not None:
                continue
            if isinstance(value, Container) and value.items is not None:
                makes += [self.size(item) for item in value.items if not item.identity and item.stored is None]
            elif self.identity(value) not in call.outputs:
                makes.append(self.size(value))
        if reads or makes:
            at, name = (call.outputs[0], "") if call.outputs else (self.new_id(), call.type)
            self.steps.append(Step(at, reads, tuple(makes), name=name))

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
        read = [tensor for tensor in stored if tensor.uses]
        return Dataflow(
            inputs=tuple([self.size(value, name) for name, value in inputs.items()]),
            stored=tuple([Size(t.identity, Tensor((t.size,), t.dtype).nbytes, t.name) for t in read]),
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
