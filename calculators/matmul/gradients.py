"""Gradients of linear, bilinear and matrix products.

The attribute ``needs`` names the operands that receive a gradient; the outputs are these gradients. Default: all. Each
gradient is a product of the size of the forward product.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products, gradient_input_bytes, gradient_product_count, needed_gradients


@pattern("product")
def calc_linear_backward(layer: Layer) -> Cost:
    """Backward of a fully connected layer: dx, dw and db from dy, as named by ``needs``.

    * dx: every element is a dot product over the output features.
    * dw: every element is a dot product over the rows.
    * db: the sum of the rows.

    Shapes: dy[N, F_out], x[N, F_in], w[F_out, F_in] -> dx[N, F_in], dw[F_out, F_in]
    Settings: needs=("x", "w")
    """
    dy, needed = layer["dy"], needed_gradients(layer, "x", "w", "b")
    features = dy.shape[-1]
    width = (layer.get("w") or layer.get("x") or layer.out).shape[-1]
    products = dy.size * width
    input_gradient = dot_products(prod(dy.shape[:-1]) * width, products) if "x" in needed else Operations()
    weight_gradient = dot_products(features * width, products) if "w" in needed else Operations()
    bias_gradient = Operations(add=dy.size - features) if "b" in needed else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(
        operations,
        gradient_input_bytes(layer, needed),
        layer.written,
        layer.attrs,
        products * gradient_product_count(needed),
    )


@pattern("product")
def calc_matmul_backward(layer: Layer) -> Cost:
    """Backward of a matrix product: the gradients of both operands, as named by ``needs``.

    Each is a product of dy with the other operand, with as many products as the forward. The gradient of a broadcast
    operand sums over the batch in the same dot products. The gradient of an addend ``b`` sums dy to its shape.

    Shapes: dy[B, M, N], x0[B, M, K], x1[B, K, N] -> dx0[B, M, K], dx1[B, K, N]
    Settings: needs=("x0", "x1")
    """
    dy, x0, x1 = layer["dy"], layer["x0"], layer["x1"]
    needed = needed_gradients(layer, "x0", "x1", "b")
    products = dy.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    first = dot_products(x0.size, products) if "x0" in needed else Operations()
    second = dot_products(x1.size, products) if "x1" in needed else Operations()
    addend = Operations(add=dy.size - layer["b"].size) if "b" in needed else Operations()
    read = dy.nbytes + (x1.nbytes if "x0" in needed else 0) + (x0.nbytes if "x1" in needed else 0)
    macs = products * len(set(needed) - {"b"})
    return Cost(first + second + addend, read, layer.written, layer.attrs, macs)


def _bilinear_gradients(layer: Layer, weight: str) -> tuple[Operations, Dim]:
    """Return the operations and products of the gradients of x0, x1 and the bilinear weight.

    dy W is a matrix for every row, of dot products over the outputs. The gradient of either operand is its product with
    the other operand. The gradient of the weight sums dy x0 x1 over the rows; x0 x1 are plain products.
    """
    rows = prod(layer["dy"].shape[:-1])
    features, first, second = layer[weight].shape
    matrix = rows * first * second
    operations = dot_products(matrix, matrix * features)
    operations += dot_products(rows * first, matrix) + dot_products(rows * second, matrix)
    operations += Operations(mul=matrix) + dot_products(layer[weight].size, matrix * features)
    return operations, 2 * matrix * (features + 1)


@pattern("product")
def calc_bilinear_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer: gradients of both operands and of the weight.

    * Per row dy W: F_0 F_1 dot products over the outputs, and its products with x1 and with x0.
    * dW: the sum of dy x0 x1 over the rows.

    MACs: 2 N F_0 F_1 (F_out + 1).

    Shapes: dy[N, F_out], x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1] -> dx0[N, F_0], dx1[N, F_1], dw[F_out, F_0, F_1]
    """
    operations, macs = _bilinear_gradients(layer, "w")
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_biaffine_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer with linear terms: ``bilinear_backward`` and the linear terms.

    * dy u and dy v are added to the gradients of the operands.
    * du and dv sum x dy over the rows.
    * db sums dy.

    Shapes: dy[N, F], x0[N, P], x1[N, Q], w0[F, P, Q], w1[P, F], w2[Q, F] -> dx0[N, P], dx1[N, Q], dw0[F, P, Q],
        dw1[P, F], dw2[Q, F], db[F]
    """
    operations, macs = _bilinear_gradients(layer, "w0")
    dy, linear = layer["dy"], layer["w1"].size + layer["w2"].size
    products = prod(dy.shape[:-1]) * linear
    operations += Operations(fma=products) + dot_products(linear, products) + Operations(add=dy.size - dy.shape[-1])
    return Cost(operations, layer.read, layer.written, layer.attrs, macs + 2 * products)
