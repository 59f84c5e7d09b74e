"""Element-wise operators of ONNX Runtime, names of fused activations, dropout and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.ir import prod
from costcore.numbers import ceil_div, is_symbolic
from costcore.translate import Arguments

from ..graph.node import Node
from ..operators.arguments import broadcast, determined, like
from ..operators.statistics import reduced_axes, reduction
from ..schema import ONNX
from ..values import Value
from .spec import OperatorSpec, row

FUSED = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSigmoid": "hard_sigmoid",
    "Clip": "clip",
    "Gelu": "gelu",
    "FastGelu": "fast_gelu",
    "QuickGelu": "quick_gelu",
    "Elu": "elu",
    "Softplus": "softplus",
    "HardSwish": "hard_swish",
    "SiLU": "silu",
    "Swish": "silu",
    "Selu": "selu",
}
"""Canonical names of the activations fused with other operators, by their names in ONNX Runtime."""


def fused_with(a: Arguments) -> Any:
    """Return the canonical name of the fused activation; None if there is none."""
    name = a.get("activation")
    return FUSED.get(name, name) if name else None


def has_supported_activation(a: Arguments) -> bool:
    """Return whether the fused activation, if any, has a formula."""
    return not a.get("activation") or a["activation"] in FUSED


ACTIVATION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QuickGelu",
        "X",
        infer=like("X"),
        rows=[row("quick_gelu", {"x": "X"}, {"alpha": lambda a: a.get("alpha", 1.702)})],
    ),
    OperatorSpec(
        "Gelu",
        "X",
        infer=like("X"),
        rows=[row("gelu", {"x": "X"}, {"approximate": lambda a: "none"})],
    ),
)


# Arithmetic on elements; some of these operators were removed from onnx.


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


ELEMENTWISE_SPECS: tuple[OperatorSpec, ...] = (
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


# Dropout.


def bit_dropout(node: Node) -> Sequence[Value]:
    """Infer the output, and the mask with 32 elements packed into one."""
    x = node.value("data")
    return [node.result(x.known_shape, x.dtype), node.result((ceil_div(prod(x.known_shape), 32),), "uint32")]


def training(a: Arguments) -> Any:
    """Return True if dropout is in training mode; None if it is not, or if that depends on data."""
    return determined(lambda n: bool(n.number("training_mode")) or None)(a)


RANDOM_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BitmaskDropout",
        "data ratio training_mode",
        infer=bit_dropout,
        rows=[row("dropout", {"x": "data"}, {"training": training})],
    ),
)


# Reductions.


def all_finite(node: Node) -> Sequence[Value]:
    """Infer one bool."""
    node.values("input")
    return [node.result((), "bool")]


def unique(node: Node) -> Sequence[Value]:
    """Infer distinct elements, the index of each element among them, and their counts."""
    x = node.value("x")
    if len(x.known_shape) != 1:
        raise node.error(f"needs an input of one dimension (got the shape {x.known_shape})")
    return [node.result((None,), x.dtype), node.result(x.known_shape, "int64"), node.result((None,), "int64")]


def _test_name(a: Arguments) -> Any:
    # None: both tests.
    return "isinf" if a.get("isinf_only") else "isnan" if a.get("isnan_only") else None


REDUCTION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "ReduceSumInteger",
        "data",
        attributes="keepdims",
        infer=reduction,
        rows=[
            row(
                "reduce_sum",
                {"x": "data"},
                {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
            )
        ],
    ),
    OperatorSpec(
        "Unique",
        "x",
        infer=unique,
        rows=[row("unique", {"x": "x"})],
    ),
    OperatorSpec(
        "IsAllFinite",
        "*input",
        required=0,
        infer=all_finite,
        rows=[row("all_finite", {"x*": "input"}, {"test": _test_name})],
    ),
)


SPECS: tuple[OperatorSpec, ...] = (*ACTIVATION_SPECS, *ELEMENTWISE_SPECS, *RANDOM_SPECS, *REDUCTION_SPECS)
