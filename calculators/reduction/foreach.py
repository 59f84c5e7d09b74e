"""Reductions of every tensor of a list, as optimizers run them."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .norms import NORMS, norm_operations


@pattern("opaque")
def calc_foreach_norm(layer: Layer) -> Cost:
    """The norm of every tensor of a list.

    * ``p=2`` (default): for n elements 1 mul, n - 1 fma and a root.
    * ``p=1``: n absolute values and n - 1 additions.
    * Another ``p``: an absolute value and a power per element, n - 1 additions and a root.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    n, count = sum(x.size for x in layer.inputs.values()), len(layer.outputs)
    return Cost(norm_operations(layer.attrs.get("p", 2), n, count), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_foreach_powsum(layer: Layer) -> Cost:
    """The sum of powers of every tensor of a list: ``foreach_norm`` without the root.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    n, count, p = sum(x.size for x in layer.inputs.values()), len(layer.outputs), layer.attrs.get("p", 2)
    operations = norm_operations(p, n, count) + Operations(special=0 if p in NORMS and p != 2 else -count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_foreach_max(layer: Layer) -> Cost:
    """The largest element of every tensor of a list: n - 1 cmp for n elements.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    operations = Operations(cmp=sum(x.size for x in layer.inputs.values()) - len(layer.outputs))
    return Cost(operations, layer.read, layer.written, layer.attrs)
