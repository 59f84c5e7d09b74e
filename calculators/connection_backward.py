"""Gradients of layers that multiply activations by weights: for each operand one product of the size of the forward.

The setting ``needs`` names the operands whose gradients are made, and the outputs are these; without it, all.
"""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, prod

from .parts import dot_products, needed, read_of


def calc_conv_backward(layer: Layer) -> Cost:
    """Backward of a convolution: dx, dw, db from dy, as far as ``needs`` names them.

    dx is the transposed convolution of dy, |dy| (C_in / G) k products added onto zero. dw has as many products: every
    weight is one dot product over all positions of its group's channel. db sums dy over all but its channels. dx reads
    dy and w, dw reads dy and x; where only dw is needed, w need not be given.

    Shapes: dy[N, C_out, H_out, W_out], x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w]
        -> dx[N, C_in, H_in, W_in], dw[C_out, C_in/G, K_h, K_w]
    Settings: kernel=(K_h, K_w), groups=G, needs=("x", "w")
    """
    dy, w, wanted = layer["dy"], layer.get("w") or layer.out, needed(layer, "x", "w", "b")
    products = dy.size * prod(w.shape[1:])
    input_gradient = Operations(fma=products) if "x" in wanted else Operations()
    weight_gradient = dot_products(w.size, products) if "w" in wanted else Operations()
    bias_gradient = Operations(add=dy.size - w.shape[0]) if "b" in wanted else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs, products * _products(wanted))


def calc_conv_transpose_backward(layer: Layer) -> Cost:
    """Backward of a transposed convolution: dx, dw, db from dy, as far as ``needs`` names them.

    dx is the convolution of dy: every element one dot product over window and output channels of its group. dw has as
    many products, one dot product over all positions of x for every weight. db sums dy over all but its channels.

    Shapes: dy[N, C_out, H_out, W_out], x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w]
        -> dx[N, C_in, H_in, W_in], dw[C_in, C_out/G, K_h, K_w]
    Settings: kernel=(K_h, K_w), groups=G, needs=("x", "w")
    """
    dy, w, wanted = layer["dy"], layer.get("w") or layer.out, needed(layer, "x", "w", "b")
    size = (layer.get("x") or layer.out).size
    products = size * prod(w.shape[1:])
    input_gradient = dot_products(size, products) if "x" in wanted else Operations()
    weight_gradient = dot_products(w.size, products) if "w" in wanted else Operations()
    bias_gradient = Operations(add=dy.size - dy.shape[1 - w.ndim]) if "b" in wanted else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs, products * _products(wanted))


def calc_linear_backward(layer: Layer) -> Cost:
    """Backward of a fully connected layer: dx, dw, db from dy, as far as ``needs`` names them.

    Every element of dx is a dot product over the output features, every weight one over the rows; db sums the rows.

    Shapes: dy[N, F_out], x[N, F_in], w[F_out, F_in] -> dx[N, F_in], dw[F_out, F_in]
    Settings: needs=("x", "w")
    """
    dy, wanted = layer["dy"], needed(layer, "x", "w", "b")
    features = dy.shape[-1]
    width = (layer.get("w") or layer.get("x") or layer.out).shape[-1]
    products = dy.size * width
    input_gradient = dot_products(prod(dy.shape[:-1]) * width, products) if "x" in wanted else Operations()
    weight_gradient = dot_products(features * width, products) if "w" in wanted else Operations()
    bias_gradient = Operations(add=dy.size - features) if "b" in wanted else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs, products * _products(wanted))


def calc_matmul_backward(layer: Layer) -> Cost:
    """Backward of a matrix product: the gradients of both operands, as far as ``needs`` names them.

    Each is a product of dy with the other operand, of as many products as the forward; an operand that was broadcast
    sums over the batch in the same dot products. The gradient of an addend ``b`` sums dy to its shape.

    Shapes: dy[B, M, N], x0[B, M, K], x1[B, K, N] -> dx0[B, M, K], dx1[B, K, N]
    Settings: needs=("x0", "x1")
    """
    dy, x0, x1 = layer["dy"], layer["x0"], layer["x1"]
    wanted = needed(layer, "x0", "x1", "b")
    products = dy.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    first = dot_products(x0.size, products) if "x0" in wanted else Operations()
    second = dot_products(x1.size, products) if "x1" in wanted else Operations()
    addend = Operations(add=dy.size - layer["b"].size) if "b" in wanted else Operations()
    read = dy.nbytes + (x1.nbytes if "x0" in wanted else 0) + (x0.nbytes if "x1" in wanted else 0)
    macs = products * len(set(wanted) - {"b"})
    return Cost(first + second + addend, read, layer.written, layer.attrs, macs)


def _products(wanted: tuple[str, ...]) -> int:
    """How many matrix products make the wanted gradients."""
    return len(set(wanted) - {"b"})


def _read(layer: Layer, wanted: tuple[str, ...]) -> int:
    """Bytes of dy, of w where dx is wanted and of x where dw is wanted."""
    operands = {"x": "w", "w": "x"}
    return read_of(layer, "dy", *(operands[name] for name in wanted if name in operands))
