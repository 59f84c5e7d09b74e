"""Rows of gathering, scattering and embedding, and of their gradients."""

from __future__ import annotations

from costcore.translate import Row

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

ROWS: tuple[Row, ...] = (
    Row(
        "chainer::GetItem",
        "gather",
        {"x": input_at(0), "indices": lambda args: index_arrays(args)[0]},
        when=lambda args: len(index_arrays(args)) == 1,
    ),
    row("GetItem", "gather", {"x": input_at(0), "indices*": index_arrays}),
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
