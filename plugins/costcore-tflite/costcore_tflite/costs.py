"""Formulas of operators that no other framework has."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Layer, Operations, ceil_log2, layout_operator, pattern
from costcore.numbers import minimum
from costcore.registry import calculators

ACTIVATION: Mapping[str, Operations] = {
    "relu": Operations(cmp=1),
    "relu6": Operations(cmp=2),
    "hard_tanh": Operations(cmp=2),
    "tanh": Operations(special=1),
    "signbit": Operations(cmp=1),
}
"""The operations per element of an activation that an operator applies to its result."""

ACTIVATED = ("add", "avg_pool", "concat", "conv_transpose", "div", "lp_pool", "max_pool", "mul", "sub")
"""Operators that may apply one, besides convolutions and linear layers."""


@pattern("opaque")
def calc_activated(layer: Layer) -> Cost:
    """An operator with an activation of its result: its own formula, and the activation of every output element."""
    op = layer.op.removeprefix("activated_")
    cost = Cost(*calculators()[op](Layer(op, layer.inputs, layer.outputs, layer.attrs)))
    plain = cost.flops if isinstance(cost.flops, Operations) else Operations(add=cost.flops)
    operations = plain + layer.out.size * ACTIVATION[layer.attrs["activation"]]
    return cost._replace(flops=operations, params=layer.attrs)


@pattern("move")
@layout_operator
def calc_space_to_batch(layer: Layer) -> Cost:
    """Blocks of space moved to samples, or back: every element is copied, with what is padded or cropped."""
    return Cost(Operations(), layer["x"].nbytes, layer.written, layer.attrs)


@pattern("product")
def calc_gated_lstm(layer: Layer) -> Cost:
    """LSTM whose gates have weights of their own: i, f, g, o from input and state, as in ``lstm``.

    * Each of G gates is a dot product of length I + P per step and unit, starting at the bias; G is 3 if the input gate
      is tied to the forget gate, which takes 1 add.
    * Three sigmoids and two tanh, f c (mul), + i g (fma), o tanh(c') (mul), as ``lstm`` counts them.
    * ``directions``: 2 if it runs forward and backward, with weights of each.
    * ``w_projection`` [P, H]: a dot product of length H for each of P outputs.
    * Peepholes: 1 fma per unit and gate that has one. Norms of gates: ``layer_norm`` of each.

    Source: the reference kernel of TensorFlow Lite, ``lstm_eval.cc``.
    """
    weights = [tensor for name, tensor in layer.inputs.items() if name[0] == "w" and name[1:].isdigit()]
    directions = layer.attrs.get("directions", 1)
    gates, units = len(weights) // 2 // directions, weights[0].shape[0] * directions
    steps = layer.attrs["steps"]
    macs = steps * sum(weight.size for weight in weights)
    operations = Operations(fma=macs)
    sigmoid, tanh = Operations(add=1, div=1, special=1), Operations(special=1)
    operations += steps * units * ((gates - 1) * sigmoid + 2 * tanh + Operations(fma=1, mul=2))
    if gates == 3:
        operations += Operations(add=steps * units)
    peepholes = sum(tensor.size for name, tensor in layer.inputs.items() if name.startswith("w_peephole"))
    operations += Operations(fma=steps * peepholes)
    norms = sum(tensor.size for name, tensor in layer.inputs.items() if name.startswith("w_norm"))
    operations += steps * norms * Operations(fma=2, add=2, mul=1, div=1)
    if "w_projection" in layer:
        projected = steps * layer["w_projection"].size
        operations, macs = operations + Operations(fma=projected), macs + projected
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_svdf(layer: Layer) -> Cost:
    """Singular value decomposition filter: features by one vector per filter, a filter over the last T of them, a sum.

    Per sample, with F filters of rank R over I inputs and T steps of memory: F I products for the features, F T for the
    filters over time, F - F / R add for the sum over ranks, and F / R add of the bias.

    Source: Nakkiran et al., "Compressing Deep Neural Networks using a Rank-Constrained Topology", 2015.
    """
    batch, (filters, steps) = layer["x"].shape[0], layer["w1"].shape
    macs = batch * (layer["w0"].size + filters * steps)
    sums = batch * (filters - filters // layer.attrs["rank"]) + (layer.out.size if "b" in layer else 0)
    return Cost(Operations(fma=macs, add=sums), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_ssd_postprocess(layer: Layer) -> Cost:
    """Boxes of anchors, and a suppression over the best class of each, or (``regular``) over each class.

    * A box: its center (``v / scale * h + c``: 1 div and 1 fma each), half its size (``exp(v / scale) * h / 2``: 1 div,
      2 mul, 1 special each), its corners (4 add).
    * The best of C classes of each anchor: C - 1 cmp. A sort of N scores.
    * The overlap of each of ``kept`` boxes with those after it, at most: 3 mul, 8 add, 1 div, 7 cmp.

    Source: the kernel of TensorFlow Lite, ``detection_postprocess.cc``.

    Shapes: x[1, N, 4], scores[1, N, C], anchors[N, 4] -> y[1, K, 4]
    Settings: kept=10
    """
    scores = layer["scores"]
    n, classes = scores.shape[-2:]
    box = Operations(div=4, fma=2, mul=4, special=2, add=4)
    lists = classes if layer.attrs.get("regular") else 1
    kept = minimum(n, layer.attrs["kept"])
    pairs = kept * (2 * n - kept - 1) // 2
    operations = n * box + (0 if layer.attrs.get("regular") else n * (classes - 1)) * Operations(cmp=1)
    operations += lists * (Operations(cmp=n * ceil_log2(n)) + pairs * Operations(mul=3, add=8, div=1, cmp=7))
    return Cost(operations, layer.read, layer.written, layer.attrs)


CALCULATORS: Mapping[str, Calculator] = {
    **{f"activated_{op}": calc_activated for op in ACTIVATED},
    "gated_lstm": calc_gated_lstm,
    "space_to_batch": calc_space_to_batch,
    "ssd_postprocess": calc_ssd_postprocess,
    "svdf": calc_svdf,
}
