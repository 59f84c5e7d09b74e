"""Nodes and values of a graph as a file states them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from costcore.ir import Tensor, prod
from costcore.numbers.dims import Dim

REAL = frozenset(("bfloat16", "float16", "float32", "float64"))


@dataclass(slots=True, eq=False)
class GraphValue:
    """A value of a graph.

    Attributes:
        shape: the size of each axis.
        dtype: a key of :data:`costcore.ir.BITS`.
        name: its name in the file.
        is_stored: whether the file stores it: a weight or a constant.
        data: its elements in order, if it is a small constant; None for any other.
        identity: its operand id; 0 until it is recorded.
        is_parameter: whether a call reads it as a learned parameter: as a weight or bias, or as anything if the reader
            says so beforehand.
        is_state: whether a call reads it as a state, such as running statistics.
        base: the value whose memory it shows in another order or shape; None for a value of its own.
    """

    shape: tuple[Dim, ...]
    dtype: str
    name: str = ""
    is_stored: bool = False
    data: tuple[Any, ...] | None = None
    identity: int = 0
    is_parameter: bool = False
    is_state: bool = False
    base: GraphValue | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_real(self) -> bool:
        """Whether its elements stand for real numbers, as those of a view do that unpacks stored weights."""
        return self.dtype in REAL or self.base is not None

    @property
    def nbytes(self) -> Dim:
        """The bytes in memory, or in the file."""
        return Tensor(self.shape, self.dtype).nbytes

    def viewed(self, *shape: Dim) -> GraphValue:
        """Return the same value with other axes, as a formula names them: ``[N, H, W, C]`` as ``[N, C, H, W]``."""
        return GraphValue(shape, self.dtype, self.name, self.is_stored, self.data, base=self.base or self)

    def permuted(self, *axes: int) -> GraphValue:
        """Return the same value with its axes in another order."""
        return self.viewed(*(self.shape[axis] for axis in axes))


class GraphNode(NamedTuple):
    """An operator of a graph.

    Attributes:
        native: full name of the operator, ``tflite::CONV_2D``, as rows name it.
        type: its short name, ``CONV_2D``.
        args: operands (:class:`GraphValue`, lists of these, or None) and attributes, by name.
        outputs: the values that it produces.
        name: its name; empty if it has none.
        module: path of the module around it; empty if unknown.
        scratch: bytes of each buffer that the runtime takes for it while it runs.
    """

    native: str
    type: str
    args: Mapping[str, Any]
    outputs: Sequence[GraphValue]
    name: str = ""
    module: str = ""
    scratch: Sequence[Dim] = ()


def values_in(items: Iterable[Any]) -> list[GraphValue]:
    """Return the values among arguments, those in lists too."""
    found = []
    for item in items:
        if isinstance(item, GraphValue):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            found += [part for part in item if isinstance(part, GraphValue)]
    return found
