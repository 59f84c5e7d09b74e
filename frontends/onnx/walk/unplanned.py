"""Which values have shapes that ONNX Runtime does not know before it runs, because the graph computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from costcore.numbers.dims import Dim, is_symbolic

from ..values.value import Value

DYNAMIC = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators whose results have a shape that elements decide."""

DECIDING: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "OneHot", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample"), (1,)),
    "ConstantOfShape": (0,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}
"""Positions of the operands whose elements decide the shape of the result."""

DEPENDENT = DYNAMIC | DECIDING.keys()

PARTS = frozenset(("Cast", "Gather", "Squeeze", "Unsqueeze"))
"""Operators whose elements ONNX Runtime takes from those of ``Shape`` while it infers shapes; ``Concat`` joins such."""

FOLLOWED = frozenset(("Concat", "Shape", *PARTS))

SIZES = ("Shape", "Size")
"""Operators whose results have a shape that does not depend on that of their operand."""

SHAPED = frozenset(("ConstantOfShape", "Expand", "Reshape"))
"""Operators whose inference takes elements that were computed so; that of others takes stored ones."""

BROADCAST = frozenset(
    (
        *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min"),
        *("Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
    )
)
"""Operators whose result has the larger dimensions of their operands."""

_op_type = attrgetter("op_type")

Known = tuple[bool, ...]
"""For each dimension whether it is known before the run."""


def unplanned(graph: Any, values: Mapping[str, Value]) -> tuple[int, ...]:
    """Return the operand ids of values whose shapes ONNX Runtime does not know before it runs.

    Args:
        graph: the graph of the model.
        values: its values by name, with the shapes of this run.
    """
    if DEPENDENT.isdisjoint(map(_op_type, graph.node)):
        return ()
    nodes = [node for node in graph.node if node.op_type in DEPENDENT]
    stored = {tensor.name for tensor in graph.initializer}
    stored.update(node.output[0] for node in graph.node if node.op_type == "Constant")
    if not any(node.op_type in DYNAMIC or not stored.issuperset(filter(None, _deciding(node))) for node in nodes):
        return ()
    return _Planning(graph, values, stored).run()


def _deciding(node: Any) -> list[str]:
    """Return the operands of a node whose elements decide the shape of its result."""
    positions = DECIDING.get(node.op_type)
    return [node.input[i] for i in positions if i < len(node.input)] if positions else []


def _of_indices(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    return read[1] if len(read) > 1 else (False,) * rank


def _reshaped(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    target = values.get(node.input[1])
    if target is None or target.data is None or len(target.data) != rank:
        return (False,) * rank
    keeps = [axis < len(read[0]) and read[0][axis] for axis in range(rank)]
    return tuple(keeps[axis] if dim == 0 else dim != -1 for axis, dim in enumerate(target.data))


def _transposed(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    orders = [attribute.ints for attribute in node.attribute if attribute.name == "perm"]
    order = [*orders[0]] if orders else [*reversed(range(rank))]
    if sorted(order) != [*range(len(read[0]))]:  # the operand is of another graph: a damaged file uses its name twice
        return (False,) * rank
    return tuple(read[0][axis] for axis in order)


def _product(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    first, second = read if len(read) == 2 else ((), ())
    if len(first) == rank > 1 and len(second) > 1:
        rows = all(second[:-2])
        return (*(flag and rows for flag in first[:-2]), first[-2], second[-1])
    return (False,) * rank


RULES: Mapping[str, Callable[[Any, Sequence[Known], int, Mapping[str, Value]], Known]] = {
    "GatherElements": _of_indices,
    "MatMul": _product,
    "Reshape": _reshaped,
    "Transpose": _transposed,
}
"""Which dimensions of a result are known if not all of its operands are: of a node, what is known of these, the rank of
the result, and the values of the graph."""


class _Planning:
    """Follows the knowledge of shapes through a graph, as the inference of ONNX Runtime does.

    Source: ``onnxruntime/core/graph/graph.cc`` and its ``data_propagation``, and the inference functions of onnx.
    """

    def __init__(self, graph: Any, values: Mapping[str, Value], stored: set[str]) -> None:
        self._graph = graph
        self._values = values
        self._known: dict[str, Known] = {}
        """Values with a dimension that is not known."""
        self._stored = stored
        self._sizes: set[str] = set()
        """Values whose elements are sizes of others that are known before the run."""
        self._elements = set(self._stored)
        """Values whose elements are known before the run."""
        self._numbers = set(self._stored)
        """Values whose shapes are numbers that are known before the run."""
        self._declared: set[str] = set()
        for entry in (*graph.value_info, *graph.output, *graph.input):
            dims = entry.type.tensor_type.shape.dim
            if all(dim.HasField("dim_value") or dim.dim_param for dim in dims):
                self._declared.add(entry.name)
                if all(dim.HasField("dim_value") for dim in dims):
                    self._numbers.add(entry.name)

    def run(self) -> tuple[int, ...]:
        """Return the operand ids of values with a dimension that is not known."""
        found: list[int] = []
        for node in self._graph.node:
            op, inputs, outputs = node.op_type, [*filter(None, node.input)], [*filter(None, node.output)]
            has_numbers = op in SIZES or self._numbers.issuperset(inputs)
            if op in FOLLOWED:
                self._follow_sizes(op, inputs, outputs)
            is_plain = op not in DEPENDENT and self._known.keys().isdisjoint(inputs)
            for name in outputs:
                value = self._values.get(name)
                if value is None or value.shape is None:
                    continue
                if is_plain or name in self._declared or all(known := self._of(node, op, inputs, value.shape)):
                    if has_numbers:
                        self._numbers.add(name)
                    continue
                self._known[name] = known
                if value.identity and value.stored is None:
                    found.append(value.identity)
        return tuple(found)

    def _follow_sizes(self, op: str, inputs: list[str], outputs: list[str]) -> None:
        """Note whether the elements of a result are known before the run."""
        is_size = [name in self._sizes for name in inputs]
        if (
            (op == "Shape" and inputs[0] in self._numbers)
            or (op == "Concat" and all(is_size))
            or (op in PARTS and is_size[0] and self._stored.issuperset(inputs[1:]))
        ):
            self._sizes.update(outputs)
            self._elements.update(outputs)

    def _of(self, node: Any, op: str, inputs: list[str], shape: tuple[Dim, ...]) -> Known:
        """Return which dimensions of a result are known; ``inputs`` are the operands that are given."""
        rank, read = len(shape), inputs
        if op in DYNAMIC:
            return (False,) * rank
        if op in DECIDING:
            elements = self._elements if op in SHAPED else self._stored
            if not elements.issuperset(filter(None, _deciding(node))):
                return (False,) * rank
            read = [name for i, name in enumerate(node.input) if name and i not in DECIDING[op]]
        if op in SIZES or self._known.keys().isdisjoint(read):
            return (True,) * rank
        if op in BROADCAST:
            return self._broadcast(read, shape)
        if op in RULES:
            return RULES[op](node, [self._flags(name) for name in read], rank, self._values)
        operand = self._values.get(read[0])
        if operand is not None and operand.shape == shape and self._known.keys().isdisjoint(read[1:]):
            return self._flags(read[0])
        return (False,) * rank

    def _broadcast(self, read: list[str], shape: tuple[Dim, ...]) -> Known:
        rank, distinct = len(shape), set(map(self._flags, read))
        if len(distinct) == 1:
            return distinct.pop()
        return tuple(
            any(self._fixes(name, axis - rank, shape[axis]) for name in read)
            or all(self._is_known(name, axis - rank) for name in read)
            for axis in range(rank)
        )

    def _flags(self, name: str) -> Known:
        value = self._values.get(name)
        rank = 0 if value is None or value.shape is None else len(value.shape)
        return self._known.get(name, (True,) * rank)

    def _is_known(self, name: str, axis: int) -> bool:
        flags = self._flags(name)
        return -axis > len(flags) or flags[axis]

    def _fixes(self, name: str, axis: int, dim: Dim) -> bool:
        """Return whether an operand has a known dimension here that others are repeated to."""
        flags, value = self._flags(name), self._values.get(name)
        if value is None or value.shape is None or -axis > len(flags) or not flags[axis]:
            return False
        return not is_symbolic(dim) and value.shape[axis] == dim and bool(dim != 1)
