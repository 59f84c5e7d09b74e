"""Convolution, transposed, local and deformable convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.ir import Arrangement, Cost, Layer, Operations, minimum, pattern, prod

from .._shared import axes_in_memory, dot_products


def conv_layout(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement:
    """Return ``x`` if it is copied first, because its axes lie in memory in another order, and that of the output."""
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
