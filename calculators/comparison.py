"""Questions about whole tensors, whose answer is a truth value or another single figure."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, ceil_log2, minimum

from .elementwise import BINARY
from .sorting import comparisons


def calc_all_equal(layer: Layer) -> Cost:
    """Whether two tensors are equal: n comparisons, and n-1 to join them.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    return Cost(Operations(cmp=2 * layer["x0"].size - 1), layer.read, layer.written, layer.attrs)


def calc_all_close(layer: Layer) -> Cost:
    """Whether two tensors are equal up to a tolerance: ``isclose`` of every element, and n-1 cmp to join the answers.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    n = layer["x0"].size
    operations = n * BINARY["isclose"].operations + Operations(cmp=n - 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_all_true(layer: Layer) -> Cost:
    """Whether a mask keeps what a framework asks of it: one comparison per element.

    Shapes: x[N, C] -> y[]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


def calc_is_in(layer: Layer) -> Cost:
    """Whether each element of x is among n others, at most: these are sorted, and searched by bisection.

    n * ceil(log2(n)) cmp once, and ceil(log2(n + 1)) + 1 cmp per element of x; or n cmp for each where that is less.

    Shapes: x[M], values[N] -> y[M]
    """
    x, n = layer["x"].size, layer["values"].size
    compared = minimum(comparisons(n) + x * (ceil_log2(n + 1) + 1), x * n)
    return Cost(Operations(cmp=compared), layer.read, layer.written, layer.attrs)


def calc_reduce_xor(layer: Layer) -> Cost:
    """Exclusive or of the bits of all elements along axes, a hash: n-1 cmp for n elements.

    Shapes: x[N, C] -> y[N]
    """
    return Cost(Operations(cmp=layer["x"].size - layer.out.size), layer.read, layer.written, layer.attrs)
