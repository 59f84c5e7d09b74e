"""The element-wise half of a recurrent step whose gates come as two products, of the input and of the state."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers

from .recurrent import LSTM_UNIT

GATED: Mapping[str, tuple[int, PerElement]] = {
    "summed_lstm_gates": (
        4,
        PerElement(
            LSTM_UNIT + Operations(add=4),
            "i = s(xi + hi); f = s(xf + hf); o = s(xo + ho); a = tanh(xa + ha); "
            "c = fma(i, a, f * c0); (o * tanh(c), c)",
        ),
    ),
    "summed_gru_gates": (
        3,
        PerElement(
            Operations(fma=1, mul=2, add=8, div=2, special=3),
            "r = s(xr + hr); z = s(xz + hz); n = tanh(xn + r * hn); fma(z, h0, (1 - z) * n)",
        ),
    ),
}


@covers(GATED)
def calc_summed_gates(layer: Layer) -> Cost:
    """Gates of a recurrent cell from the products of its input x0 and its state x1, and what they do to the state.

    For every hidden unit the operations of the definition, s the sigmoid; each bias is 1 add more for every gate. Of
    the outputs the new states are written, and what is kept for the backward pass.

    Source: Hochreiter and Schmidhuber, 1997; Cho et al., arXiv:1406.1078.

    Shapes: x0[N, 4*H], x1[N, 4*H], c0[N, H] -> y[N, H], cn[N, H]
    """
    gates, unit = GATED[layer.op]
    biases = sum(1 for name in ("b0", "b1") if name in layer)
    operations = layer["x0"].size // gates * (unit.operations + Operations(add=gates * biases))
    return Cost(operations, layer.read, layer.written, layer.attrs)


GRADIENTS: Mapping[str, tuple[int, PerElement]] = {
    "summed_lstm_gates_backward": (
        4,
        PerElement(
            Operations(mul=16, add=6, special=1),
            "k = tanh(c); t = dh * o * (1 - k * k) + dc; "
            "(t * i * (1 - a * a), t * a * (i * (1 - i)), t * c0 * (f * (1 - f)), dh * k * (o * (1 - o)), t * f)",
        ),
    ),
    "summed_gru_gates_backward": (
        3,
        PerElement(
            Operations(mul=11, add=4),
            "u = 1 - z; n = dh * u * (1 - c * c); (dh * (h - c) * (z * u), n * r, n * m * (r * (1 - r)), dh * z)",
        ),
    ),
}


@covers(GRADIENTS)
def calc_summed_gates_backward(layer: Layer) -> Cost:
    """Gradients of gates that were summed from two products, and of the state: the definition for every hidden unit.

    The gates are kept from the forward pass (``gates``). The gradients of both products are equal for an LSTM; for a
    GRU they differ by the product with r. Where ``biased`` each bias sums over the rows, 1 add an element of its gates
    less the sums: the gradients of both biases.

    Shapes: dy[N, H], dc[N, H]?, c0[N, H], gates[N, 4*H] -> dgates[N, 4*H], dc0[N, H]
    """
    gates, unit = GRADIENTS[layer.op]
    units = (layer.get("dy") or layer["dc"]).size
    operations = units * unit.operations
    if layer.attrs.get("biased"):
        width = layer["gates"].shape[-1] // layer.attrs.get("kept", gates) * gates
        sides = 1 if gates == 4 else 2
        operations += Operations(add=sides * (units * gates - width))
    return Cost(operations, layer.read, layer.written, layer.attrs)
