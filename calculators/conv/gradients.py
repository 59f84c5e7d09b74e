"""Gradients of convolutions.

The attribute ``needs`` names the operands that receive a gradient; the outputs are these gradients. Default: all.
"""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, minimum, pattern, prod

from .._shared import dot_products, gradient_input_bytes, gradient_product_count, needed_gradients


@pattern("product")
def calc_conv_backward(layer: Layer) -> Cost:
    """Backward of a convolution: dx, dw and db from dy, as named by ``needs``.

    * dx is the transposed convolution of dy: |dy| (C_in / G) k products, added to zero. It reads dy and w.
    * dw has as many products: every weight is one dot product over all positions of its group's channel. It reads dy
      and x; w may be absent if only dw is needed.
    * db sums dy over all axes except the channels.

    Shapes: dy[N, C_out, H_out, W_out], x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w]
        -> dx[N, C_in, H_in, W_in], dw[C_out, C_in/G, K_h, K_w]
    Settings: kernel=(K_h, K_w), groups=G, needs=("x", "w")
    """
    dy, w, needed = layer["dy"], layer.get("w") or layer.out, needed_gradients(layer, "x", "w", "b")
    products = dy.size * prod(w.shape[1:])
    input_gradient = Operations(fma=products) if "x" in needed else Operations()
    weight_gradient = dot_products(w.size, products) if "w" in needed else Operations()
    bias_gradient = Operations(add=dy.size - w.shape[0]) if "b" in needed else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(
        operations,
        gradient_input_bytes(layer, needed),
        layer.written,
        layer.attrs,
        products * gradient_product_count(needed),
    )


@pattern("product")
def calc_conv_transpose_backward(layer: Layer) -> Cost:
    """Backward of a transposed convolution: dx, dw and db from dy, as named by ``needs``.

    * dx is the convolution of dy: every element is one dot product over the window and the output channels of its
      group.
    * dw has as many products: one dot product over all positions of x for every weight.
    * db sums dy over all axes except the channels.

    Shapes: dy[N, C_out, H_out, W_out], x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w]
        -> dx[N, C_in, H_in, W_in], dw[C_in, C_out/G, K_h, K_w]
    Settings: kernel=(K_h, K_w), groups=G, needs=("x", "w")
    """
    dy, w, needed = layer["dy"], layer.get("w") or layer.out, needed_gradients(layer, "x", "w", "b")
    size = (layer.get("x") or layer.out).size
    products = size * prod(w.shape[1:])
    input_gradient = dot_products(size, products) if "x" in needed else Operations()
    weight_gradient = dot_products(w.size, products) if "w" in needed else Operations()
    bias_gradient = Operations(add=dy.size - dy.shape[1 - w.ndim]) if "b" in needed else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(
        operations,
        gradient_input_bytes(layer, needed),
        layer.written,
        layer.attrs,
        products * gradient_product_count(needed),
    )


@pattern("product")
def calc_deform_conv_backward(layer: Layer) -> Cost:
    """Backward of a deformable convolution: gradients of x, w, the offsets, the mask and the bias, from dy.

    With s samples, one per input channel, tap and output position, as in ``deform_conv``:

    * The gradients of the samples are a product of w and dy, dw is one of dy and the samples: each has the MACs of the
      convolution.
    * dx: weighted, each is added to the four elements that the sample needed, 4 mul and 4 add.
    * Offsets: the slopes of the interpolation along both axes, 2 mul and 8 add per sample, times its gradient, summed
      over the channels that share an offset: 2 s products.
    * With ``mask``: its product with the gradients, s mul, and their dot products with the samples, s products.
    * db, if there is one: dy summed over all axes except the channels.

    Samples that a kernel computes again are not counted.

    Source: Zhu et al., "Deformable ConvNets v2", arXiv:1811.11168.

    Shapes: dy[N, F, H, W], x[N, C, H_in, W_in], w[F, C/G, K, K], offset[N, 2*K*K, H, W]
        -> dx[N, C, H_in, W_in], dw[F, C/G, K, K], doffset[N, 2*K*K, H, W]
    Settings: kernel=(K, K), groups=G, needs=("x", "w", "offset")
    """
    dy, x, w = layer["dy"], layer["x"], layer["w"]
    samples = prod(x.shape[:2]) * prod(w.shape[2:]) * prod(dy.shape[2:])
    products = dy.size * prod(w.shape[1:])
    operations = dot_products(samples, products) + dot_products(w.size, products)
    operations += Operations(mul=6, add=12) * samples + dot_products(layer["offset"].size, 2 * samples)
    if "mask" in layer:
        operations += Operations(mul=samples) + dot_products(layer["mask"].size, samples)
    if "b" in needed_gradients(layer, "b"):
        operations += Operations(add=dy.size - w.shape[0])
    read = layer.read - x.nbytes + x.bytes_of(minimum(4 * samples, x.size))
    return Cost(operations, read, layer.written, layer.attrs, 2 * products)
