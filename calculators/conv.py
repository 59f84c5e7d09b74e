"""Convolution over any number of spatial axes, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.ir import Arrangement, Cost, Layer, Operations, minimum, pattern, prod

from ._shared import axes_in_memory, dot_products, gradient_input_bytes, gradient_product_count, needed_gradients

# Convolution, transposed, local and deformable convolution.


def conv_layout(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement:
    """Return ``x`` if it is first copied into another memory order, and the memory order of the output."""
    memory = axes_in_memory(layer["x"], orders.get("x"))
    return Arrangement(["x"] if memory != sorted(memory) else [], tuple(range(layer.out.ndim)), "b" in layer)


@pattern("product", layout=conv_layout)
def calc_conv(layer: Layer) -> Cost:
    """Convolution over any number of spatial axes, grouped or not.

    Every output element is one dot product over the window and the channels of its group. Taps on padding are counted
    like all others. Stride, padding and dilation matter only through the size of the output.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285.

    Shapes: x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w], b[C_out] -> y[N, C_out, H_out, W_out]
    Settings: kernel=(K_h, K_w), groups=G
    """
    macs = layer.out.size * prod(layer["w"].shape[1:])
    operations = dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product", layout=conv_layout)
def calc_conv_transpose(layer: Layer) -> Cost:
    """Transposed convolution over any number of spatial axes, grouped or not.

    Every input element is multiplied by the kernels of its group. Each product is added to an output that starts at the
    bias or at zero, so all products are fma with or without bias. Products in cropped padding are counted like all
    others.

    Shapes: x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w], b[C_out] -> y[N, C_out, H_out, W_out]
    Settings: kernel=(K_h, K_w), groups=G
    """
    macs = layer["x"].size * prod(layer["w"].shape[1:])
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_local_conv(layer: Layer) -> Cost:
    """Convolution with a separate kernel for every output position (unshared weights).

    Shapes: x[N, C_in, L_in], w[C_out, L_out, C_in, K], b[C_out, L_out] -> y[N, C_out, L_out]
    """
    macs = layer.out.size * prod(layer["w"].shape[layer.out.ndim - 1 :])
    operations = dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_deform_conv(layer: Layer) -> Cost:
    """Deformable convolution: every tap is a bilinear sample at a position shifted by ``offset``.

    * One sample per input channel, tap and output position: 3 mul and 6 add; the interpolation weights are index
      arithmetic.
    * With ``mask`` (version 2) 1 mul more per sample.
    * Then the dot products of an ordinary convolution.

    Source: Zhu et al., "Deformable ConvNets v2", arXiv:1811.11168.

    Shapes: x[N, C, H_in, W_in], w[F, C/G, K, K], offset[N, 2*K*K, H, W], b[F] -> y[N, F, H, W]
    Settings: kernel=(K, K), groups=G
    """
    x, w, y = layer["x"], layer["w"], layer.out
    samples = prod(x.shape[:2]) * prod(w.shape[2:]) * prod(y.shape[2:])
    macs = y.size * prod(w.shape[1:])
    sampling = Operations(mul=4 if "mask" in layer else 3, add=6) * samples
    read = layer.read - x.nbytes + x.bytes_of_part(minimum(4 * samples, x.size))
    return Cost(sampling + dot_products(y.size, macs, "b" in layer), read, layer.written, layer.attrs, macs)


# Gradients of convolutions.
#
# The attribute ``needs`` names the operands that receive a gradient; the outputs are these gradients. Default: all.


@pattern("product")
def calc_conv_backward(layer: Layer) -> Cost:
    """Backward of a convolution: dx, dw and db from dy, as named by ``needs``.

    * dx is the transposed convolution of dy: |dy| (C_in / G) k products, added to zero. It reads dy and w.
    * dw has the same number of products: every weight is one dot product over all output positions. It reads dy
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
    * dw has the same number of products: one dot product over all positions of x for every weight.
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

    * The gradients of the samples are a product of w and dy; dw is a product of dy and the samples. Each product has
      the MACs of the convolution.
    * dx: the gradient of a sample is added to the four elements that it interpolates, with weights: 4 mul and 4 add.
    * Offsets: the slopes of the interpolation along both axes take 2 mul and 8 add per sample. Each is multiplied by
      the gradient of the sample and summed over the channels that share an offset: 2 s products.
    * With ``mask``: the gradients are multiplied by the mask (s mul). Its own gradient takes s products, of samples and
      gradients.
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
