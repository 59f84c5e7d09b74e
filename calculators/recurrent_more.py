"""Recurrent layers with more in them: attention to a memory, weights and states quantised on the way."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .parts import dot_products
from .recurrent import LSTM_UNIT, calc_lstm
from .softmax import softmax_operations


def calc_dynamic_quantized_lstm(layer: Layer) -> Cost:
    """``lstm`` with quantised weights, whose inputs and states are quantised by their range before they are multiplied.

    In each direction the input once, and before every step the state, are quantised as ``dynamic_quantize`` does (of n
    elements n + 2 add and div, 5 n + 3 cmp) and take 1 add each for their zero point; weights 1 add where they have
    one; each of the two products of every gate is made real, 1 mul.

    Shapes: x[T, N, I], h0[N, H], c0[N, H], w0[1, I, 4*H], w1[1, H, 4*H], b0[8*H], w0_scale[1], w1_scale[1]
        -> y[T, 1, N, H], hn[1, N, H], cn[1, N, H]
    Settings: hidden=H
    """
    x, hidden = layer["x"], layer.attrs["hidden"]
    directions = 2 if layer.attrs.get("bidirectional") else 1
    operands = {name: x for name, x in layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))}
    plain = calc_lstm(Layer("lstm", operands, layer.outputs, layer.attrs))
    assert isinstance(plain.flops, Operations)
    steps, batch, _ = x.shape
    operations = plain.flops + Operations(mul=8 * steps * batch * directions * hidden)
    for count, size in ((directions, x.size), (directions * steps, batch * hidden)):
        operations += count * Operations(add=2 * size + 2, div=size + 2, cmp=5 * size + 3)
    operations += Operations(add=sum(layer[w].size for w in ("w0", "w1") if f"{w}_zero_point" in layer))
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


def calc_attention_lstm(layer: Layer) -> Cost:
    """``lstm`` that looks at a memory after every step, and takes what it saw as a part of the next input.

    Gates are dot products over the rows of ``w0`` (input and attention) and of ``w1`` (state). The S memory vectors are
    projected once by ``w4`` to A features. Every step projects the state by ``w3``; a score for each memory vector is
    the sum of both (A add), tanh (A special) and a dot product with ``w5``; the scores' softmax weights the memory,
    dot products of length S; state and context are projected by ``w6`` where it is given. All these products are macs.
    ``w2`` are peepholes, 3 fma per unit.

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
