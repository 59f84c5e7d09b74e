"""Position embeddings and position biases of attention."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, prod

from .._shared import dot_products
from ..activation.activations import SIGMOID


def calc_rotary_embedding(layer: Layer) -> Cost:
    """Rotary position embedding: every pair of features is turned by an angle, (a cos - b sin, a sin + b cos).

    Per turned element 2 mul and 1 add, an element-wise function. The setting ``rotary_dim`` (absent or 0: all) says how
    many features of each head are turned. Read: x and the tables ``cos`` and ``sin``; with an operand ``position`` one
    row of each table per position.

    Source: Su et al., "RoFormer", arXiv:2104.09864.

    Shapes: x[N, H, T, D], cos[T, D/2], sin[T, D/2] -> y[N, H, T, D]
    """
    x, cos, sin = layer["x"], layer["cos"], layer["sin"]
    turned = prod(x.shape[:-1]) * (layer.attrs.get("rotary_dim") or x.shape[-1])
    read = layer.read
    if "position" in layer:
        row = layer["position"].size * cos.shape[-1]
        read += cos.bytes_of(row) + sin.bytes_of(row) - cos.nbytes - sin.nbytes
    return Cost(Operations(mul=2, add=1) * turned, read, layer.written, layer.attrs)


def calc_rotated_pair(layer: Layer) -> Cost:
    """Rotary embedding of queries and keys from angles: x0 cos + x1 sin, x2 cos + x3 sin, x1 and x3 turned before.

    Per element of the angles a sine and a cosine; per output element 2 mul and 1 add.

    Shapes: x0[N, H, T, D], x1[N, H, T, D], x2[N, H, T, D], x3[N, H, T, D], angle[N, T, D]
        -> y0[N, H, T, D], y1[N, H, T, D]
    """
    turned = sum(y.size for y in layer.outputs)
    operations = Operations(special=2 * layer["angle"].size) + turned * Operations(mul=2, add=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_gated_position_bias(layer: Layer) -> Cost:
    """Bias of attention scores by relative position, scaled by a gate that each query computes.

    Queries take their bias ``b0``, 1 add; every head of width D is projected to 2 G features, dot products of length
    D, macs, onto ``b1`` where given; each half is summed, G - 1 add, and squashed, a sigmoid; the gate is
    u (r a - 1) + 2, 2 mul and 2 add; every element of the bias takes it, 1 mul.

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


def calc_relative_position_bias(layer: Layer) -> Cost:
    """Learned bias of attention scores by the distance of query and key, which falls into a bucket.

    Buckets are index arithmetic, and free; the table ``w`` is read once, as the positions are known, and every pair
    of positions is written for every head.

    Source: Raffel et al., T5, arXiv:1910.10683.

    Shapes: w[B, H] -> y[1, H, T_q, T_k]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


ROTATION = Operations(mul=2, add=1)
"""One element under a rotary embedding."""
