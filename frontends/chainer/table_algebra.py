"""Rows of linear algebra, Fourier transforms, sparse and bilinear products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arrays import Seen
from .rows.arguments import X, array, at, constant, named, row, same_rows, setting
from .table_arrays import as_matrices, is_transposed

OF_MATRICES: Mapping[str, str] = {"BatchDet": "det", "BatchInv": "inverse", "Cholesky": "cholesky", "Inv": "inverse"}
PLACES = {"rows": array("sp_row"), "columns": array("sp_col")}


def features_first(index: int) -> Source:
    """A bilinear weight [in, in, out] as [out, in, in]."""

    def weight(args: Arguments) -> Seen:
        w = args["inputs"][index]
        return Seen(w, (w.shape[2], *w.shape[:2]))

    return weight


def as_matrix(index: int) -> Source:
    """An operand as [rows, features]."""

    def matrix(args: Arguments) -> Seen:
        x = args["inputs"][index]
        return Seen(x, (len(x), x.size // max(len(x), 1)))

    return matrix


def with_mask(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """The outputs, and the mask that the function drew."""
    return (*outputs, args["function"].mask)


def is_inverse(args: Arguments) -> bool | None:
    """Whether a Fourier transform is an inverse one; None, the usual, where not."""
    return True if args["function"]._method.startswith("i") else None


PAIR = {"x0": as_matrix(0), "x1": as_matrix(1)}
LINEAR_TERMS = {"w0": features_first(2), "w1": at(3), "w2": at(4)}
TRANSPOSED = {"transpose_x0": is_transposed(0, "transa"), "transpose_x1": is_transposed(1, "transb")}

ROWS: tuple[Row, ...] = (
    *same_rows(OF_MATRICES, X),
    row("FFT", "fft", named("real", "imaginary"), inverse=is_inverse),
    row("CooMatMul", "sparse_matmul", {"x0": at(0), **PLACES, "x1": at(1)}, transpose_x1=is_transposed(1, "transb")),
    row("CooMatMulGradSP", "sampled_matmul", {"x0": at(0), "x1": at(1), **PLACES}, **TRANSPOSED),
    row(
        "BatchMatMulGrad",
        "matmul_backward",
        {"dy": at(2), "x0": as_matrices(0), "x1": as_matrices(1)},
        **TRANSPOSED,
        needs=constant(("x0", "x1")),
    ),
    Row(
        "chainer::BilinearFunction",
        "bilinear",
        {**PAIR, "w": features_first(2)},
        when=lambda args: len(args["inputs"]) == 3,
    ),
    row("BilinearFunction", "biaffine", {**PAIR, **LINEAR_TERMS, "b": at(5)}),
    Row(
        "chainer::BilinearFunctionGrad",
        "bilinear_backward",
        {"dy": at(3), **PAIR, "w": features_first(2)},
        when=lambda args: len(args["inputs"]) == 4,
    ),
    row("BilinearFunctionGrad", "biaffine_backward", {"dy": at(5), **PAIR, **LINEAR_TERMS}),
    Row(
        "chainer::SimplifiedDropconnect",
        "dropconnect_linear",
        {"x": as_matrix(0), "w": at(1), "b": at(2)},
        {"rate": setting("ratio")},
        outputs=with_mask,
    ),
)
