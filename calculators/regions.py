"""Parts of images: crops brought to one size, poolings under a mask; and squared distances of points."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .parts import dot_products, read_of
from .pooling import calc_pool
from .resampling import calc_resize


def calc_crop_and_resize(layer: Layer) -> Cost:
    """Crops of images at boxes given as data, each brought to one size by interpolation as in ``resize``.

    The boxes, and which image each is of, are read; turning them into places and weights is index arithmetic.

    Shapes: x[N, C, H, W], rois[R, 4], indices[R] -> y[R, C, P, Q]
    Settings: mode="linear"
    """
    plain = calc_resize(Layer("resize", {"x": layer["x"]}, layer.outputs, layer.attrs))
    read = plain.mread + read_of(layer, "rois", "indices")
    return Cost(plain.flops, read, layer.written, layer.attrs)


def calc_masked_max_pool(layer: Layer) -> Cost:
    """``max_pool`` of the elements a mask leaves: 1 cmp more for every element of x, and the mask is read.

    Shapes: x[N, C, H, W], mask[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    plain = calc_pool(Layer("max_pool", {"x": layer["x"]}, layer.outputs, layer.attrs))
    assert isinstance(plain.flops, Operations)
    operations = plain.flops + Operations(cmp=layer["x"].size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_squared_distances(layer: Layer) -> Cost:
    """Squared Euclidean distance of every row of x0 to every row of x1: D subtractions, 1 mul, D - 1 fma a pair.

    As ``pairwise_distances`` without the root; a detour over a matrix product is not counted: no macs.

    Shapes: x0[M, D], x1[N, D] -> y[M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + dot_products(pairs, elements)
    return Cost(operations, layer.read, layer.written, layer.attrs)
