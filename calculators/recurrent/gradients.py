"""Gradients of recurrent layers, a whole pass back over all steps, layers and directions as one operator.

The activations of gates and states are kept from the forward pass. Every product of the forward pass has two: one makes
the gradient of what was multiplied, one that of the weight, both added onto gradients that start at zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers

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


@covers(RECURRENT_GRADIENTS)
def calc_recurrent_backward(layer: Layer) -> Cost:
    """Backward of a recurrent layer: for every step and hidden unit the definition, then the products of its gates.

    Two fma for each product of the forward pass (macs twice its), 1 add for each gate's bias. In the definitions dy
    comes from above and dh, dc from the next step; i, f, o, z, r are gates, a and c candidates, k the tanh of the cell,
    m the candidate's product with the state. ``rnn`` with ``activation`` "relu" is 1 add and 1 cmp. A setting
    ``projection`` doubles its products too.

    Shapes: dy[T, N, H], x[T, N, I], h0[N, H], w0[H, I], w1[H, H], b0[H] -> dx[T, N, I], dh0[N, H], dw0[H, I]
    Settings: hidden=H, layers=1, bidirectional=False
    """
    units, products, outputs = sequence_sizes(layer)
    gates = GATE_COUNTS[layer.op]
    unit = RECURRENT_GRADIENTS[layer.op].operations
    if layer.attrs.get("activation") == "relu":
        unit = Operations(add=1, cmp=1)
    if "b0" in layer or "b" in layer:
        unit += Operations(add=gates)
    macs = 2 * gates * products
    if layer.attrs.get("projection"):
        macs += 2 * outputs * layer.attrs["hidden"]
    return Cost(units * unit + Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)
