"""A line of a table of operators that ONNX Runtime adds: what one node costs, worked out by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

from onnx import TensorProto

from costcore.ir import Operations
from tests.frontends.onnx.contrib.single_node import UINT8, priced, shapes

S, Z = [0.5], {(UINT8, (1,))}
"""A scale and a zero point: numbers of an instruction, which take no bytes."""

O = Operations  # noqa: E741 - one letter, so that a line of the table stays one


class Line(NamedTuple):
    """One node, and the canonical operator, operations, macs, bytes and shapes that are expected of it."""

    native: str
    inputs: list[Any]
    attrs: dict[str, Any]
    op: str
    operations: Operations
    macs: int
    read: int
    written: int
    shapes: list[tuple[int, ...]]


def check(line: Line) -> None:
    """Hold the line to what the node costs."""
    layer, cost, _ = priced(line.native, *line.inputs, outputs=len(line.shapes), **line.attrs)
    assert (layer.op, shapes(layer)) == (line.op, line.shapes)
    assert cost.flops == line.operations
    assert (cost.macs, cost.mread, cost.mwrite) == (line.macs, line.read, line.written)


def without_an_axis(x: Any) -> Any:
    """An operand of a line without its last axis; None for one that has none, and for a constant."""
    if x is None or isinstance(x, list):
        return None
    (spec,) = x if isinstance(x, set) else (x,)
    kind, shape = spec if len(spec) == 2 and isinstance(spec[1], tuple) else (TensorProto.FLOAT, spec)
    short = (kind, shape[:-1])
    return None if not shape else {short} if isinstance(x, set) else short
