"""Operations and bytes common to formulas of several families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, minimum, prod


def dot_products(count: Dim, products: Dim, start: bool = False) -> Operations:
    """Return the operations of ``count`` dot products with ``products`` products in all.

    With an initial value (a bias), every product is an fma. Without it, the first product of each dot product is a mul.
    """
    return Operations(fma=products) if start else Operations(mul=count, fma=products - count)


def products_of_pairs(layer: Layer, count: Dim, products: Dim) -> tuple[Dim, Dim]:
    """Return the numbers of dot products and products that count, if masked attention scores are among the operands.

    The attribute ``scores`` names the operand with a score per pair of query and key, or "y"; ``pairs`` is the number
    of pairs that are not masked. Without these attributes, all products count.
    """
    if "pairs" not in layer.attrs:
        return count, products
    name, pairs = layer.attrs["scores"], layer.attrs["pairs"]
    kept = products * pairs // (layer.out if name == "y" else layer[name]).size
    return (pairs, kept) if name == "y" else (minimum(count, kept), kept)


def scale_and_shift(layer: Layer, elements: Dim) -> Operations:
    """Return the operations of a scale ``w`` and a shift ``b``.

    Per element, an fma for both, a mul for ``w`` alone, an add for ``b`` alone.
    """
    if "w" in layer:
        return Operations(fma=elements) if "b" in layer else Operations(mul=elements)
    return Operations(add=elements) if "b" in layer else Operations()


def row_count(shape: tuple[Dim, ...], axis: int | tuple[int, ...]) -> Dim:
    """Return the number of rows if the elements of ``shape`` along ``axis`` form one row."""
    inside = axis if isinstance(axis, tuple) else (axis,)
    return prod(size for i, size in enumerate(shape) if i not in inside)


def axes_in_memory(tensor: Tensor, order: Sequence[int] | None) -> list[int]:
    """Return the axes with more than one element in memory order; without ``order``, in the order of the shape."""
    return [axis for axis in order or range(tensor.ndim) if tensor.shape[axis] != 1]


def needed_gradients(layer: Layer, *operands: str) -> tuple[str, ...]:
    """Return the operands that get a gradient in a backward layer.

    These are the names in the attribute ``needs``; without it, all operands of the layer.
    """
    needed = layer.attrs.get("needs", tuple(layer.inputs))
    return tuple(name for name in operands if name in needed)


def saved_bytes(layer: Layer, elements: Dim) -> Dim:
    """Return the bytes of ``elements`` results that the layer writes for its backward pass.

    The attribute ``saved`` is their dtype. Without it, no backward pass follows, so they are not written.
    """
    return Tensor((elements,), layer.attrs["saved"]).nbytes if "saved" in layer.attrs else 0


def input_bytes(layer: Layer, *operands: str) -> Dim:
    """Return the bytes of inputs by name; absent inputs count as 0."""
    return sum(layer[name].nbytes for name in operands if name in layer)


def gradient_product_count(needed: tuple[str, ...]) -> int:
    """Return the number of matrix products for the needed gradients: one each, but none for a bias."""
    return len(set(needed) - {"b"})


def gradient_input_bytes(layer: Layer, needed: tuple[str, ...]) -> int:
    """Return the bytes of dy, of w if dx is needed, and of x if dw is needed."""
    operands = {"x": "w", "w": "x"}
    return input_bytes(layer, "dy", *(operands[name] for name in needed if name in operands))


def operations_of(cost: Cost) -> Operations:
    """Return the operations of a cost by class, as every calculator of this package has them."""
    assert isinstance(cost.flops, Operations)
    return cost.flops


_PRODUCTS: Mapping[object, Operations] = {2: Operations(mul=1), 3: Operations(mul=2)}
"""The operations of powers that are evaluated as products, by the exponent."""


def power_operations(exponent: object) -> Operations:
    """Return the operations of a power with a constant exponent: products for 2 and 3, else one special."""
    return _PRODUCTS.get(exponent, Operations(special=1))


def without_quantization(layer: Layer, op: str) -> Layer:
    """Return the layer of ``op`` on floats: the same operands without scales and zero points."""
    operands = {name: x for name, x in layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))}
    return Layer(op, operands, layer.outputs, layer.attrs)


def index_bytes(layer: Layer) -> Dim:
    """Return the bytes of the indices of a sparse operand, ``indices`` of 8 bytes each."""
    count: Dim = layer.attrs.get("indices", 0)
    return 8 * count
