"""Reads the nodes of an execution trace of PyTorch (``ExecutionTraceObserver``)."""

from __future__ import annotations

from sys import intern
from typing import Any

from .records import NODE, Argument, Constant, ListArgument, Missing, Op, Recorded, TensorArgument

ROOT = "[pytorch|profiler|execution_trace"
"""The beginning of the names of nodes that stand for a process or a thread."""

_NONE = "<None>"


class ExecutionTraceReader:
    """Takes the nodes of a file one at a time.

    An operator that an exception ended is missing, and so are those around it. What is inside of them is at the top,
    without the views of the operator that ended. It was a recomputation of the backward pass.
    """

    def __init__(self) -> None:
        self.recorded = Recorded(has_times=False, has_shapes=True)
        self._ops: dict[int, tuple[Op, Any]] = {}
        self._roots: set[Any] = set()

    def add(self, node: Any) -> None:
        """Take one node."""
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            return
        name, identity = node["name"], node.get("id")
        if type(identity) is not int:
            return
        if name.startswith(ROOT):
            self._roots.add(identity)
            return
        attributes = {
            each["name"]: each.get("value")
            for each in node.get("attrs") or ()
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        } or node
        order = attributes.get("rf_id")
        order = order if type(order) is int else identity
        sequence, schema = attributes.get("seq_id"), attributes.get("op_schema")
        op = Op(
            intern(name),
            _values(node, "input"),
            order,
            order,
            (0, attributes.get("tid") if isinstance(attributes.get("tid"), int) else 0),
            sequence if type(sequence) is int else -1,
            order,
            schema if isinstance(schema, str) else "",
            _values(node, "output"),
        )
        parent = node.get("ctrl_deps", node.get("parent"))
        self._ops[identity] = op, parent if type(parent) is int else None

    def finish(self) -> Recorded:
        """Return what was read, each operator with its parent and children."""
        for op, parent in self._ops.values():
            around = self._ops.get(parent)
            if around is not None and around[0] is not op:
                op.parent = around[0]
                around[0].children.append(op)
            elif parent in self._roots or not self._roots:
                self.recorded.ops.append(op)
            elif op.sequence < 0:
                op.parent = Op(NODE, (), op.start, op.end, op.thread, children=[op])
                self.recorded.ops.append(op.parent)
        ops, waiting = [], self.recorded.ops
        while waiting:
            op = waiting.pop()
            op.children.sort(key=lambda child: child.start)
            ops.append(op)
            waiting += op.children
        self.recorded.ops = sorted(ops, key=lambda each: each.start)
        return self.recorded


def _values(node: dict[str, Any], side: str) -> tuple[Argument, ...]:
    """Return the arguments or results of a node, in either of the two forms of the format."""
    found = node.get(f"{side}s")
    if isinstance(found, dict):
        columns = [found.get(key) for key in ("values", "shapes", "strides", "types")]
    else:
        columns = [found, node.get(f"{side}_shapes"), node.get(f"{side}_strides"), node.get(f"{side}_types")]
    values, shapes, strides, types = (x if isinstance(x, list) else [] for x in columns)
    n = len(values)
    shapes, strides, types = (x + [None] * (n - len(x)) for x in (shapes, strides, types))
    return tuple(_value(*row) for row in zip(values, shapes, strides, types, strict=False))


def _value(value: Any, shape: Any, strides: Any, kind: Any, depth: int = 0) -> Argument:
    if not isinstance(kind, str) or depth > 8:
        return Missing()
    if kind.startswith("Tensor("):
        return _tensor(value, shape, strides, kind[7:-1])
    if kind.startswith(("GenericList[", "Tuple[")):
        inner = _split(kind[kind.index("[") + 1 : -1])
        if not isinstance(value, list):
            return Missing()
        if any(each.startswith("Tensor(") for each in inner):
            sizes = shape if isinstance(shape, list) else []
            steps = strides if isinstance(strides, list) else []
            sizes, steps = (x + [None] * (len(value) - len(x)) for x in (sizes, steps))
            rows = zip(value, sizes, steps, inner, strict=False)
            return ListArgument(tuple(_value(*row, depth=depth + 1) for row in rows))
        return Constant([None if each == _NONE else each for each in value])
    if kind in ("None", "Device") or value == _NONE:
        return Missing()
    return Constant(value)


def _tensor(value: Any, shape: Any, strides: Any, dtype: str) -> Argument:
    if "nullptr" in dtype or not isinstance(shape, list) or not all(type(x) is int for x in shape):
        return Missing()
    steps = tuple(strides) if isinstance(strides, list) and len(strides) == len(shape) and shape else None
    key = tuple(value[:3]) if isinstance(value, list) and all(isinstance(x, (int, str)) for x in value[:3]) else None
    return TensorArgument(tuple(shape), steps, intern(dtype), key)


def _split(text: str) -> list[str]:
    """Return the types between the commas that are not inside of brackets."""
    found, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character == "," and depth == 0:
            found.append(text[start:i])
            start = i + 1
        depth += (character in "([<") - (character in ")]>")
    return [*found, text[start:]] if text else []
