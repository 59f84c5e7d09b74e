"""Elementwise parts of recurrent steps, given the products of their gates, and their gradients.

A cell is defined for one hidden unit, as Python that tests execute; ``s`` is the sigmoid. In gradients of cells gates
are given before their sigmoid or tanh, which is evaluated again. Gradients that are absent count as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

from ..activation.activations import SIGMOID

LSTM_UNIT = Operations(fma=1, mul=2, add=6, div=3, special=5)
"""The operations per hidden unit: three sigmoids, two tanh, f c + i g, o tanh(c')."""


@pattern("map")
def calc_lstm_gates(layer: Layer) -> Cost:
    """Elementwise part of an LSTM step, given the products of its gates.

    Per hidden unit three sigmoids, two tanh, f c (mul), + i g (fma), o tanh(c') (mul).

    Shapes: x[N, 4*H], c0[N, H] -> c[N, H], y[N, H]
    """
    return Cost(layer.outputs[-1].size * LSTM_UNIT, layer.read, layer.written, layer.attrs)


SPECIAL = Operations(special=1)


CELLS: Mapping[str, PerElement] = {
    "slstm_gates": PerElement(
        Operations(fma=3, mul=2, add=1) + 5 * SIGMOID + 3 * SPECIAL,
        "c = fma(s(f1), c1, fma(s(f0), c0, fma(tanh(a1), s(i1), tanh(a0) * s(i0)))); (c, s(o0 + o1) * tanh(c))",
    ),
    "lstm_gates_backward": PerElement(
        Operations(mul=16, add=6) + 3 * SIGMOID + 2 * SPECIAL,
        "a = tanh(a); i = s(i); f = s(f); o = s(o); k = tanh(c); t = dh * o * (1 - k * k) + dc; "
        "(t * i * (1 - a * a), t * a * (i * (1 - i)), t * c0 * (f * (1 - f)), dh * k * (o * (1 - o)), t * f)",
    ),
    "slstm_gates_backward": PerElement(
        Operations(mul=26, add=10) + 5 * SIGMOID + 3 * SPECIAL,
        "a = tanh(a); i = s(i); f = s(f); b = tanh(b); j = s(j); g = s(g); o = s(o0 + o1); k = tanh(c); "
        "t = dh * o * (1 - k * k) + dc; "
        "(t * i * (1 - a * a), t * a * (i * (1 - i)), t * c0 * (f * (1 - f)), t * f, "
        "t * j * (1 - b * b), t * b * (j * (1 - j)), t * c1 * (g * (1 - g)), t * g, dh * k * (o * (1 - o)))",
    ),
    "lstm_gates_double_backward": PerElement(
        Operations(mul=57, add=18) + 3 * SIGMOID + 2 * SPECIAL,
        "a = tanh(a); i = s(i); f = s(f); o = s(o); k = tanh(c); "
        "p = 1 - a * a; q = i * (1 - i); r = f * (1 - f); w = o * (1 - o); z = 1 - k * k; t = dh * o * z + dc; "
        "y = vc * f + va * i * p + vi * a * q + vf * c0 * r; "
        "(vf * t * r, (va * i * (-2 * a * p) + vi * p * q) * t, (va * p * q + vi * a * (q * (1 - 2 * i))) * t, "
        "vc * t * r + vf * t * c0 * (r * (1 - 2 * f)), y * (dh * w * z) + vo * dh * k * (w * (1 - 2 * o)), "
        "y * (dh * o * (-2 * k * z)) + vo * dh * z * w, y, y * o * z + vo * k * w)",
    ),
    "slstm_gates_double_backward": PerElement(
        Operations(mul=90, add=32) + 5 * SIGMOID + 3 * SPECIAL,
        "a = tanh(a); i = s(i); f = s(f); b = tanh(b); j = s(j); g = s(g); o = s(o0 + o1); k = tanh(c); "
        "p = 1 - a * a; q = i * (1 - i); r = f * (1 - f); l = 1 - b * b; m = j * (1 - j); n = g * (1 - g); "
        "w = o * (1 - o); z = 1 - k * k; t = dh * o * z + dc; v = vo + vp; "
        "y = vc * f + va * i * p + vi * a * q + vf * c0 * r + vd * g + vb * j * l + vj * b * m + vg * c1 * n; "
        "(vf * t * r, (va * i * (-2 * a * p) + vi * p * q) * t, (va * p * q + vi * a * (q * (1 - 2 * i))) * t, "
        "vc * t * r + vf * t * c0 * (r * (1 - 2 * f)), "
        "vg * t * n, (vb * j * (-2 * b * l) + vj * l * m) * t, (vb * l * m + vj * b * (m * (1 - 2 * j))) * t, "
        "vd * t * n + vg * t * c1 * (n * (1 - 2 * g)), y * (dh * w * z) + v * dh * k * (w * (1 - 2 * o)), "
        "y * (dh * o * (-2 * k * z)) + v * dh * z * w, y, y * o * z + v * k * w)",
    ),
}


@pattern("map")
@covers(CELLS)
def calc_recurrent_cell(layer: Layer) -> Cost:
    """Steps of recurrent cells, given their gates: the operations of the definition, once per hidden unit.

    ``slstm_gates`` joins two cells with one output gate. The backward operators compute the gradients of all gates and
    of the previous cells. The double backward operators compute, for gradients ``v`` of these, the gradients of all
    operands.

    Source: Hochreiter and Schmidhuber, 1997; two cells: Zhu, Sobihani and Guo, arXiv:1503.04881.

    Shapes of slstm_gates: c0[N, H], c1[N, H], x0[N, 4*H], x1[N, 4*H] -> c[N, H], y[N, H]
    Shapes of lstm_gates_backward: c0[N, H], x[N, 4*H], c[N, H], dc[N, H], dh[N, H] -> dc0[N, H], dx[N, 4*H]
    Shapes of slstm_gates_backward: c0[N, H], c1[N, H], x0[N, 4*H], x1[N, 4*H], c[N, H], dc[N, H], dh[N, H]
        -> dc0[N, H], dc1[N, H], dx0[N, 4*H], dx1[N, 4*H]
    Shapes of lstm_gates_double_backward: c0[N, H], x[N, 4*H], c[N, H], dc[N, H], dh[N, H], vc[N, H], vx[N, 4*H]
        -> dc0[N, H], dx[N, 4*H], gc[N, H], gdc[N, H], gdh[N, H]
    Shapes of slstm_gates_double_backward: c0[N, H], c1[N, H], x0[N, 4*H], x1[N, 4*H], c[N, H], dc[N, H], dh[N, H],
        vc0[N, H], vc1[N, H], vx0[N, 4*H], vx1[N, 4*H]
        -> dc0[N, H], dc1[N, H], dx0[N, 4*H], dx1[N, 4*H], gc[N, H], gdc[N, H], gdh[N, H]
    """
    units = (layer.get("x") or layer["x0"]).size // 4
    return Cost(units * CELLS[layer.op].operations, layer.read, layer.written, layer.attrs)


def _child_count(layer: Layer) -> int:
    """Return the number of cells ``c0``, ``c1`` … that a node of a tree joins."""
    return sum(1 for name in layer.inputs if name.removeprefix("c").isdigit())


@pattern("map")
def calc_tree_lstm_gates(layer: Layer) -> Cost:
    """Cell of a tree whose node joins n children: c = s(i) tanh(a) + sum(s(f_k) c_k), h = s(o) tanh(c).

    Per hidden unit 2 + n sigmoids, two tanh, a i (mul), n fma, o tanh(c) (mul). x contains a, i, o and all f.

    Source: Tai, Socher and Manning, arXiv:1503.00075.

    Shapes: c0[N, H], c1[N, H], x[N, 5*H] -> c[N, H], y[N, H]
    """
    n = _child_count(layer)
    unit = Operations(fma=n, mul=2) + (2 + n) * SIGMOID + 2 * SPECIAL
    return Cost(layer.out.size * unit, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_tree_lstm_gates_backward(layer: Layer) -> Cost:
    """Gradients of tree_lstm_gates.

    As ``lstm_gates_backward``, with a forget gate and a cell for each of n children. Per hidden unit 12 mul and 5 add,
    and 4 mul and 1 add per child; 2 + n sigmoids and two tanh again.

    Shapes: c0[N, H], c1[N, H], x[N, 5*H], dc[N, H], dh[N, H] -> dc0[N, H], dc1[N, H], dx[N, 5*H]
    """
    n = _child_count(layer)
    unit = Operations(mul=12 + 4 * n, add=5 + n) + (2 + n) * SIGMOID + 2 * SPECIAL
    return Cost(layer["c0"].size * unit, layer.read, layer.written, layer.attrs)


SUMMED_GATES: Mapping[str, tuple[int, PerElement]] = {
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


@pattern("map")
@covers({op: unit for op, (_, unit) in SUMMED_GATES.items()})
def calc_summed_gates(layer: Layer) -> Cost:
    """Recurrent cells on two products, of the input x0 and of the state x1: their sum, then the cell.

    For every hidden unit the operations of the definition, with the sigmoid s; each bias is 1 add more per gate. The
    new states are written, and the results that the backward pass needs.

    Source: Hochreiter and Schmidhuber, 1997; Cho et al., arXiv:1406.1078.

    Shapes of summed_lstm_gates: x0[N, 4*H], x1[N, 4*H], c0[N, H] -> y[N, H], cn[N, H]
    Shapes of summed_gru_gates: x0[N, 3*H], x1[N, 3*H], h0[N, H] -> y[N, H]
    """
    gates, unit = SUMMED_GATES[layer.op]
    biases = sum(1 for name in ("b0", "b1") if name in layer)
    operations = layer["x0"].size // gates * (unit.operations + Operations(add=gates * biases))
    return Cost(operations, layer.read, layer.written, layer.attrs)


SUMMED_GATE_GRADIENTS: Mapping[str, tuple[int, PerElement]] = {
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


@pattern("map")
@covers({op: unit for op, (_, unit) in SUMMED_GATE_GRADIENTS.items()})
def calc_summed_gates_backward(layer: Layer) -> Cost:
    """Gradients of recurrent cells on two products: the definition, once per hidden unit.

    The gates are given by the forward pass (``gates``, with ``kept`` results per hidden unit). The gradients of both
    products are equal for an LSTM; for a GRU they differ by the product with r. If ``biased``, each bias sums over the
    rows: 1 add per element of its gates, minus the sums, for the gradients of both biases.

    Shapes of summed_lstm_gates_backward: dy[N, H], dc[N, H]?, c0[N, H], c[N, H], gates[N, 4*H]
        -> dgates[N, 4*H], dc0[N, H]
    Shapes of summed_gru_gates_backward: dy[N, H], gates[N, 5*H] -> dx0[N, 3*H], dx1[N, 3*H], dh0[N, H]
    Settings of summed_gru_gates_backward: kept=5
    """
    gates, unit = SUMMED_GATE_GRADIENTS[layer.op]
    units = (layer.get("dy") or layer["dc"]).size
    operations = units * unit.operations
    if layer.attrs.get("biased"):
        width = layer["gates"].shape[-1] // layer.attrs.get("kept", gates) * gates
        sides = 1 if gates == 4 else 2
        operations += Operations(add=sides * (units * gates - width))
    return Cost(operations, layer.read, layer.written, layer.attrs)
