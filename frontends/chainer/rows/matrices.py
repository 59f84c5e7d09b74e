"""Rows of matrix products (linear, bilinear, batched, sparse, einsum), linear algebra, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy

from costcore.translate import Arguments, Row, Source

from ..arrays import Reshaped
from .arguments import ALL_INPUTS, X, array_attribute, attribute, constant, input_at, operands, row, rows_by_name

SPARSE_INDICES = {"rows": array_attribute("sp_row"), "columns": array_attribute("sp_col")}


def as_matrices(index: int) -> Source:
    """Read an operand of a batched product as [batch, rows, columns], a vector as one column."""

    def read(args: Arguments) -> Reshaped:
        x = args["inputs"][index]
        return Reshaped(x, (*x.shape[:2], numpy.prod(x.shape[2:], dtype=int).item()))

    return read


def as_matrix(index: int) -> Source:
    """Read an operand as [rows, features]."""

    def read(args: Arguments) -> Reshaped:
        x = args["inputs"][index]
        return Reshaped(x, (len(x), x.size // max(len(x), 1)))

    return read


def features_first(index: int) -> Source:
    """Read a bilinear weight [in, in, out] as [out, in, in]."""

    def read(args: Arguments) -> Reshaped:
        w = args["inputs"][index]
        return Reshaped(w, (w.shape[2], *w.shape[:2]))

    return read


def is_transposed(index: int, name: str) -> Source:
    """Return True if an operand is stored with rows and columns exchanged, None, the default, if not."""
    return lambda args: True if getattr(args["function"], name) and args["inputs"][index].ndim > 1 else None


def has_inputs(count: int) -> Any:
    """Return a condition: the function has this number of inputs."""
    return lambda args: len(args["inputs"]) == count


def einsum_equation(args: Arguments) -> str:
    """Return the subscripts of ``F.einsum``, in which Chainer writes ``@`` for the ellipsis."""
    function = args["function"]
    return f"{function.in_subs}->{function.out_sub}".replace("@", "...")


def diag_einsum_equation(args: Arguments) -> str:
    """Return the subscripts of a gradient of ``F.einsum``, without the axes along which the result is repeated."""
    inputs = args["function"].in_subs
    return f"{inputs}->{''.join(c for c in args['function'].out_sub if c in inputs)}".replace("@", "...")


def tensordot_equation(args: Arguments) -> str:
    """Return the subscripts of ``F.tensordot``, which sums over pairs of axes."""
    a, b = (x.ndim for x in args["inputs"])
    left, right = list(ascii_letters[:a]), list(ascii_letters[a : a + b])
    for i, j in zip(args["function"].a_axes[1], args["function"].b_axes[0], strict=True):
        right[j] = left[i]
    free = [left[i] for i in args["function"].a_axes[0]] + [right[j] for j in args["function"].b_axes[1]]
    return f"{''.join(left)},{''.join(right)}->{''.join(free)}"


def with_mask(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs, and the mask that the function sampled."""
    return (*outputs, args["function"].mask)


TRANSPOSED = {"transpose_x0": is_transposed(0, "transa"), "transpose_x1": is_transposed(1, "transb")}

BILINEAR = {"x0": as_matrix(0), "x1": as_matrix(1), "w": features_first(2)}

BIAFFINE = {"x0": as_matrix(0), "x1": as_matrix(1), "w0": features_first(2), "w1": input_at(3), "w2": input_at(4)}

MATMUL_ROWS: tuple[Row, ...] = (
    row("LinearFunction", "linear", operands("x", "w", "b")),
    Row(
        "chainer::SimplifiedDropconnect",
        "dropconnect_linear",
        {"x": as_matrix(0), "w": input_at(1), "b": input_at(2)},
        {"rate": attribute("ratio")},
        outputs=with_mask,
    ),
    row("MatMul", "matmul", operands("x0", "x1"), **TRANSPOSED),
    row("BatchMatMul", "matmul", {"x0": as_matrices(0), "x1": as_matrices(1)}, **TRANSPOSED),
    row("EinSum", "einsum", ALL_INPUTS, equation=einsum_equation),
    row("DiagEinSum", "einsum", ALL_INPUTS, equation=diag_einsum_equation),
    row("TensorDot", "einsum", ALL_INPUTS, equation=tensordot_equation),
    row(
        "CooMatMul",
        "sparse_matmul",
        {"x0": input_at(0), **SPARSE_INDICES, "x1": input_at(1)},
        transpose_x1=is_transposed(1, "transb"),
    ),
    row("CooMatMulGradSP", "sampled_matmul", {**operands("x0", "x1"), **SPARSE_INDICES}, **TRANSPOSED),
    Row("chainer::BilinearFunction", "bilinear", BILINEAR, when=has_inputs(3)),
    row("BilinearFunction", "biaffine", {**BIAFFINE, "b": input_at(5)}),
    # gradients
    row("LinearGradData", "matmul", {"x0": input_at(1), "x1": input_at(0)}),
    row("LinearGradWeight", "matmul", {"x0": input_at(1), "x1": input_at(0)}, transpose_x0=constant(True)),
    row(
        "BatchMatMulGrad",
        "matmul_backward",
        {"dy": input_at(2), "x0": as_matrices(0), "x1": as_matrices(1)},
        **TRANSPOSED,
        needs=constant(("x0", "x1")),
    ),
    Row("chainer::BilinearFunctionGrad", "bilinear_backward", {"dy": input_at(3), **BILINEAR}, when=has_inputs(4)),
    row("BilinearFunctionGrad", "biaffine_backward", {"dy": input_at(5), **BIAFFINE}),
)


# Inverses, determinants and factorizations.


MATRIX_FUNCTIONS: Mapping[str, str] = {
    "BatchDet": "det",
    "BatchInv": "inverse",
    "Cholesky": "cholesky",
    "Inv": "inverse",
    "TriangularInv": "triangular_inverse",
}

LINALG_ROWS: tuple[Row, ...] = (*rows_by_name(MATRIX_FUNCTIONS, X),)


ROWS: tuple[Row, ...] = (*MATMUL_ROWS, *LINALG_ROWS)
