"""What values of an ONNX graph are to plans of memory: sequences of others, sizes that are unknown, stored tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from costcore import graphs
from costcore.ir import Tensor
from costcore.numbers.dims import Dim
from costcore.trace.dataflow import Value as Size
from costcore.trace.recorder import Recorder

from ..values.containers import element_of, has_known_shape
from ..values.dimensions import Dimensions
from ..values.value import Container, StoredTensor, Value
from .unranked import UnrankedValues


class DataflowLog(graphs.DataflowLog[Value]):
    """Notes what calls read and produce beside the operands of their layers.

    Args:
        recorder: gives new ids.
        dims: named dimensions.
        unranked: the values of unknown rank.
    """

    def __init__(self, recorder: Recorder, dims: Dimensions, unranked: UnrankedValues) -> None:
        super().__init__(recorder)
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

    def own_memory(self, value: Value) -> bool:
        """Return whether a value is computed, and is not a sequence of values that have memory of their own."""
        return value.stored is None and not (isinstance(value, Container) and value.items is not None)

    def can_be_continued(self, value: Value) -> bool:
        """Return whether another value may take over the memory of a value: that of a sequence grows."""
        return value.stored is None and not isinstance(value, Container)

    def made(self, outputs: Sequence[Value | None], results: frozenset[int] | tuple[int, ...]) -> list[Value]:
        """Return the values that a node computes beside those with the ids ``results``; new items of a sequence too."""
        found: list[Value] = []
        for value in outputs:
            if value is None or value.stored is not None:
                continue
            if isinstance(value, Container) and value.items is not None:
                found += [item for item in value.items if not item.identity and item.stored is None]
            elif (value.identity or self.identity(value)) not in results:
                found.append(value)
        return found

    def view(self, value: Value, of: int) -> None:
        """Note that a tensor is in the memory of the one with the id ``of``."""
        if not isinstance(value, Container):
            super().view(value, of)

    def nbytes(self, value: Value) -> Dim:
        """Return the bytes of a value; a symbol stands for those of a sequence of unknown items."""
        if isinstance(value, Container):
            if value.items is not None:
                return sum(self.nbytes(item) for item in value.items)
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


def stored_sizes(stored: Iterable[StoredTensor]) -> list[Size]:
    """Return the stored tensors that the run reads, with their bytes; those without a reader of elements have 0."""
    return [
        Size(t.identity, Tensor((t.size,), t.dtype).nbytes if t.uses else 0, t.name)
        for t in stored
        if t.uses or t.identity
    ]
