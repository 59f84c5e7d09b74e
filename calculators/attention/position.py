"""Position embeddings and position biases."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .._shared import dot_products
from ..activation.activations import SIGMOID

ROTATION = Operations(mul=2, add=1)
"""The operations of a rotary embedding per rotated element."""


@pattern("map")
def calc_rotary_embedding(layer: Layer) -> Cost:
    """Rotary position embedding: every pair (a, b) of features becomes (a cos - b sin, a sin + b cos).

    Per rotated element 2 mul and 1 add. The attribute ``rotary_dim`` is the number of rotated features per head (absent
    or 0: all). Read are x and the tables ``cos`` and ``sin``; with an operand ``position`` one row of each table per
    position.

    Source: Su et al., "RoFormer", arXiv:2104.09864.

    Shapes: x[N, H, T, D], cos[T, D/2], sin[T, D/2] -> y[N, H, T, D]
    """
    x, cos, sin = layer["x"], layer["cos"], layer["sin"]
    rotated = prod(x.shape[:-1]) * (layer.attrs.get("rotary_dim") or x.shape[-1])
    read = layer.read
    if "position" in layer:
        row = layer["position"].size * cos.shape[-1]
        read += cos.bytes_of(row) + sin.bytes_of(row) - cos.nbytes - sin.nbytes
    return Cost(Operations(mul=2, add=1) * rotated, read, layer.written, layer.attrs)


@pattern("map")
def calc_rotated_pair(layer: Layer) -> Cost:
    """Rotary embedding of queries and keys from angles: x0 cos + x1 sin and x2 cos + x3 sin.

    x1 and x3 are x0 and x2 with rotated halves, which other operators compute. Per element of the angles a sine and a
    cosine; per output element 2 mul and 1 add.

    Shapes: x0[N, H, T, D], x1[N, H, T, D], x2[N, H, T, D], x3[N, H, T, D], angle[N, T, D]
        -> y0[N, H, T, D], y1[N, H, T, D]
    """
    rotated = sum(y.size for y in layer.outputs)
    operations = Operations(special=2 * layer["angle"].size) + rotated * Operations(mul=2, add=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("move")
def calc_relative_position_bias(layer: Layer) -> Cost:
    """Learned bias of attention scores by the distance between query and key.

    Each distance maps to a bucket, a row of the table ``w``. The mapping is index arithmetic and costs nothing. The
    table is read once, and one element is written per pair of positions and head.

    Source: Raffel et al., T5, arXiv:1910.10683.

    Shapes: w[B, H] -> y[1, H, T_q, T_k]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_gated_position_bias(layer: Layer) -> Cost:
    """Bias of attention scores by relative position, scaled by a gate that is computed from each query.

    * Query bias ``b0``: 1 add per element of q.
    * Projection of every head of width D to 2 G features: dot products of length D (MACs), starting at ``b1`` if given.
    * Each half is summed: G - 1 add; then a sigmoid.
    * The gate u (r a - 1) + 2 of the two halves u and r: 2 mul and 2 add.
    * Every element of the bias times the gate: 1 mul.

    Source: Chi et al., XLM-E, arXiv:2106.16138.

    Shapes: q[N, T, H*D], b0[H*D], bias[1, H, T, T], w[D, 2*G], b1[2*G], factor[1, H, 1, 1] -> y[N, H, T, T]
    """
    y, w = layer.out, layer["w"]
    count = prod(y.shape[:3])
    projected = count * w.shape[1]
    macs = projected * w.shape[0]
    operations = Operations(add=layer["q"].size) + dot_products(projected, macs, "b1" in layer)
    operations += Operations(add=projected - 2 * count) + count * (2 * SIGMOID + Operations(mul=2, add=2))
    return Cost(operations + Operations(mul=y.size), layer.read, layer.written, layer.attrs, macs)
