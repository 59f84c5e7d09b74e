"""Losses that compare a predicted distribution, given by its scores, with one that is given."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .loss import reduce
from .parts import dot_products
from .softmax import log_softmax_operations


def calc_kl_div_with_logits(layer: Layer) -> Cost:
    """Divergence of the softmax of scores from a target: sum(target * (log(target) - log_softmax(x))) of every row.

    Per row of c classes: log_softmax (2c-1 add, c+1 special), c logarithms and subtractions, a dot product of length c;
    then the reduction. What guards a logarithm against 0 is no part of it.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, classes = layer["x"].size, layer["x"].shape[1]
    count = size // classes
    operations = log_softmax_operations(size, count) + Operations(add=size, special=size) + dot_products(count, size)
    return Cost(operations + reduce(layer, count), layer.read, layer.written, layer.attrs)
