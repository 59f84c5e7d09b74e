"""Rows of gathering, scattering, selecting by masks and embedding, and of their gradients."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import (
    DY,
    X_DY,
    array_attribute,
    axis,
    constant,
    index_arrays,
    input_at,
    operands,
    pooling_attribute,
    row,
)


def is_masked(args: Arguments) -> bool:
    """Return True if ``x[...]`` selects by a mask of bools."""
    return [index.dtype.kind for index in index_arrays(args)] == ["b"]


def mask(args: Arguments) -> Any:
    """Return the mask of ``x[mask]``."""
    return index_arrays(args)[0]


ROWS: tuple[Row, ...] = (
    # a selection by a mask comes before a gather by any other array
    Row("chainer::GetItem", "masked_select", {"x": input_at(0), "mask": mask}, when=is_masked),
    Row(
        "chainer::GetItem",
        "gather",
        {"x": input_at(0), "indices": lambda args: index_arrays(args)[0]},
        when=lambda args: len(index_arrays(args)) == 1,
    ),
    row("GetItem", "gather", {"x": input_at(0), "indices*": index_arrays}),
    row("_SetItemZero", "masked_scatter", {"updates": input_at(0), "mask": array_attribute("mask")}),
    row("SelectItem", "gather_elements", {"x": input_at(0), "indices": input_at(1)}, axis=constant(1)),
    row("Permutate", "gather", {"x": input_at(0), "indices": array_attribute("indices")}, axis=axis),
    row(
        "ScatterAdd",
        "scatter",
        {"x": input_at(0), "indices*": index_arrays, "updates": input_at(1)},
        reduction=constant("add"),
    ),
    row("EmbedIDFunction", "embedding", operands("x", "w")),
    row("MaxPoolingNDWithIndexes", "gather_elements", {"x": input_at(0), "indices": pooling_attribute("indexes")}),
    # gradients
    Row("chainer::GetItemGrad", "slice_backward", DY, when=lambda args: not index_arrays(args)),
    row("GetItemGrad", "gather_backward", {"dy": input_at(0), "indices*": index_arrays}),
    row("Assign", "gather_backward", {"dy": input_at(0), "indices": array_attribute("t")}, axis=constant(1)),
    row("EmbedIDGrad", "embedding_backward", X_DY),
    row("AsStridedGrad", "as_strided_backward", DY),
    row("DiagonalGrad", "diagonal_backward", DY),
)
