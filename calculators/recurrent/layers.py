"""LSTM, GRU and RNN over all steps, layers and directions."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products, operations_of, without_quantization
from ..activation.activations import ACTIVATIONS
from ..activation.softmax import softmax_operations

FUNCTIONS: Mapping[str, Operations] = {
    **{name: each.operations for name, each in ACTIVATIONS.items()},
    "affine": Operations(fma=1),
    "scaled_tanh": Operations(mul=2, special=1),  # alpha * tanh(beta * x)
    "softplus": Operations(add=1, special=2),
}
"""The operations of the activation functions of gates and states."""


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


def _activated(layer: Layer, units: Dim, usual: tuple[str, ...], uses: tuple[int, ...]) -> Operations:
    """Return the operations of activation functions, and of limits around their operands.

    Args:
        layer: its attribute ``activations`` has the functions of all directions, if they are not the usual ones.
        units: hidden units computed in all directions.
        usual: the usual functions of one direction.
        uses: how often a unit uses each of them.
    """
    names = layer.attrs.get("activations", usual)
    directions = len(names) // len(usual)
    operations = Operations(cmp=2 * sum(uses) * units if layer.attrs.get("clip") else 0)
    for name, times in zip(names, uses * directions, strict=True):
        operations += times * (units // directions) * FUNCTIONS[name]
    return operations


def _gates(layer: Layer) -> int:
    """Return the gates of an LSTM that are products."""
    return 3 if layer.attrs.get("tied_gates") else 4


def _lstm_units(layer: Layer, units: Dim) -> Operations:
    """Return the operations of hidden units, given the products of their gates."""
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
    """Elman recurrent layer, h' = tanh(W x + U h + b); with the attribute ``activation`` another function, as "relu".

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
    operations = operations_of(plain) + Operations(mul=2 * _gates(layer) * steps * batch * directions * hidden)
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
