"""Comparisons and tests of whole tensors."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from ..elementwise.arithmetic import BINARY, UNARY


@pattern("reduce")
def calc_all_equal(layer: Layer) -> Cost:
    """Equality of two tensors: n cmp, and n - 1 cmp to join them. Tensors of different shapes are not read.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    if layer["x0"].shape != layer["x1"].shape:
        return Cost(Operations(), 0, 0, layer.attrs)
    return Cost(Operations(cmp=2 * layer["x0"].size - 1), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_close(layer: Layer) -> Cost:
    """Equality of two tensors up to a tolerance: ``isclose`` of every element, and n - 1 cmp to join them.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    n = layer["x0"].size
    operations = n * BINARY["isclose"].operations + Operations(cmp=n - 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_true(layer: Layer) -> Cost:
    """Test that a mask satisfies a condition of the framework: one cmp per element.

    Shapes: x[N, C] -> y[]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_finite(layer: Layer) -> Cost:
    """Test that all elements of all operands are finite.

    ``test`` of each of n elements, and n - 1 cmp to join them. ``test`` is ``isfinite``, ``isinf`` (1 add, 1 cmp) or
    ``isnan`` (1 cmp).

    Shapes: x0[N, C], x1[M] -> y[]
    """
    n = sum(x.size for x in layer.inputs.values())
    operations = n * UNARY[layer.attrs.get("test", "isfinite")].operations + Operations(cmp=n - 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)
