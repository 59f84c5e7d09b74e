"""Recurrent layers and cells, and layers that carry a state along a sequence."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, Tensor, covers, pattern, prod

from ._shared import dot_products, operations_of, without_quantization
from .activation import ACTIVATIONS, SIGMOID, softmax_operations

# LSTM, GRU and RNN over all steps, layers and directions.


FUNCTIONS: Mapping[str, Operations] = {
    **{name: each.operations for name, each in ACTIVATIONS.items()},
    "affine": Operations(fma=1),
    "scaled_tanh": Operations(mul=2, special=1),  # alpha * tanh(beta * x)
    "softplus": Operations(add=1, special=2),
}
"""The operations of the activation functions of gates and states."""


def sequence_sizes(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return units, products and outputs of a pass over all steps, layers and directions.

    Units are the hidden units computed. Products are the products of one gate with the input and the state. The first
    layer has I input features, every other layer the outputs of all directions below it. The state has ``projection``
    elements if the outputs are projected, else ``hidden``.
    """
    x, attrs = layer["x"], layer.attrs
    layers, directions = attrs.get("layers", 1), 2 if attrs.get("bidirectional") else 1
    state = attrs.get("projection") or attrs["hidden"]
    steps = prod(x.shape[:-1]) * directions
    units = steps * attrs["hidden"]
    lengths = x.shape[-1] + state + (layers - 1) * (directions + 1) * state
    return units * layers, units * lengths, steps * layers * state


def _has_bias(layer: Layer) -> bool:
    return "b" in layer or "b0" in layer


