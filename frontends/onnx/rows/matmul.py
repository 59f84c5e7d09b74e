"""Rows of matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from ..values.value import Value
from .arguments import operands


def _is_linear(a: Arguments) -> bool:
    """Whether a ``Gemm`` is a layer: rows times a stored matrix, onto a stored bias of one element an output."""
    w, bias = a.get("B"), a.get("C")
    if not isinstance(w, Value) or w.role == "data" or a.get("transA"):
        return False
    return not isinstance(bias, Value) or (bias.role != "data" and bias.size == _features(a)[0])


def _features(a: Arguments) -> tuple[Any, ...]:
    """The shape ``[Fout, Fin]`` of the weight of a ``Gemm``."""
    shape: tuple[Any, ...] = a["B"].known
    return shape if a.get("transB") else shape[::-1]


def _weight(a: Arguments) -> Value:
    weight: Value = a["B"]
    return weight.viewed(_features(a))


def _bias(a: Arguments) -> Value | None:
    bias = a.get("C")
    return bias.viewed((bias.size,)) if isinstance(bias, Value) else None


def _factor(name: str) -> Any:
    """A factor of ``Gemm``, None where it is 1 or where what it multiplies is left out."""
    return lambda a: None if a.get(name, 1.0) == 1 or (name == "beta" and a.get("C") is None) else a[name]


def _transposed(name: str) -> Any:
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
