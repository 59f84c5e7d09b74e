"""Interpolation: resizing, grid sampling, affine grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costcore.ir import Cost, Dim, Layer, Operations, minimum, pattern

from .._shared import dot_products

SAMPLES: Mapping[str, Callable[[int], tuple[int, Operations]]] = {
    "nearest": lambda rank: (1, Operations()),
    "linear": lambda rank: (2**rank, (2**rank - 1) * Operations(mul=1, add=2)),
    "cubic": lambda rank: (4**rank, (4**rank - 1) // 3 * Operations(mul=4, add=3)),
}
"""Elements that one sample of a rank needs, and its operations, by mode."""


def _sampling(layer: Layer, points: Dim) -> tuple[Operations, Dim]:
    """Return the operations of ``points`` samples of x, and the bytes of x that they need."""
    x = layer["x"]
    axes = layer.attrs.get("axes")
    taps, operations = SAMPLES[layer.attrs["mode"]](x.ndim - 2 if axes is None else len(axes))
    return points * operations, x.bytes_of_part(minimum(taps * points, x.size))


@pattern("window")
def calc_resize(layer: Layer) -> Cost:
    """Resizing by interpolation: every output element is a sample of x.

    ``mode``:

    * nearest: a copy; 1 element of x.
    * linear: between two values ``a + t * (b - a)``, 1 mul and 2 add; a sample of rank r takes 2^r - 1 of these (linear
      1 mul 2 add, bilinear 3 and 6, trilinear 7 and 14) and needs 2^r elements.
    * cubic: a weighted sum of four values, 4 mul and 3 add, (4^r - 1) / 3 times (bicubic 20 and 15); 4^r elements.

    The rank is that of x without batch and channels, or the number of ``axes`` if given. There is no antialiasing.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: mode="linear"
    """
    operations, read = _sampling(layer, layer.out.size)
    return Cost(operations, read, layer.written, layer.attrs)


@pattern("window")
def calc_grid_sample(layer: Layer) -> Cost:
    """Samples of x at points that are data (spatial transformer), interpolated as in ``resize``.

    The grid is read. The conversion of a point to indices and weights costs nothing.

    Source: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.

    Shapes: x[N, C, H, W], grid[N, P, Q, 2] -> y[N, C, P, Q]
    Settings: mode="linear"
    """
    operations, read = _sampling(layer, layer.out.size)
    return Cost(operations, read + layer["grid"].nbytes, layer.written, layer.attrs)


@pattern("opaque")
def calc_affine_grid(layer: Layer) -> Cost:
    """Sampling points of an affine map: each of r coordinates is a dot product with (p_1, ..., p_r, 1).

    It is the matrix product of theta [N, r, r + 1] with homogeneous coordinates, as frameworks define it: of length r +
    1 (MACs). The coordinates themselves cost nothing. (The function body of ONNX's AffineGrid extends 2 x 3 maps of the
    plane to 3 x 4 maps of space, twice the products; the operator does not need them.)

    Source: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.

    Shapes: theta[N, 2, 3] -> y[N, P, Q, 2]
    """
    products = layer.out.size * layer["theta"].shape[2]
    operations = dot_products(layer.out.size, products)
    return Cost(operations, layer["theta"].nbytes, layer.written, layer.attrs, products)
