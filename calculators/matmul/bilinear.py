"""Bilinear layers: products of two activations through a weight."""

from __future__ import annotations

from costcore.ir import Cost, Layer, pattern

from .._shared import dot_products


@pattern("product")
def calc_biaffine(layer: Layer) -> Cost:
    """Bilinear layer with linear terms, y_o = x0^T W_o x1 + x0^T u_o + x1^T v_o + b_o.

    ``w0`` is W, ``w1`` is u and ``w2`` is v. The bilinear part is that of ``bilinear``. Its last products and those of
    both linear terms are added to the bias. MACs: |y| (F_1 (F_0 + 1) + F_0 + F_1).

    Source: Dozat and Manning, "Deep Biaffine Attention for Neural Dependency Parsing", arXiv:1611.01734.

    Shapes: x0[N, F_0], x1[N, F_1], w0[F_out, F_0, F_1], w1[F_0, F_out], w2[F_1, F_out], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w0"].shape[1:]
    y = layer.out.size
    vector, last = y * second, y * (first + 2 * second)
    operations = dot_products(vector, vector * first) + dot_products(y, last, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * first + last)


@pattern("product")
def calc_bilinear(layer: Layer) -> Cost:
    """Bilinear layer, y_o = x0^T W_o x1 + b_o for every output feature o, evaluated from left to right.

    * x0^T W_o is a vector of F_1 dot products of length F_0.
    * Its dot product with x1, of length F_1, is added to the bias.

    MACs: |y| F_1 (F_0 + 1).

    Shapes: x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w"].shape[1:]
    vector, y = layer.out.size * second, layer.out.size
    operations = dot_products(vector, vector * first) + dot_products(y, vector, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * (first + 1))
