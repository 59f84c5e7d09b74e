"""LSTM, GRU and RNN over all steps, layers and directions."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products, operations_of, without_quantization
from ..activation.softmax import softmax_operations
from .cells import LSTM_UNIT


def sequence_sizes(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return units, products and outputs of a pass over all steps, layers and directions.

    Units are hidden units computed, products those of one gate over input and state. The first layer has I input
    features, every other layer the outputs of all directions below it. The state has ``projection`` elements if the
    outputs are projected, else ``hidden``.
    """
    x, attrs = layer["x"], layer.attrs
    layers, directions = attrs.get("layers", 1), 2 if attrs.get("bidirectional") else 1
    state = attrs.get("projection") or attrs["hidden"]
    steps = prod(x.shape[:-1]) * directions
    units = steps * attrs["hidden"]
    lengths = x.shape[-1] + state + (layers - 1) * (directions + 1) * state
    return units * layers, units * lengths, steps * layers * state


def _has_bias(layer: Layer) -> bool:
    """Return whether the layer has a bias."""
    return "b" in layer or "b0" in layer


@pattern("product")
def calc_lstm(layer: Layer) -> Cost:
    """Long short-term memory: gates i, f, g, o from input and state; c' = f c + i g, h' = o tanh(c').

    Per step and hidden unit:

    * four dot products of length I + H, starting at the bias (two biases, as some frameworks keep them, are one
      starting value); without biases the first product of each is a mul;
    * three sigmoids, two tanh;
    * f c (mul), + i g (fma), o tanh(c') (mul).

    The attribute ``projection`` P adds a dot product of length H for each of P outputs, which are then the state.
    ``peephole`` adds 3 fma per unit. Weights and initial states are read once, all outputs are written once; sequences
    between layers are not materialized.

    Source: Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber and Cummins, 2000; projection: arXiv:1402.1128.

    Shapes: x[T, N, I], h0[N, H], c0[N, H], w0[4*H, I], w1[4*H, H], b0[4*H] -> y[T, N, H], hn[N, H], cn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False
    """
    units, products, outputs = sequence_sizes(layer)
    operations = dot_products(4 * units, 4 * products, _has_bias(layer)) + units * LSTM_UNIT
    macs = 4 * products
    if layer.attrs.get("projection"):
        operations += dot_products(outputs, outputs * layer.attrs["hidden"])
        macs += outputs * layer.attrs["hidden"]
    if layer.attrs.get("peephole"):
        operations += Operations(fma=3 * units)
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
    them.

    Source: Cho et al., arXiv:1406.1078; reset after: version 1 of that paper, and cuDNN.

    Shapes: x[T, N, I], h0[N, H], w0[3*H, I], w1[3*H, H], b0[3*H], b1[3*H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, reset_after=True
    """
    units, products, _ = sequence_sizes(layer)
    dots, adds = (4, 6) if layer.attrs.get("reset_after") else (3, 5)
    operations = dot_products(dots * units, 3 * products, _has_bias(layer))
    operations += Operations(fma=1, mul=2, add=adds, div=2, special=3) * units
    return Cost(operations, layer.read, layer.written, layer.attrs, 3 * products)


@pattern("product")
def calc_rnn(layer: Layer) -> Cost:
    """Elman recurrent layer, h' = tanh(W x + U h + b); relu with the attribute ``activation`` "relu".

    Per step and hidden unit one dot product of length I + H, starting at the bias, and one tanh (special) or relu
    (cmp). Without biases the first product is a mul.

    Source: Elman, "Finding Structure in Time", 1990.

    Shapes: x[T, N, I], h0[N, H], w0[H, I], w1[H, H], b0[H] -> y[T, N, H], hn[N, H]
    Settings: hidden=H, layers=1, bidirectional=False, activation="tanh"
    """
    units, products, _ = sequence_sizes(layer)
    is_relu = layer.attrs.get("activation", "tanh") == "relu"
    activation = Operations(cmp=units) if is_relu else Operations(special=units)
    operations = dot_products(units, products, _has_bias(layer)) + activation
    return Cost(operations, layer.read, layer.written, layer.attrs, products)


@pattern("product")
def calc_dynamic_quantized_lstm(layer: Layer) -> Cost:
    """``lstm`` with quantized weights, whose inputs and states are quantized by their range.

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
    operations = operations_of(plain) + Operations(mul=8 * steps * batch * directions * hidden)
    for count, size in ((directions, x.size), (directions * steps, batch * hidden)):
        operations += count * Operations(add=2 * size + 2, div=size + 2, cmp=5 * size + 3)
    operations += Operations(add=sum(layer[w].size for w in ("w0", "w1") if f"{w}_zero_point" in layer))
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


@pattern("product")
def calc_attention_lstm(layer: Layer) -> Cost:
    """``lstm`` with attention to a memory after every step, whose result is a part of the next input.

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
    gates = steps * (layer["w0"].size + layer["w1"].size)
    operations = dot_products(4 * units, gates, "b0" in layer) + units * LSTM_UNIT
    operations += Operations(fma=3 * units if "w2" in layer else 0)
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
