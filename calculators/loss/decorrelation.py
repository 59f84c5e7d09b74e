"""Losses that decorrelate features, and their gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .._shared import dot_products


def _centering(elements: Dim, columns: Dim) -> Operations:
    """Return the operations of subtracting the mean of every column.

    Per column of n elements: n - 1 add and 1 div for the mean, n subtractions.
    """
    return Operations(add=2 * elements - columns, div=columns)


def _covariance_operations(layer: Layer, rows: Dim, products: Dim) -> Operations:
    """Return the operations of the covariance of ``products`` pairs of columns, and of its reduction."""
    operations = dot_products(products, products * rows) + Operations(div=products)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += dot_products(1, products) + Operations(mul=1)
    return operations


@pattern("opaque")
def calc_cross_covariance(layer: Layer) -> Cost:
    """Covariance of every column of x0 with every column of x1; as a loss, half the sum of its squares.

    * Both operands are centered.
    * Each of C_0 C_1 dot products has the length of a column, N (MACs), and is divided by N.
    * ``reduction`` "half_squared_sum": the squares are accumulated and halved.

    Source: Cheung et al., "Discovering Hidden Factors of Variation in Deep Networks", arXiv:1412.6583.

    Shapes: x0[N, C_0], x1[N, C_1] -> y[]
    Settings: reduction="half_squared_sum"
    """
    x0, x1 = layer["x0"], layer["x1"]
    rows, products = x0.shape[0], x0.shape[1] * x1.shape[1]
    operations = (
        _centering(x0.size, x0.shape[1])
        + _centering(x1.size, x1.shape[1])
        + _covariance_operations(layer, rows, products)
    )
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


@pattern("opaque")
def calc_decov_loss(layer: Layer) -> Cost:
    """Covariance of all pairs of columns with a zero diagonal; as a loss, half the sum of its squares.

    Source: Cogswell et al., "Reducing Overfitting in Deep Networks by Decorrelating Representations", arXiv:1511.06068.

    Shapes: x[N, C] -> y[]
    Settings: reduction="half_squared_sum"
    """
    rows, columns = layer["x"].shape
    products = columns * columns
    operations = _centering(layer["x"].size, columns) + _covariance_operations(layer, rows, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


@pattern("opaque")
def calc_decov_loss_backward(layer: Layer) -> Cost:
    """Gradient of decov_loss, 2 h cov dy / N, from the centered columns h and their covariance.

    One matrix product; dy / N is 1 div, and the factors 2 and dy / N are 2 mul per element. With ``reduction`` "none"
    dy is a matrix, and the product is with (dy + dy^T) / N: C^2 div and C^2 add.

    Shapes: dy[], x[N, C] -> dx[N, C]
    Settings: reduction="half_squared_sum"
    """
    size, columns = layer["x"].size, layer["x"].shape[1]
    operations = dot_products(size, size * columns)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += Operations(mul=2 * size, div=1)
    else:
        operations += Operations(add=columns * columns, div=columns * columns)
    return Cost(operations, layer.read, layer.written, layer.attrs, size * columns)
