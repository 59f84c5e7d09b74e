"""Patterns meet nodes of any rank and size, and nodes that change nothing: none may raise an error of Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from costcore import CostError, estimate
from costcore.frontends.onnx.regroup import PATTERNS, TORCHSCRIPT_PATTERNS
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (1, 1), (0, 3), (2, 2), (1, 1, 1), (2, 0, 2), (1, 1, 1, 1))
SPELLINGS = 4
"""How many spellings of a pattern are written: its alternatives are taken in turn."""

FURTHER: dict[str, tuple[Any, ...]] = {
    "Clip": (0.0, 6.0),
    "Expand": ([1],),
    "Gather": ([0],),
    "GatherND": ([[0]],),
    "ReduceMax": ([-1],),
    "ReduceMean": ([-1],),
    "ReduceSum": ([-1],),
    "ReduceL2": ([-1],),
    "Reshape": ([-1],),
    "ScatterND": ([[0]], [0.0]),
    "SequenceAt": (0,),
    "Slice": ([0], [9]),
    "Squeeze": ([0],),
    "Unsqueeze": ([0],),
    "Where": (True, 0.0, 0.0),
}
"""Inputs that an operator needs beyond those of a pattern: from which position on, they are taken from here."""

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Cast": {"to": TensorProto.FLOAT},
    "Concat": {"axis": 0},
    "Einsum": {"equation": "i,i->i"},
}
INTEGERS = {"Gather": 1, "GatherND": 1, "Expand": 1, "Reshape": 1, "ScatterND": 1, "ScatterElements": 1, "Range": 0}
BOOLEANS = ("Where", "Not")
"""Operators whose first operand is a condition."""


class Writer:
    """Writes a pattern as nodes whose operands all have one shape.

    Args:
        shape: the shape.
        turn: which alternatives are written.
        keeps: whether transpositions keep the order of the axes.
        stores: whether operands are stored numbers, so that nodes make constants.
    """

    def __init__(self, shape: tuple[int, ...], turn: int, *, keeps: bool, stores: bool) -> None:
        self.shape, self.turn, self.keeps, self.stores = shape, turn, keeps, stores
        self.nodes: list[Any] = []
        self.stored: list[TensorProto] = []
        self.inputs: dict[str, Any] = {}
        self.named: dict[str, str] = {}
        self.numbers = count()

    def store(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self.stored.append(numpy_helper.from_array(array, f"c{next(self.numbers)}"))
        return self.stored[-1].name

    def write(self, pattern: Pattern, kind: int = TensorProto.FLOAT) -> str:
        if isinstance(pattern, Operand):
            if self.stores:
                dtype = helper.tensor_dtype_to_np_dtype(kind)
                self.named.setdefault(pattern.name, self.store(np.ones(self.shape, dtype)))
                return self.named[pattern.name]
            self.inputs.setdefault(pattern.name, helper.make_tensor_value_info(pattern.name, kind, self.shape))
            return pattern.name
        if isinstance(pattern, Number):
            number = 0.5 if pattern.number is None else pattern.number
            return self.store(np.asarray(int(number)) if kind == TensorProto.INT64 else number)
        if isinstance(pattern, Named):
            if pattern.name not in self.named:
                self.named[pattern.name] = self.write(pattern.pattern, kind)
            return self.named[pattern.name]
        if isinstance(pattern, Either):
            return self.write(pattern.patterns[self.turn % len(pattern.patterns)], kind)
        return self.write_node(pattern)

    def write_node(self, op: Op) -> str:
        kinds = [self.kind(op.kind, i) for i in range(len(op.operands))]
        given = [self.write(operand, kind) for operand, kind in zip(op.operands, kinds, strict=True)]
        if op.kind == "InstanceNormalization":
            given[1:] = [self.store([1.0]), self.store([0.0])]
        if not given:
            given = [self.store(np.asarray(n)) for n in (0, 3, 1)] if op.kind == "Range" else [self.write(Operand("x"))]
        if op.kind == "Pad":
            given.append(self.store([0] * 2 * len(self.shape)))
        given += [self.store(value) for value in FURTHER.get(op.kind, ())[max(len(given) - 1, 0) :]]
        attributes = dict(ATTRIBUTES.get(op.kind, {}))
        if op.kind == "Transpose" and self.keeps and self.shape:
            attributes["perm"] = list(range(len(self.shape)))
        made = [f"{op.kind}{next(self.numbers)}_{i}" for i in range(max(op.output + 1, 2 if op.kind == "Split" else 1))]
        if op.kind == "Split":
            attributes["num_outputs"] = len(made)
        self.nodes.append(helper.make_node(op.kind, given, made, **attributes))
        return made[op.output]

    @staticmethod
    def kind(op: str, i: int) -> int:
        if op in INTEGERS and i >= INTEGERS[op] and (op == "Range" or i == INTEGERS[op]):
            return TensorProto.INT64
        return TensorProto.BOOL if op in BOOLEANS and i == 0 else TensorProto.FLOAT

    def model(self, pattern: Pattern) -> ModelProto:
        y = self.write(pattern)
        output = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "graph", list(self.inputs.values()), [output], self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def spellings(name: str) -> Iterator[ModelProto]:
    """Yield a pattern in its spellings, of every shape, with transpositions that change nothing and that reverse."""
    written = set()
    for pattern in filter(None, (PATTERNS[name].pattern, TORCHSCRIPT_PATTERNS.get(name))):
        for shape, turn, keeps, stores in product(SHAPES, range(SPELLINGS), (True, False), (True, False)):
            made = Writer(shape, turn, keeps=keeps, stores=stores).model(pattern)
            if (content := made.SerializeToString()) not in written:
                written.add(content)
                yield made


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("name", PATTERNS)
def test_any_shape_is_counted_or_refused(name):
    counted = 0
    for made in spellings(name):
        try:
            report = estimate(made, regroup=(name,), explain_regroup=True)
        except CostError:
            continue
        counted += len(report.calls) > 0
    assert counted
