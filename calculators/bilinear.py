"""Products of two activations through a weight, their gradients, and linear layers with dropped weights."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod

from .parts import dot_products


def calc_biaffine(layer: Layer) -> Cost:
    """Bilinear layer with linear terms: y_o = x0^T W_o x1 + x0^T u_o + x1^T v_o + b_o, w0 being W, w1 u and w2 v.

    The bilinear part as in ``bilinear``; its last products and those of both linear terms are added onto the bias.
    macs = |y| (F_1 (F_0 + 1) + F_0 + F_1).

    Source: Dozat and Manning, "Deep Biaffine Attention for Neural Dependency Parsing", arXiv:1611.01734.

    Shapes: x0[N, F_0], x1[N, F_1], w0[F_out, F_0, F_1], w1[F_0, F_out], w2[F_1, F_out], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w0"].shape[1:]
    y = layer.out.size
    vector, last = y * second, y * (first + 2 * second)
    operations = dot_products(vector, vector * first) + dot_products(y, last, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * first + last)


def _bilinear_gradients(layer: Layer, weight: str) -> tuple[Operations, Dim]:
    """Operations and products of the gradients of x0, x1 and the bilinear weight.

    dy W is a matrix for every row, of dot products over the outputs; the gradient of either operand is its product with
    the other; that of the weight sums dy x0 x1 over the rows, x0 x1 being plain products.
    """
    rows = prod(layer["dy"].shape[:-1])
    features, first, second = layer[weight].shape
    matrix = rows * first * second
    operations = dot_products(matrix, matrix * features)
    operations += dot_products(rows * first, matrix) + dot_products(rows * second, matrix)
    operations += Operations(mul=matrix) + dot_products(layer[weight].size, matrix * features)
    return operations, 2 * matrix * (features + 1)


def calc_bilinear_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer: gradients of both operands and of the weight.

    For every row dy W (F_0 F_1 dot products over the outputs), its products with x1 and with x0; dW sums dy x0 x1 over
    the rows. macs = 2 N F_0 F_1 (F_out + 1).

    Shapes: dy[N, F_out], x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1] -> dx0[N, F_0], dx1[N, F_1], dw[F_out, F_0, F_1]
    """
    operations, macs = _bilinear_gradients(layer, "w")
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_biaffine_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer with linear terms: as bilinear_backward, and the gradients of the linear terms.

    dy u and dy v are added onto the gradients of the operands; those of u and v sum x dy over the rows, that of the
    bias sums dy.

    Shapes: dy[N, F], x0[N, P], x1[N, Q], w0[F, P, Q], w1[P, F], w2[Q, F] -> dx0[N, P], dx1[N, Q], dw0[F, P, Q],
        dw1[P, F], dw2[Q, F], db[F]
    """
    operations, macs = _bilinear_gradients(layer, "w0")
    dy, linear = layer["dy"], layer["w1"].size + layer["w2"].size
    products = prod(dy.shape[:-1]) * linear
    operations += Operations(fma=products) + dot_products(linear, products) + Operations(add=dy.size - dy.shape[-1])
    return Cost(operations, layer.read, layer.written, layer.attrs, macs + 2 * products)


def calc_dropconnect_linear(layer: Layer) -> Cost:
    """Fully connected layer whose weights are dropped at random in training, for every row anew or for all at once.

    Every element of the mask chooses a weight or drops it, and scales it, 1 cmp and 1 mul as in dropout; then linear.
    The mask is an operand where it was given, else it is drawn, and written beside the output.

    Source: Wan et al., "Regularization of Neural Networks using DropConnect", ICML 2013.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out], mask[N, F_out, F_in]
    """
    mask = layer["mask"] if "mask" in layer else layer.outputs[1]
    macs = layer.out.size * layer["w"].shape[1]
    operations = Operations(mul=mask.size, cmp=mask.size) + dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
