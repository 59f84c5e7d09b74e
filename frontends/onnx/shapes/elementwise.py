"""Shapes of operators that compute each element from the elements at the same position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from ..graph.node import Node, Rule
from ..values.constant_folding import BINARY, each
from ..values.value import FLOATS, Value
from .rules import broadcast, present_inputs, same_shape, same_shape_in


def arithmetic(node: Node) -> Sequence[Value]:
    """Infer the broadcast of all inputs; before opset 7 the second one is broadcast onto the first."""
    values = present_inputs(node)
    dtype = values[0].dtype
    name = node.op
    if name == "Div" and dtype in FLOATS:
        name = "Div of floats"
    elif name == "Mod" and node.args.get("fmod"):
        name = "Mod as in C"
    known = BINARY.get(name)
    fold = (lambda *arrays: reduce(each(known), arrays)) if known else None
    shape = values[0].known_shape if "broadcast" in node.args else broadcast(node, *(v.known_shape for v in values))
    return [node.result(shape, dtype, fold)]


def comparison(node: Node) -> Sequence[Value]:
    """Infer bools in the broadcast of all inputs."""
    result = arithmetic(node)[0]
    result.dtype = "bool"
    return [result]


def where(node: Node) -> Sequence[Value]:
    """Infer the broadcast of condition and both inputs."""
    condition, x, y = node.value("condition"), node.value("X"), node.value("Y")
    shape = broadcast(node, condition.known_shape, x.known_shape, y.known_shape)
    return [node.result(shape, x.dtype, each(_chosen, takes_unknown=True))]


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    return None if condition is None else a if condition else b


RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Clip", "Cos", "Cosh"),
            *("Erf", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
        )
    },
    **{f"ai.onnx::{op}": same_shape_in("bool") for op in ("IsInf", "IsNaN")},
    **{
        f"ai.onnx::{op}": arithmetic
        for op in (
            *("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul"),
            *("Pow", "Sub", "Sum"),
        )
    },
    **{
        f"ai.onnx::{op}": comparison
        for op in ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor")
    },
    "ai.onnx::Where": where,
}
"""Rules by full operator name."""
