"""Operators on single elements that ONNX Runtime adds, or keeps of those that onnx has removed."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.numbers.dims import is_symbolic

from ..graph.node import Node
from ..schema.signature import ONNX
from ..shapes.rules import broadcast, like
from ..values.value import Value
from .spec import OperatorSpec, row


def complex_product(node: Node) -> Sequence[Value]:
    """Infer the broadcast of pairs of real and imaginary parts."""
    a, b = node.value("A"), node.value("B")
    if not all(v.known_shape and (v.known_shape[-1] == 2 or is_symbolic(v.known_shape[-1])) for v in (a, b)):
        raise node.error(
            f"needs real and imaginary parts as the last axis (got the shapes {a.known_shape} and {b.known_shape})"
        )
    return [node.result((*broadcast(node, a.known_shape[:-1], b.known_shape[:-1]), 2), a.dtype)]


def integer_product(node: Node) -> Sequence[Value]:
    """Infer the broadcast of two operands, as 32-bit integers."""
    return [node.result(broadcast(node, node.value("A").known_shape, node.value("B").known_shape), "int32")]


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BiasAdd",
        "X bias skip",
        required=3,
        infer=like("X"),
        rows=[row("add", {"x0": "X", "x1": "bias", "x2": "skip"})],
    ),
    *(
        OperatorSpec(
            op,
            "A B",
            required=2,
            infer=complex_product,
            rows=[row("complex_pairs_mul" if op == "ComplexMul" else "complex_pairs_mul_conj", {"x0": "A", "x1": "B"})],
        )
        for op in ("ComplexMul", "ComplexMulConj")
    ),
    OperatorSpec(
        "MulInteger",
        "A A_zero_point B B_zero_point",
        infer=integer_product,
        rows=[
            row("integer_mul", {"x0": "A", "x0_zero_point": "A_zero_point", "x1": "B", "x1_zero_point": "B_zero_point"})
        ],
    ),
    OperatorSpec(
        "ScaledSiLU",
        "X scale",
        infer=like("X"),
        rows=[row("scaled_silu", {"x": "X", "scale": "scale"})],
    ),
    OperatorSpec(
        "GatedAdd",
        "X Y gate",
        required=3,
        infer=like("X"),
        rows=[row("gated_add", {"x0": "X", "x1": "Y", "gate": "gate"})],
    ),
    *(
        OperatorSpec(name, x, infer=like(x), rows=[row(op, {"x": x})], domain=ONNX)
        for name, x, op in (
            ("Affine", "X", "scale_shift"),
            ("ImageScaler", "input", "scale_shift"),
            ("ScaledTanh", "input", "scaled_tanh"),
            ("ParametricSoftplus", "X", "scaled_softplus"),
        )
    ),
    OperatorSpec(
        "Scale",
        "input",
        infer=like("input"),
        rows=[row("mul", {"x0": "input", "x1": lambda a: Value((), a["input"].dtype, None, "const")})],
        domain=ONNX,
    ),
)