def _activated(layer: Layer, units: Dim, default: tuple[str, ...], uses: tuple[int, ...]) -> Operations:
    names = layer.attrs.get("activations", default)
    directions = len(names) // len(default)
    # ``clip`` limits the operand of every function from both sides.
    operations = Operations(cmp=2 * sum(uses) * units if layer.attrs.get("clip") else 0)
    for name, times in zip(names, uses * directions, strict=True):
        operations += times * (units // directions) * FUNCTIONS[name]
    return operations


def _gates(layer: Layer) -> int:
    # Tied gates: the forget gate is one minus the input gate, not a product.
    return 3 if layer.attrs.get("tied_gates") else 4


def _lstm_units(layer: Layer, units: Dim) -> Operations:
    gates = _gates(layer)
    state = Operations(fma=1, mul=2, add=4 - gates)
    return units * state + _activated(layer, units, ("sigmoid", "tanh", "tanh"), (gates - 1, 1, 1))


@pattern("product")
def calc_lstm(layer: Layer) -> Cost:
    """Long short-term memory: gates i, f, g, o from input and state; c' = f c + i g, h' = o tanh(c').

    Per step and hidden unit:

    * four dot products of length I + H, starting at the bias (two biases, as some frameworks keep them, are one
      starting value); without biases the first product of each is a mul;
    * three sigmoids, two tanh;
    * f c (mul), + i g (fma), o tanh(c') (mul).

    The attribute ``projection`` P adds a dot product of length H for each of P outputs, which are then the state.
    ``peephole`` adds 3 fma per unit. With ``tied_gates`` f is 1 - i: three dot products, two sigmoids, 1 add, and 2 fma
    of peepholes. ``activations`` replace sigmoid, tanh and tanh, in each direction if there are six. ``clip`` limits
    the operand of every activation, 2 cmp.

    Weights and initial states are read once, all outputs are written once; sequences between layers are not
    materialized.

    Source: Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber and Cummins, 2000; projection: arXiv:1402.1128.

    Shapes: x[T, N, I], h0[N, H], c0[N, H], w0[4*H, I], w1[4*H, H], b0[4*H] -> y[T, N, H], hn[N, H], cn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False
    """
    units, products, outputs = sequence_sizes(layer)
    gates = _gates(layer)
    macs = gates * products
    operations = dot_products(gates * units, macs, _has_bias(layer)) + _lstm_units(layer, units)
    if layer.attrs.get("projection"):
        operations += dot_products(outputs, outputs * layer.attrs["hidden"])
        macs += outputs * layer.attrs["hidden"]
    if layer.attrs.get("peephole"):
        operations += Operations(fma=(gates - 1) * units)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_gru(layer: Layer) -> Cost:
    """Gated recurrent unit: gates r and z from input and state, a candidate n; h' = (1 - z) n + z h.

    Per step and hidden unit:

    * three dot products of length I + H, one accumulator a gate, starting at the bias (two biases, as some frameworks
      keep them, are one starting value); without biases the first product of each is a mul;
    * two sigmoids, one tanh;
    * the product with r, 1 - z (add), (1 - z) n (mul), + z h (fma).

    ``reset_after`` false: r multiplies the state before its product. True: r multiplies the product, as in PyTorch and
    cuDNN; the two parts of the candidate are then separate dot products, each with a bias of its own, and 1 add joins
    them. ``activations`` and ``clip`` as in ``lstm``.

    Source: Cho et al., arXiv:1406.1078; reset after: version 1 of that paper, and cuDNN.

    Shapes: x[T, N, I], h0[N, H], w0[3*H, I], w1[3*H, H], b0[3*H], b1[3*H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, reset_after=True
    """
    units, products, _ = sequence_sizes(layer)
    dots, adds = (4, 2) if layer.attrs.get("reset_after") else (3, 1)
    operations = dot_products(dots * units, 3 * products, _has_bias(layer))
    operations += Operations(fma=1, mul=2, add=adds) * units
    operations += _activated(layer, units, ("sigmoid", "tanh"), (2, 1))
    return Cost(operations, layer.read, layer.written, layer.attrs, 3 * products)


@pattern("product")
def calc_rnn(layer: Layer) -> Cost:
    """Elman recurrent layer, h' = tanh(W x + U h + b); the attribute ``activation`` names another function, as "relu".

    Per step and hidden unit one dot product of length I + H, starting at the bias, and one tanh (special), relu (cmp)
    or other function. Without biases the first product is a mul. ``activations`` are those of two directions; ``clip``
    as in ``lstm``.

    Source: Elman, "Finding Structure in Time", 1990.

    Shapes: x[T, N, I], h0[N, H], w0[H, I], w1[H, H], b0[H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, activation="tanh"
    """
    units, products, _ = sequence_sizes(layer)
    operations = dot_products(units, products, _has_bias(layer))
    operations += _activated(layer, units, (layer.attrs.get("activation", "tanh"),), (1,))
    return Cost(operations, layer.read, layer.written, layer.attrs, products)


@pattern("product")
def calc_dynamic_quantized_lstm(layer: Layer) -> Cost:
    """``lstm`` with quantized weights; inputs and states are quantized by their range.

    In each direction:

    * the input once, and the state before every step: ``dynamic_quantize`` (for n elements n + 2 add and div, 5 n + 3
      cmp), and 1 add per element for the zero point;
    * weights: 1 add per element if they have a zero point;
    * each of the two products of every gate is dequantized: 1 mul.

    Shapes: x[T, N, I], h0[N, H], c0[N, H], w0[1, I, 4*H], w1[1, H, 4*H], b0[8*H], w0_scale[1], w1_scale[1]
        -> y[T, 1, N, H], hn[1, N, H], cn[1, N, H]
    Settings: hidden=H
    """
    x, hidden = layer["x"], layer.attrs["hidden"]
    directions = 2 if layer.attrs.get("bidirectional") else 1
    plain = calc_lstm(without_quantization(layer, "lstm"))
    steps, batch, _ = x.shape
    operations = operations_of(plain) + Operations(mul=2 * _gates(layer) * steps * batch * directions * hidden)
    for count, size in ((directions, x.size), (directions * steps, batch * hidden)):
        operations += count * Operations(add=2 * size + 2, div=size + 2, cmp=5 * size + 3)
    operations += Operations(add=sum(layer[w].size for w in ("w0", "w1") if f"{w}_zero_point" in layer))
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


@pattern("product")
def calc_attention_lstm(layer: Layer) -> Cost:
    """``lstm`` with attention to a memory after every step; the result is a part of the next input.

    * Gates: dot products over the rows of ``w0`` (input and attention) and of ``w1`` (state).
    * Memory: S vectors, projected once by ``w4`` to A features.
    * Per step the state is projected by ``w3``.
    * Per step and memory vector, a score: the sum of both projections (A add), tanh (A special), and a dot product with
      ``w5``.
    * The softmax of the scores weights the memory: dot products of length S.
    * State and context are projected by ``w6``, if given.

    All these products are MACs. ``w2`` are peepholes, 3 fma per unit.

    Source: Bahdanau, Cho and Bengio, arXiv:1409.0473.

    Shapes: x[T, N, I], memory[N, S, M], w0[1, 4*H, I], w1[1, 4*H, H], b0[1, 8*H], w3[1, H, A], w4[1, M, A], w5[1, A],
        w6[1, M+H, R]? -> y[T, 1, N, H], hn[1, N, H], cn[1, N, H]
    Settings: hidden=H
    """
    memory, w4 = layer["memory"], layer["w4"]
    batch, length, depth = memory.shape
    steps = layer["x"].size // layer["x"].shape[-1]
    directions, _, size = w4.shape
    units = steps * directions * layer.attrs["hidden"]
    count = _gates(layer)
    gates = steps * (layer["w0"].size + layer["w1"].size) * count // 4
    operations = dot_products(count * units, gates, "b0" in layer) + _lstm_units(layer, units)
    operations += Operations(fma=(count - 1) * units if "w2" in layer else 0)
    scores, contexts = steps * directions * length, steps * directions * depth
    products = [  # dot products, and the products in them
        (batch * length * directions * size, batch * length * w4.size),
        (steps * directions * size, steps * layer["w3"].size),
        (scores, scores * size),
        (contexts, contexts * length),
    ]
    if "w6" in layer:
        products.append((steps * directions * layer["w6"].shape[-1], steps * layer["w6"].size))
    for count, each in products:
        operations += dot_products(count, each)
    operations += scores * size * Operations(add=1, special=1) + softmax_operations(scores, steps * directions)
    macs = gates + sum(each for _, each in products)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


# Elementwise parts of recurrent steps, given the products of their gates, and their gradients.
#
# A cell is defined for one hidden unit, as Python that tests execute; ``s`` is the sigmoid. In gradients of cells gates
# are given before their sigmoid or tanh, which is evaluated again. Gradients that are absent count as zeros.


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
    return sum(1 for name in layer.inputs if name.removeprefix("c").isdigit())


@pattern("map")
def calc_tree_lstm_gates(layer: Layer) -> Cost:
    """Cell of a tree node that joins n children: c = s(i) tanh(a) + sum(s(f_k) c_k), h = s(o) tanh(c).

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


# Layers that carry a state along a sequence: linear attention, delta nets, causal convolution.


@pattern("product")
def calc_linear_attention(layer: Layer) -> Cost:
    """Linear attention: a state S per key head is updated at every step and read by the queries.

    S is a matrix of D x D_v. ``rule`` defines the update:

    * ``linear``: S + k v^T.
    * ``gated``: S times exp(g) first.
    * ``delta``: S + beta k (v - S^T k)^T.
    * ``gated_delta``: both.

    Per step and key head:

    * the outer product added to S: D D_v fma;
    * gated rules: exp of the gate, 1 special per element of ``decay``, and its product with S, D D_v mul;
    * delta rules: S^T k, D_v dot products of length D; D_v subtractions; D_v mul by beta.

    Per step and query head: D_v dot products of length D, and D_v mul by the scale.

    MACs are the dot products and the outer product. The recurrence is counted step by step, even if an implementation
    works in chunks.

    Source: Katharopoulos et al., arXiv:2006.16236; Yang et al., Gated Delta Networks, arXiv:2412.06464.

    Shapes: q[B, H, T, D], k[B, H_kv, T, D], v[B, H_kv, T, D_v], decay[B, T, H_kv]?, beta[B, T, H_kv]?
        -> y[B, T, H, D_v], state[B, H_kv, D, D_v]
    Settings: rule="linear"
    """
    q, k, v, rule = layer["q"], layer["k"], layer["v"], layer.attrs["rule"]
    width = v.shape[-1]
    cells, rows = k.size * width, v.size
    outputs = q.size // q.shape[-1] * width
    products = q.size * width
    operations = Operations(fma=cells) + dot_products(outputs, products) + Operations(mul=outputs)
    macs = cells + products
    if "gated" in rule:
        operations += Operations(mul=cells, special=layer["decay"].size)
    if "delta" in rule:
        operations += dot_products(rows, cells) + Operations(add=rows, mul=rows)
        macs += cells
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_causal_conv(layer: Layer) -> Cost:
    """Causal convolution of every channel by itself, with the last K - 1 inputs as a state.

    Every output is one dot product of length K, plus the bias if given; the attribute ``activation`` (``silu``) adds
    its operations. The new state is a copy of the last inputs: of the input, and of the old state if T < K - 1.

    Source: Gu and Dao, Mamba, arXiv:2312.00752.

    Shapes: x[B, C, T], w[C, 1, K], b[C]?, state[B, C, K]? -> y[B, C, T], new_state[B, C, K]
    """
    y, w = layer.out, layer["w"]
    macs = y.size * prod(w.shape[1:])
    operations = dot_products(y.size, macs, "b" in layer)
    activation = layer.attrs.get("activation")
    if activation:
        operations += y.size * ACTIVATIONS[activation].operations
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


SOFTPLUS = Operations(add=1, special=2)
"""The operations of one softplus."""


@pattern("product")
def calc_gated_delta_net(layer: Layer) -> Cost:
    """Linear attention of concatenated sequences, with preparation of its operands.

    * The recurrence is ``linear_attention`` with the attribute ``rule``, and a state of D x D_v for each of H_v value
      heads. ``heads`` is (H_k, H_v), ``features`` is (D, D_v).
    * Queries and keys are shared by H_v / H_k value heads and read once; without k and v, q contains all three.
    * ``normalize``: ``l2_normalize`` of every query and key.
    * ``decay_bias``: the decay is -exp(``decay_rate``) softplus(decay + ``decay_bias``), per element 2 add, 2 special,
      1 mul, and per head 1 special and 1 add.
    * ``squash``: the update rate is a sigmoid.

    Source: Yang, Kautz and Hatamizadeh, Gated Delta Networks, arXiv:2412.06464.

    Shapes: q[T, H_k, D], k[T, H_k, D], v[T, H_v, D_v], decay[T, H_v]?, beta[T, H_v]?, state[N, H_v, D_v, D]?
        -> y[T, H_v, D_v], new_state[N, H_v, D_v, D]
    Settings: heads=(H_k, H_v), features=(D, D_v), rule="linear"
    """
    (shared, heads), (width, outputs) = layer.attrs["heads"], layer.attrs["features"]
    steps = layer.out.size // (heads * outputs)
    core = {"q": Tensor((1, heads, steps, width)), "k": Tensor((1, heads, steps, width))}
    core["v"] = Tensor((1, heads, steps, outputs))
    core.update({name: layer[name] for name in ("decay", "beta") if name in layer})
    plain = calc_linear_attention(Layer("linear_attention", core, layer.outputs, {"rule": layer.attrs["rule"]}))
    operations = operations_of(plain)
    if layer.attrs.get("normalize"):
        operations += _l2_normalization(2 * steps * shared, width)
    if "decay_bias" in layer:
        operations += layer["decay"].size * (SOFTPLUS + Operations(add=1, mul=1)) + heads * Operations(add=1, special=1)
    if layer.attrs.get("squash"):
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


def _l2_normalization(count: Dim, width: Dim) -> Operations:
    return count * Operations(fma=width - 1, mul=1, add=1, div=width, special=1)


@pattern("map")
def calc_decay_gate(layer: Layer) -> Cost:
    """Decay and update rate of a gated delta rule.

    softplus(x + b) times ``rate``, and the sigmoid of ``beta``. Per element of x 2 add, 2 special, 1 mul; per element
    of ``beta``, if given, 2 add, 1 div, 1 special.

    Shapes: x[N, T, H], b[H], rate[H], beta[N, T, H]? -> decay[N, T, H], update[N, T, H]
    """
    operations = layer["x"].size * (SOFTPLUS + Operations(add=1, mul=1))
    if "beta" in layer:
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Gradients of recurrent layers over all steps, layers and directions.
#
# Activations of gates and states are given by the forward pass. Every product of the forward pass has two products in
# the backward pass, one for the gradient of the operand and one for the gradient of the weight. Both are added to
# gradients that start at zero.


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

    The operations of the definition, once per step and hidden unit, then the products of the gates. Each product of the
    forward pass takes two fma (twice its MACs), the bias 1 add per gate. ``rnn`` with ``activation`` "relu" is 1 add
    and 1 cmp. The products of the attribute ``projection`` are doubled too.

    In the definitions, dy comes from the layer above, dh and dc come from the next step; i, f, o, z, r are gates, a and
    c candidates, k the tanh of the cell, m the candidate's product with the state.

    Gradients that the attribute ``needs`` does not name cost no products: the gradient of the input, of the initial
    state (only the product of the first step) and of the weights. For an initial cell state, the first step has one mul
    less. Fused kernels write these gradients nevertheless.

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
    if _has_bias(layer):
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
    needs, attrs = layer.attrs["needs"], layer.attrs
    of_input = gates * layer["x"].size * attrs["hidden"] * (2 if attrs.get("bidirectional") else 1)
    unneeded: Dim = 0
    if "x" not in needs:
        unneeded += of_input
    if "h0" not in needs:
        unneeded += gates * layer["h0"].size * attrs["hidden"]
    # The weights are ``w`` together, or ``w0`` and ``w1``.
    if "w" not in needs:
        unneeded += 0 if "w0" in needs else of_input
        unneeded += 0 if "w1" in needs else gates * products + projections - of_input
    return unneeded
