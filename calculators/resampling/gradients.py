"""Gradients of interpolation."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, minimum, pattern

from .._shared import dot_products, needed_gradients
from .interpolation import SAMPLES


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
