"""Gradients of recurrent layers over all steps, layers and directions.

Activations of gates and states are given by the forward pass. Every product of the forward pass has two products in the
backward pass, one for the gradient of the operand and one for the gradient of the weight. Both are added to gradients
that start at zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, covers, pattern

from .layers import sequence_sizes

RECURRENT_GRADIENTS: Mapping[str, PerElement] = {
    "lstm_backward": PerElement(
        Operations(mul=16, add=7),
        "d = dy + dh; t = d * o * (1 - k * k) + dc; "
        "(t * i * (1 - a * a), t * a * (i * (1 - i)), t * c * (f * (1 - f)), d * k * (o * (1 - o)), t * f)",
    ),
    "gru_backward": PerElement(
        Operations(mul=11, add=5),
        "d = dy + dh; u = 1 - z; n = d * u * (1 - c * c); (d * (h - c) * (z * u), n * r, n * m * (r * (1 - r)), d * z)",
    ),
    "rnn_backward": PerElement(Operations(mul=2, add=2), "d = dy + dh; d * (1 - y * y)"),
}
GATE_COUNTS: Mapping[str, int] = {"lstm_backward": 4, "gru_backward": 3, "rnn_backward": 1}


@pattern("product")
@covers(RECURRENT_GRADIENTS)
def calc_recurrent_backward(layer: Layer) -> Cost:
    """Backward of recurrent layers.

    The operations of the definition, once per step and hidden unit, then the products of the gates. Two fma for each
    product of the forward pass (MACs are twice its), and 1 add per gate for the bias. In the definitions dy comes from
    the layer above, dh and dc come from the next step; i, f, o, z, r are gates, a and c candidates, k the tanh of the
    cell, m the candidate's product with the state. ``rnn`` with ``activation`` "relu" is 1 add and 1 cmp. The products
    of the attribute ``projection`` are doubled too. Gradients that the attribute ``needs`` does not name cost no
    products: of the input, of the initial state (the product of the first step alone) and of the weights; for an
    initial cell state the first step has one mul less. Fused kernels write these gradients all the same.

    Shapes of rnn_backward: dy[T, N, H], x[T, N, I], h0[N, H], w0[H, I], w1[H, H], b0[H]
        -> dx[T, N, I], dh0[N, H], dw0[H, I], dw1[H, H], db0[H]
    Shapes of gru_backward: dy[T, N, H], x[T, N, I], h0[N, H], w0[3*H, I], w1[3*H, H], b0[3*H]
        -> dx[T, N, I], dh0[N, H], dw0[3*H, I], dw1[3*H, H], db0[3*H]
    Shapes of lstm_backward: dy[T, N, H], x[T, N, I], h0[N, H], c0[N, H], w0[4*H, I], w1[4*H, H], b0[4*H]
        -> dx[T, N, I], dh0[N, H], dc0[N, H], dw0[4*H, I], dw1[4*H, H], db0[4*H]
    Settings: hidden=H, layers=1, bidirectional=False
    """
    units, products, outputs = sequence_sizes(layer)
    gates = GATE_COUNTS[layer.op]
    unit = RECURRENT_GRADIENTS[layer.op].operations
    if layer.attrs.get("activation") == "relu":
        unit = Operations(add=1, cmp=1)
    if "b0" in layer or "b" in layer:
        unit += Operations(add=gates)
    projections = outputs * layer.attrs["hidden"] if layer.attrs.get("projection") else 0
    macs = 2 * gates * products + 2 * projections
    operations = units * unit
    if "needs" in layer.attrs:
        macs -= _unneeded_products(layer, gates, products, projections)
        if "c0" in layer and "c0" not in layer.attrs["needs"]:
            operations += Operations(mul=-layer["c0"].size)
    return Cost(operations + Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


def _unneeded_products(layer: Layer, gates: int, products: Dim, projections: Dim) -> Dim:
    """Return the multiply-adds of gradients that nothing needs; weights are ``w`` together, or ``w0`` and ``w1``."""
    needs, attrs = layer.attrs["needs"], layer.attrs
    of_input = gates * layer["x"].size * attrs["hidden"] * (2 if attrs.get("bidirectional") else 1)
    unneeded: Dim = 0
    if "x" not in needs:
        unneeded += of_input
    if "h0" not in needs:
        unneeded += gates * layer["h0"].size * attrs["hidden"]
    if "w" not in needs:
        unneeded += 0 if "w0" in needs else of_input
        unneeded += 0 if "w1" in needs else gates * products + projections - of_input
    return unneeded
