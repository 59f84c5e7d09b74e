"""Bytes and attributes of every operator, on the layer of its docstring.

By default every element of every operand is read once, and every element of every output is written once, each at the
size of its own dtype. Operators that read or write fewer or more are listed with their elements.
"""

from __future__ import annotations

from math import prod

import pytest

from costcore.ir import Layer, Tensor
from tests.calculators.documented_layers import integer_values, substitute, symbolic_layer
from tests.calculators.layer_costs import CALCULATORS, cost_of

WIDTHS = {"float32": 4, "float64": 8, "float16": 2, "int8": 1}
"""Bytes of one element: operands and outputs have these dtypes in turn, so that no two are confused."""

ZERO_COST = {
    *("barrier", "constant", "container", "empty", "identity", "reshape", "shape", "size", "view"),
}
"""Operators that read and write nothing."""

READ: dict[str, dict[str, str]] = {
    # selected rows, elements or slices: as many as are written
    **{op: {"x": "M*C"} for op in ("gather", "gather_elements", "gather_nd", "compress")},
    **{op: {"x": "M*C"} for op in ("diagonal", "select", "slice", "split", "unbind")},
    "embedding": {"w": "N*T*D"},
    "embedding_bag": {"w": "B*T*D"},
    "embedding_bag_weights_backward": {"w": "N*D"},
    "masked_gather": {"x": "M"},
    "packed_embedding": {"w": "N*T*D", "w_scale": "N*T*D"},
    "renorm_rows": {"w": "N*D"},
    "trace": {"x": "N"},  # the diagonal
    "unpad": {"x": "M*E"},
    # one triangle
    **{op: {"x": "N*(N + 1)//2"} for op in ("tril", "triu")},
    **{
        op: {"x": "B*N*(N + 1)//2"}
        for op in ("cholesky", "cholesky_inverse", "ldl_factor", "matrix_sqrt", "symmetric_eigen", "triangular_inverse")
    },
    **{op: {"x0": "B*N*(N + 1)//2"} for op in ("cholesky_solve", "ldl_solve", "triangular_solve")},
    # overwritten elements are not read
    **{op: {"x": "N*C - M*C"} for op in ("diagonal_scatter", "select_scatter", "slice_scatter", "tensor_scatter")},
    "assign": {"x": "0"},
    # windows take every element of an image, or fewer if there are fewer taps
    **{op: {"x": "min(N*C*H*W, N*K*C*L)"} for op in ("center_crop_pad", "im2col")},
    # a scale and a shift in the dtype of the statistics instead of mean, variance, weight and bias
    "batch_norm": {"mean": "2*C", "var": "0", "w": "0", "b": "0"},
    # the bias of a norm does not appear in its derivatives, and the affine map is linear
    **{f"{norm}_norm_backward": {"b": "0"} for norm in ("batch", "group", "instance", "layer")},
    "affine_grid_backward": {"theta": "0"},
    # the class of every row, and its weight
    "cross_entropy": {"w": "N"},
    "nll_loss": {"x": "N", "w": "N"},
    # a row of each table per token; positions are the same in every sequence
    "embed_norm": {"w0": "N*T*D", "w1": "T*D", "w2": "N*T*D"},
    "quantized_embed_norm": {"w0": "N*T*D", "w1": "T*D", "w2": "N*T*D"},
    "word_convolution": {"w1": "N*L*E"},
    # a row per index
    "negative_sampling_loss": {"w": "N*K*D"},
    "negative_sampling_loss_backward": {"w": "N*K*D"},
    # a row per node of a path
    "hierarchical_softmax_loss": {"w": "L*D"},
    "hierarchical_softmax_loss_backward": {"w": "L*D"},
    # the past keys, at most as many as the pages have
    "paged_attention": dict.fromkeys(("past_k", "past_v"), "min(N*K - T, P*S) * H_kv*D"),
    # per tree a feature and a threshold at each level, and one vote
    "tree_ensemble": {"x": "min(N*D, N*F)", "w0": "min(N*D, S)", "w1": "min(N*E, V)"},
    # only the positions of the mask
    **{op: {"x": "M*N", "mask": "0"} for op in ("sparse_mask", "to_dense")},
    # the logits of every step
    "token_search": {"logits": "N*L*V"},
}
"""Elements read of operands that are not read completely."""

WRITTEN = {"assign": "M*C", "renorm_rows": "N*D", "send": "0"}
"""Elements written of an output that exists already and is changed in part, or that another process writes."""

INDEX_BYTES = {
    "coalesce": ("8 * 2*Z", "8 * 2*U"),
    "sampled_product": ("8 * 2*Z", "8 * 2*Z"),
    "sparse_dense_matmul": ("8 * 2*Z", "0"),
    "sparse_dense_matmul_backward": ("8 * 2*Z", "0"),
    "sparse_mask": ("8 * 2*Z", "8 * 2*Z"),
    "to_dense": ("8 * 2*Z", "8 * 2*Z"),
    "to_sparse": ("0", "8 * 2*Z"),
}
"""Bytes of the indices of a sparse matrix, two of 8 bytes for each of Z values: read and written."""

UPDATED = {
    "batch_renorm": ("mean", "var"),
    "decorrelated_batch_norm": ("mean", "projection"),
    "update_loss_scale": ("count",),
}
"""Operands that are written too."""


def typed_layer(op: str) -> tuple[Layer, dict[str, int]]:
    """Return the layer of an operator's docstring on integers, with dtypes that differ between operands."""
    page = symbolic_layer(op)
    values = integer_values(page)
    layer = page.map_dims(lambda dim: substitute(dim, values))
    types = list(WIDTHS)
    inputs = {name: Tensor(x.shape, types[i % 4]) for i, (name, x) in enumerate(layer.inputs.items())}
    outputs = [Tensor(y.shape, types[(i + 2) % 4]) for i, y in enumerate(layer.outputs)]
    settings = {**layer.attrs, "note": "kept"}
    return Layer(op, inputs, outputs, settings), {str(symbol): value for symbol, value in values.items()}


def number(expression: str, values: dict[str, int]) -> int:
    return eval(expression, {"min": min, **values})


@pytest.mark.parametrize("op", sorted(CALCULATORS))
def test_bytes_and_attributes(op: str) -> None:
    layer, values = typed_layer(op)
    read = {name: prod(x.shape) for name, x in layer.inputs.items()}
    read |= {name: number(elements, values) for name, elements in READ.get(op, {}).items()}
    assert read.keys() == layer.inputs.keys()
    written = [prod(y.shape) for y in layer.outputs]
    if op in WRITTEN:
        written = [number(WRITTEN[op], values)]
    mread = sum(n * WIDTHS[layer[name].dtype] for name, n in read.items())
    mwrite = sum(n * WIDTHS[y.dtype] for n, y in zip(written, layer.outputs, strict=True))
    more = [number(places, values) for places in INDEX_BYTES.get(op, ("0", "0"))]
    again = sum(prod(layer[name].shape) * WIDTHS[layer[name].dtype] for name in UPDATED.get(op, ()))
    cost = cost_of(layer)
    expected = (0, 0) if op in ZERO_COST else (mread + more[0], mwrite + more[1] + again)
    assert (cost.mread, cost.mwrite) == expected
    assert cost.params == layer.attrs


def test_listed_operators_exist() -> None:
    assert ZERO_COST | READ.keys() | WRITTEN.keys() | INDEX_BYTES.keys() | UPDATED.keys() <= CALCULATORS.keys()
