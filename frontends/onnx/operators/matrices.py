"""Matrix products and linear algebra on matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.numbers import Dim
from costcore.translate import Arguments, Row

from ..node import Node, Rule
from ..values import Shape, Value
from .arguments import broadcast, operands

# Matrix products.


def product(node: Node, a: Shape, b: Shape) -> Shape:
    """Return the shape of ``a @ b`` by numpy's rules.

    Raises:
        CostError: if they do not fit.
    """
    if not a or not b:
        raise node.error(f"needs operands of 1 or more dimensions (got the shapes {a} and {b})")
    left, right = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise node.error(f"cannot multiply {a} by {b}: the inner sizes {left[-1]} and {right[-2]} differ")
    batch = broadcast(node, left[:-2], right[:-2])
    return (*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))


def matmul(node: Node) -> Sequence[Value]:
    """Infer a matrix product, also of integers."""
    a, b = node.value("A", "a"), node.value("B", "b")
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "MatMulInteger" else a.dtype
    return [node.result(product(node, a.known_shape, b.known_shape), dtype)]


def gemm(node: Node) -> Sequence[Value]:
    """Infer the product of two matrices, either of them transposed."""
    a, b = (
        value.known_shape[::-1] if node.args.get(f"trans{name}") else value.known_shape
        for name, value in (("A", node.value("A")), ("B", node.value("B")))
    )
    if len(a) != 2 or len(b) != 2:
        raise node.error(f"needs two matrices (got the shapes {a} and {b})")
    return [node.result(product(node, a, b), node.value("A").dtype)]


def einsum(node: Node) -> Sequence[Value]:
    """Infer dimensions by the letters of the equation; an ellipsis stands for broadcast dimensions."""
    equation, values = node.args.get("equation", "").replace(" ", ""), node.values("Inputs")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise node.error(f"has {len(values)} inputs for the equation {equation!r}")
    lengths: dict[str, Dim] = {}
    spread: Shape = ()
    for term, value in zip(terms, values, strict=True):
        before, dots, after = term.partition("...")
        count = len(before) + len(after)
        if len(value.known_shape) < count or (not dots and len(value.known_shape) != count):
            raise node.error(f"has an input of shape {value.known_shape} for {term!r}")
        tail = len(value.known_shape) - len(after)
        for letter, d in (
            *zip(before, value.known_shape, strict=False),
            *zip(after, value.known_shape[tail:], strict=True),
        ):
            lengths[letter] = broadcast(node, (lengths.get(letter, d),), (d,))[0]
        spread = broadcast(node, spread, value.known_shape[len(before) : tail])
    if "->" not in equation:
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        )
    head, dots, tail_letters = right.partition("...")
    missing = [letter for letter in dict.fromkeys(head + tail_letters) if letter not in lengths]
    if missing:
        raise node.error(f"has {', '.join(map(repr, missing))} in the output of {equation!r}, which no input has")
    shape = (*(lengths[c] for c in head), *(spread if dots else ()), *(lengths[c] for c in tail_letters))
    return [node.result(shape, values[0].dtype)]


MATMUL_RULES: Mapping[str, Rule] = {
    "ai.onnx::MatMul": matmul,
    "ai.onnx::Gemm": gemm,
    "ai.onnx::Einsum": einsum,
}
"""Rules by full operator name."""


def _is_linear(a: Arguments) -> bool:
    # A ``Gemm`` is a linear layer if it multiplies rows by an initializer, and adds one bias element per output.
    w, bias = a.get("B"), a.get("C")
    if not isinstance(w, Value) or w.role == "data" or a.get("transA"):
        return False
    return not isinstance(bias, Value) or (bias.role != "data" and bias.size == _weight_shape(a)[0])


def _weight_shape(a: Arguments) -> tuple[Any, ...]:
    # ``[Fout, Fin]``.
    shape: tuple[Any, ...] = a["B"].known_shape
    return shape if a.get("transB") else shape[::-1]


def _row_weight(a: Arguments) -> Value:
    weight: Value = a["B"]
    return weight.viewed(_weight_shape(a))


def _flat_bias(a: Arguments) -> Value | None:
    bias = a.get("C")
    return bias.viewed((bias.size,)) if isinstance(bias, Value) else None


def _factor(name: str) -> Any:
    # Without C, ``beta`` has no effect.
    return lambda a: None if a.get(name, 1.0) == 1 or (name == "beta" and a.get("C") is None) else a[name]


def _true_or_none(name: str) -> Any:
    return lambda a: True if a.get(name) else None


GEMM: Mapping[str, Any] = {"alpha": _factor("alpha"), "beta": _factor("beta")}

MATMUL_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Gemm", "linear", {"x": "A", "w": _row_weight, "b": _flat_bias}, GEMM, when=_is_linear),
    Row(
        "ai.onnx::Gemm",
        "matmul",
        {"x0": "A", "x1": "B", "b": "C"},
        {**GEMM, "transpose_x0": _true_or_none("transA"), "transpose_x1": _true_or_none("transB")},
    ),
    Row("ai.onnx::MatMul", "matmul", {"x*": operands("A", "B")}),
    Row("ai.onnx::Einsum", "einsum", {"x*": "Inputs"}, {"equation": "equation"}),
)


# Linear algebra.


def determinant(node: Node) -> Sequence[Value]:
    """Infer determinants: the shape without the last two axes."""
    x = node.value("X")
    if len(x.known_shape) < 2:
        raise node.error(f"needs an input of 2 or more dimensions (got the shape {x.known_shape})")
    return [node.result(x.known_shape[:-2], x.dtype)]


LINALG_RULES: Mapping[str, Rule] = {
    "ai.onnx::Det": determinant,
}
"""Rules by full operator name."""


LINALG_ROWS: tuple[Row, ...] = (Row("ai.onnx::Det", "det", {"x": "X"}),)


ROWS: tuple[Row, ...] = (*MATMUL_ROWS, *LINALG_ROWS)


RULES: Mapping[str, Rule] = {**MATMUL_RULES, **LINALG_RULES}
