"""Pieces that the formulas of several families share."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod


def dot_products(count: Dim, products: Dim, start: bool = False) -> Operations:
    """``count`` dot products with ``products`` products in all.

    Onto a starting value (a bias) every product is an fma; onto nothing the first of each dot product is a mul.
    """
    return Operations(fma=products) if start else Operations(mul=count, fma=products - count)


def scale_and_shift(layer: Layer, elements: Dim) -> Operations:
    """Scale by ``w`` and shift by ``b`` as far as given: an fma for both, a mul or an add for one."""
    if "w" in layer:
        return Operations(fma=elements) if "b" in layer else Operations(mul=elements)
    return Operations(add=elements) if "b" in layer else Operations()


def row_count(shape: tuple[Dim, ...], axis: int | tuple[int, ...]) -> Dim:
    """How many rows the elements of ``shape`` make when those along ``axis`` form one row."""
    inside = axis if isinstance(axis, tuple) else (axis,)
    return prod(size for i, size in enumerate(shape) if i not in inside)


def needed_gradients(layer: Layer, *operands: str) -> tuple[str, ...]:
    """Which of the ``operands`` a backward layer makes gradients of: its setting ``needs``, else those it has."""
    wanted = layer.attrs.get("needs", tuple(layer.inputs))
    return tuple(name for name in operands if name in wanted)


def input_bytes(layer: Layer, *operands: str) -> Dim:
    """Bytes of the named inputs, as far as given."""
    return sum(layer[name].nbytes for name in operands if name in layer)


def gradient_product_count(wanted: tuple[str, ...]) -> int:
    """How many matrix products make the wanted gradients."""
    return len(set(wanted) - {"b"})


def gradient_input_bytes(layer: Layer, wanted: tuple[str, ...]) -> int:
    """Bytes of dy, of w where dx is wanted and of x where dw is wanted."""
    operands = {"x": "w", "w": "x"}
    return input_bytes(layer, "dy", *(operands[name] for name in wanted if name in operands))


def operations_of(cost: Cost) -> Operations:
    """Return the operations of a cost by class; every calculator of this package counts them so."""
    assert isinstance(cost.flops, Operations)
    return cost.flops


def without_quantization(layer: Layer, op: str) -> Layer:
    """Return the layer of ``op`` on real numbers: the same operands without scales and zero points."""
    operands = {name: x for name, x in layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))}
    return Layer(op, operands, layer.outputs, layer.attrs)
