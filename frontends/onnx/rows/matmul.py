"""Rows of matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from ..values.value import Value
from .arguments import operands


def _is_linear(a: Arguments) -> bool:
    """Return whether a ``Gemm`` is a linear layer: rows by an initializer, plus one bias element per output."""
    w, bias = a.get("B"), a.get("C")
    if not isinstance(w, Value) or w.role == "data" or a.get("transA"):
        return False
    return not isinstance(bias, Value) or (bias.role != "data" and bias.size == _features(a)[0])


def _features(a: Arguments) -> tuple[Any, ...]:
    """Return the shape ``[Fout, Fin]`` of the weight of a ``Gemm``."""
    shape: tuple[Any, ...] = a["B"].known_shape
    return shape if a.get("transB") else shape[::-1]


def _weight(a: Arguments) -> Value:
    """Return the weight as ``[Fout, Fin]``."""
    weight: Value = a["B"]
    return weight.viewed(_features(a))


def _bias(a: Arguments) -> Value | None:
    """Return the bias as one axis."""
    bias = a.get("C")
    return bias.viewed((bias.size,)) if isinstance(bias, Value) else None


def _factor(name: str) -> Any:
    """Return a source for a factor of ``Gemm``; None if it is 1 or its operand is omitted."""
    return lambda a: None if a.get(name, 1.0) == 1 or (name == "beta" and a.get("C") is None) else a[name]


def _transposed(name: str) -> Any:
    """Return a source for an attribute; True if it is set, else None."""
    return lambda a: True if a.get(name) else None


GEMM: Mapping[str, Any] = {"alpha": _factor("alpha"), "beta": _factor("beta")}


ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Gemm", "linear", {"x": "A", "w": _weight, "b": _bias}, GEMM, when=_is_linear),
    Row(
        "ai.onnx::Gemm",
        "matmul",
        {"x0": "A", "x1": "B", "b": "C"},
        {**GEMM, "transpose_x0": _transposed("transA"), "transpose_x1": _transposed("transB")},
    ),
    Row("ai.onnx::MatMul", "matmul", {"x*": operands("A", "B")}),
    Row("ai.onnx::Einsum", "einsum", {"x*": "Inputs"}, {"equation": "equation"}),
)
