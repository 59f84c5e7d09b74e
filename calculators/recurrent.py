"""Recurrent layers, a whole pass over all steps, layers and directions as one operator."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod

from .parts import dot_products


def whole_pass(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Of the whole pass: units (hidden units computed), products (of one gate, over input and state), outputs.

    The first layer reads I features, every other one those of all directions below it; the state that comes back has
    ``projection`` elements where the outputs are projected, else ``hidden``.
    """
    x, attrs = layer["x"], layer.attrs
    layers, directions = attrs.get("layers", 1), 2 if attrs.get("bidirectional") else 1
    state = attrs.get("projection") or attrs["hidden"]
    steps = prod(x.shape[:-1]) * directions
    units = steps * attrs["hidden"]
    lengths = x.shape[-1] + state + (layers - 1) * (directions + 1) * state
    return units * layers, units * lengths, steps * layers * state


def _biased(layer: Layer) -> bool:
    return "b" in layer or "b0" in layer


def calc_lstm(layer: Layer) -> Cost:
    """Long short-term memory: gates i, f, g, o from input and state; c' = f c + i g, h' = o tanh(c').

    Per step and hidden unit: four dot products of length I + H onto the bias (the two biases some frameworks keep are
    one starting value), three sigmoids, two tanh, f c (mul), + i g (fma), o tanh(c') (mul). Without biases the first
    product of each dot product is a mul. A setting ``projection`` P adds a dot product of length H for each of P
    outputs, which are then the state; ``peephole`` adds 3 fma per unit. Weights and initial states are read once,
    all outputs written once; the sequences between layers stay inside.

    Source: Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber and Cummins, 2000; projection: arXiv:1402.1128.

    Shapes: x[T, N, I], h0[N, H], c0[N, H], w0[4*H, I], w1[4*H, H], b0[4*H] -> y[T, N, H], hn[N, H], cn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False
    """
    units, products, outputs = whole_pass(layer)
    operations = dot_products(4 * units, 4 * products, _biased(layer)) + units * LSTM_UNIT
    macs = 4 * products
    if layer.attrs.get("projection"):
        operations += dot_products(outputs, outputs * layer.attrs["hidden"])
        macs += outputs * layer.attrs["hidden"]
    if layer.attrs.get("peephole"):
        operations += Operations(fma=3 * units)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


LSTM_UNIT = Operations(fma=1, mul=2, add=6, div=3, special=5)
"""Three sigmoids, two tanh, f c + i g, o tanh(c')."""


def calc_lstm_gates(layer: Layer) -> Cost:
    """The element-wise half of a long short-term memory step, on gates that were computed before it.

    Per hidden unit three sigmoids, two tanh, f c (mul), + i g (fma), o tanh(c') (mul).

    Shapes: x[N, 4*H], c0[N, H] -> c[N, H], y[N, H]
    """
    return Cost(layer.outputs[-1].size * LSTM_UNIT, layer.read, layer.written, layer.attrs)


def calc_gru(layer: Layer) -> Cost:
    """Gated recurrent unit: gates r and z from input and state, a candidate n; h' = (1 - z) n + z h.

    Per step and hidden unit: three dot products over the input (length I) and three over the state (length H), two
    sigmoids, one tanh, the product with r, 1 - z (add), (1 - z) n (mul), + z h (fma). The two products of the candidate
    stand on biases of their own and are added, 1 add. Setting ``reset_after`` false (r multiplies the state before its
    product): both products of r and of z accumulate onto one bias. True (r multiplies the product, as PyTorch and
    cuDNN do): these stay apart as well, 2 add more. Without biases the first product of each dot product is a mul.

    Source: Cho et al., arXiv:1406.1078; reset after: version 1 of that paper, and cuDNN.

    Shapes: x[T, N, I], h0[N, H], w0[3*H, I], w1[3*H, H], b0[3*H], b1[3*H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, reset_after=True
    """
    units, products, _ = whole_pass(layer)
    dots, adds = (6, 8) if layer.attrs.get("reset_after") else (4, 6)
    operations = dot_products(dots * units, 3 * products, _biased(layer))
    operations += Operations(fma=1, mul=2, add=adds, div=2, special=3) * units
    return Cost(operations, layer.read, layer.written, layer.attrs, 3 * products)


def calc_rnn(layer: Layer) -> Cost:
    """Elman recurrent layer: h' = tanh(W x + U h + b), or relu with the setting ``activation``.

    Per step and hidden unit one dot product of length I + H onto the bias and one tanh (special) or relu (cmp).
    Without biases the first product is a mul.

    Source: Elman, "Finding Structure in Time", 1990.

    Shapes: x[T, N, I], h0[N, H], w0[H, I], w1[H, H], b0[H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, activation="tanh"
    """
    units, products, _ = whole_pass(layer)
    is_relu = layer.attrs.get("activation", "tanh") == "relu"
    activation = Operations(cmp=units) if is_relu else Operations(special=units)
    operations = dot_products(units, products, _biased(layer)) + activation
    return Cost(operations, layer.read, layer.written, layer.attrs, products)
