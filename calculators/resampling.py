"""Resizing and sampling by interpolation, and its gradients.

Interpolation weights and positions are index arithmetic and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, maximum, minimum, pattern, prod

from ._shared import dot_products, needed_gradients

# Interpolation: resizing, grid sampling, affine grids.


SAMPLES: Mapping[str, Callable[[int], tuple[int, Operations]]] = {
    "nearest": lambda rank: (1, Operations()),
    "linear": lambda rank: (2**rank, (2**rank - 1) * Operations(mul=1, add=2)),
    "cubic": lambda rank: (4**rank, (4**rank - 1) // 3 * Operations(mul=4, add=3)),
}
"""Elements that one sample of a rank needs, and its operations, by mode."""


def _sampling(layer: Layer, points: Dim) -> tuple[Operations, Dim]:
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


# Resizing with antialiasing.
#
# Windows widen as images shrink.


SUPPORT: Mapping[str, int] = {"linear": 2, "cubic": 4, "lanczos": 6}
"""Elements that a sample needs along an axis that does not shrink, by mode."""


def _axis_passes(mode: str, large: tuple[Dim, ...], small: tuple[Dim, ...]) -> list[tuple[Dim, Dim]]:
    support, shape, passes = SUPPORT[mode], list(large), []
    for axis in reversed(range(2, len(large))):
        shape[axis] = small[axis]
        # A window along an axis from L to n elements has at most support * max(L / n, 1) taps, rounded up.
        taps = maximum(ceil_div(support * large[axis], small[axis]), support)
        passes.append((prod(shape), taps))
    return passes


@pattern("window")
def calc_antialiased_resize(layer: Layer) -> Cost:
    """Resizing with antialiasing, one axis after another: every output is a weighted sum of t elements.

    t mul and t - 1 add per sample. t is the support (linear 2, cubic 4, lanczos 6), times the ratio of the sizes if the
    axis shrinks, rounded up, which is the widest window.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: mode="linear"
    """
    passes = _axis_passes(layer.attrs["mode"], layer["x"].shape, layer.out.shape)
    operations = sum((n * Operations(mul=taps, add=taps - 1) for n, taps in passes), Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_antialiased_resize_backward(layer: Layer) -> Cost:
    """Gradient of antialiased_resize: each weighted sample is added to its t elements, t mul and t add.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    Settings: mode="linear"
    """
    passes = _axis_passes(layer.attrs["mode"], layer.out.shape, layer["dy"].shape)
    operations = sum((n * taps * Operations(mul=1, add=1) for n, taps in passes), Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Gradients of interpolation.


@pattern("window")
def calc_resize_backward(layer: Layer) -> Cost:
    """Gradient of resizing: weighted dy is added to all elements of x that its sample needed.

    One add for the mode nearest, 2^r mul and add for linear, 4^r for cubic, to a gradient of zeros. x is not needed.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    Settings: mode="linear"
    """
    dy, axes, mode = layer["dy"], layer.attrs.get("axes"), layer.attrs["mode"]
    taps, _ = SAMPLES[mode](dy.ndim - 2 if axes is None else len(axes))
    operations = taps * Operations(mul=0 if mode == "nearest" else 1, add=1)
    return Cost(dy.size * operations, dy.nbytes, layer.written, layer.attrs)


@pattern("opaque")
def calc_grid_sample_backward(layer: Layer) -> Cost:
    """Gradients of grid_sample for x and for the points, as named by ``needs``.

    A sample is a weighted sum of t elements of x (nearest 1, linear 2^r, cubic 4^r).

    * dx: weighted dy is added to these elements, t mul and t add (nearest: t add).
    * Points: for each of r coordinates and every element of dy another weighted sum of the same elements (t mul, t - 1
      add), its dot product with dy over the channels, and 1 mul for the scale of the coordinate. For the mode nearest
      it is zero.

    Source: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.

    Shapes: dy[N, C, P, Q], x[N, C, H, W], grid[N, P, Q, 2] -> dx[N, C, H, W], dgrid[N, P, Q, 2]
    Settings: mode="linear", needs=("x", "grid")
    """
    dy, x, grid, needed = layer["dy"], layer["x"], layer["grid"], needed_gradients(layer, "x", "grid")
    rank, is_nearest = x.ndim - 2, layer.attrs["mode"] == "nearest"
    taps, _ = SAMPLES[layer.attrs["mode"]](rank)
    operations, read = Operations(), dy.nbytes + grid.nbytes
    if "x" in needed:
        operations += dy.size * taps * Operations(mul=0 if is_nearest else 1, add=1)
    if "grid" in needed and not is_nearest:
        operations += dy.size * rank * Operations(mul=taps, add=taps - 1)
        operations += dot_products(grid.size, dy.size * rank) + Operations(mul=grid.size)
        read += x.bytes_of_part(minimum(taps * dy.size, x.size))
    return Cost(operations, read, layer.written, layer.attrs)


@pattern("opaque")
def calc_affine_grid_backward(layer: Layer) -> Cost:
    """Gradient of affine_grid: dy times the points in homogeneous coordinates, (p_1, ..., p_r, 1).

    Each of r (r + 1) elements of theta's gradient is a dot product over all points of the grid (MACs).

    Shapes: dy[N, P, Q, 2], theta[N, 2, 3] -> dtheta[N, 2, 3]
    """
    dy, dtheta = layer["dy"], layer.out
    products = dy.size * dtheta.shape[2]
    return Cost(dot_products(dtheta.size, products), dy.nbytes, layer.written, layer.attrs, products)
