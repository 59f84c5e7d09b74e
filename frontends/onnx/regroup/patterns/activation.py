"""GELU, SiLU and ELU as exporters decompose them."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt
from typing import Any

from costcore.trace.patterns import Either, Number, Op, Operand, Pattern, product

from ..matcher import Decomposition, Extension, Group, Match
from .checks import preserves_x

X, ONE, HALF = Operand("x"), Number(1.0), Number(0.5)


def _activation(op: str, kind: str, attrs: Mapping[str, Any]) -> Any:
    def build(match: Match, _: Extension) -> Group | None:
        return Group(op, kind, {"x": match.values["x"]}, attrs, match.nodes) if preserves_x(match) else None

    return build


_QUOTIENT = Op("Div", X, Number(sqrt(2)))
_ERF = Op("Erf", Either((_QUOTIENT, Op("Mul", X, Number(sqrt(0.5))))))
_PRODUCTS = Op("Mul", X, Op("Mul", X, X))


def _tanh(cube: Pattern) -> Op:
    return Op("Tanh", Op("Mul", Number(sqrt(2 / pi)), Op("Add", X, Op("Mul", Number(0.044715), cube))))


_TANH = _tanh(Either((Op("Pow", X, Number(3.0)), _PRODUCTS)))


def _elu(match: Match, _: Extension) -> Group | None:
    """Build an ELU whose input and output are scaled by 1."""
    recorded = next(recorded for recorded in match.nodes if recorded.node.op == "Elu")
    return (
        Group("elu", "Elu", {"x": match.values["x"]}, recorded.call.layer.attrs, match.nodes)
        if preserves_x(match)
        else None
    )


GELU = Decomposition(
    ("Mul",), product(X, HALF, Op("Add", _ERF, ONE)), _activation("gelu", "Gelu", {"approximate": "none"})
)
GELU_TANH = Decomposition(
    ("Mul",), product(X, HALF, Op("Add", _TANH, ONE)), _activation("gelu", "Gelu", {"approximate": "tanh"})
)
SILU = Decomposition(("Mul",), Op("Mul", X, Op("Sigmoid", X)), _activation("silu", "Swish", {}))
ELU = Decomposition(("Mul",), Op("Mul", Op("Elu", Op("Mul", X, ONE)), ONE), _elu)

TORCHSCRIPT_GELU = Op("Mul", HALF, Op("Mul", X, Op("Add", Op("Erf", _QUOTIENT), ONE)))
TORCHSCRIPT_GELU_TANH = Op("Mul", HALF, Op("Mul", X, Op("Add", ONE, _tanh(_PRODUCTS))))
