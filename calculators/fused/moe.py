"""Mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, minimum, pattern

from .._shared import dot_products
from ..activation.softmax import softmax_operations
from ..reduction.sort_search import selection_comparisons
from .epilogues import activation_operations

WEIGHTS: Mapping[str, str] = {"w0": "b0", "w1": "b1", "w2": "b2"}
"""The weights of the experts, and the bias of each."""


@pattern("product")
def calc_moe(layer: Layer) -> Cost:
    """Mixture of experts: every row is processed by the ``k`` best of E experts, two-layer networks.

    Routing:

    * a softmax of the scores ``router`` over E experts;
    * a selection of k, at most E * ceil(log2(k + 1)) cmp per row;
    * with ``normalize``, the sum of k weights and k divisions per row.

    Per row and chosen expert:

    * the first layer ``w0``, and beside it a gate ``w2`` if given (1 mul per hidden unit);
    * the ``activation`` per hidden unit;
    * the second layer ``w1``.

    Products of the layers are MACs and start at biases if given. The k results are combined by their weights: 1 mul and
    k - 1 fma per element.

    Routing is assumed to be balanced: the weights of min(E, rows * k) experts are read. Packed weights (those with
    ``w0_scale`` …) are dequantized: 1 mul per element read, and 1 add with zero points or with one ``zero_point`` for
    all.

    Source: Shazeer et al., arXiv:1701.06538; Jiang et al., Mixtral, arXiv:2401.04088.

    Shapes: x[N, D], router[N, E], w0[E, I, D], w1[E, D, I], w2[E, I, D]?, b0[E, I]?, b1[E, D]? -> y[N, D]
    Settings: k=2, activation="silu"
    """
    x, experts, k = layer["x"], layer["w0"].shape[0], layer.attrs["k"]
    width = x.shape[-1]
    rows = x.size // width
    experts_read, hidden = minimum(experts, rows * k), layer["w1"].size // experts // width
    macs, read = 0, layer.read
    operations = _routing_operations(layer, rows, experts)
    for name, bias in WEIGHTS.items():
        if name in layer:
            products = rows * k * (layer[name].size // experts)
            outputs = products // (hidden if name == "w1" else width)
            operations += dot_products(outputs, products, bias in layer)
            operations += layer[name].size // experts * experts_read * _dequantization(layer, name)
            macs += products
            for operand in (name, f"{name}_scale", f"{name}_zero_point", bias):
                if operand in layer:
                    stored = layer[operand]
                    read += stored.bytes_of(stored.size // experts * experts_read) - stored.nbytes
    operations += rows * k * hidden * (activation_operations(layer) + Operations(mul=1 if "w2" in layer else 0))
    operations += dot_products(rows * width, rows * width * k)
    return Cost(operations, read, layer.written, layer.attrs, macs)


def _routing_operations(layer: Layer, rows: Dim, experts: Dim) -> Operations:
    """Return the operations that choose the experts of every row, and normalize their weights."""
    k = layer.attrs["k"]
    operations = softmax_operations(rows * experts, rows) + Operations(cmp=rows * selection_comparisons(experts, k))
    return operations + (Operations(add=rows * (k - 1), div=rows * k) if layer.attrs.get("normalize") else Operations())


def _dequantization(layer: Layer, weight: str) -> Operations:
    """Return the operations per element of a weight that is packed; none if it is not."""
    if f"{weight}_scale" not in layer:
        return Operations()
    return Operations(mul=1, add=1 if f"{weight}_zero_point" in layer or "zero_point" in layer.attrs else 0)
