"""Weights and values stored in few bits, with what inference engines fuse to the layers that read them."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, prod

from .decoder import rms
from .fused import activated, calc_embed_norm
from .parts import dot_products

WEIGHTS = ("w0", "w1", "w2")


def calc_packed_projections(layer: Layer) -> Cost:
    """Several linear layers of one input whose weights are stored in blocks of few bits, its norm before them.

    x and ``skip`` are added where both are given (1 add), and normalised by ``rms_norm`` with the weight ``w``, where
    it is given. Every weight ``w0``, ``w1``, ``w2`` is made real and multiplied, as in ``packed_linear``. With an
    ``activation`` the second result is multiplied by the activation of the first, 1 mul, and only that is written.

    Source: Frantar et al., GPTQ, arXiv:2210.17323; Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.

    Shapes: x[N, F], skip[N, F]?, w[F]?, w0[G, F], w1[G, F], b0[G]?, w0_scale[G]?, w1_scale[G]? -> y[N, G]
    Settings: activation="silu"
    """
    x = layer["x"]
    width = x.shape[-1]
    rows = prod(x.shape[:-1])
    operations = Operations(add=x.size if "skip" in layer else 0)
    operations += rms(x.size, rows) if "w" in layer else Operations()
    macs = 0
    for name in WEIGHTS:
        if name not in layer:
            continue
        size = layer[name].size
        products = rows * size
        operations += dot_products(products // width, products, f"b{name[1]}" in layer)
        is_shifted = f"{name}_zero_point" in layer or "zero_point" in layer.attrs
        operations += size * Operations(mul=1, add=1 if is_shifted else 0)
        macs += products
    if "activation" in layer.attrs:
        operations += layer.out.size * (activated(layer) + Operations(mul=1))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_quantized_embed_norm(layer: Layer) -> Cost:
    """``embed_norm`` of tables, weight and bias that are quantised: what is read of them is made real.

    Per element of words and segments taken, of positions (once for all samples), of weight and bias: 1 mul by its
    scale, and 1 add with a zero point.

    Shapes: x[N, T], w0[V, D], w1[P, D], w2[S, D]?, w[D], b[D], w0_scale[1], w1_scale[1] -> y[N, T, D]
    """
    extra = {name: x for name, x in layer.inputs.items() if name.endswith(("_scale", "_zero_point"))}
    operands = {name: x for name, x in layer.inputs.items() if name not in extra}
    plain = calc_embed_norm(Layer("embed_norm", operands, layer.outputs, layer.attrs))
    y = layer.out
    taken = {"w0": y.size, "w1": y.size // y.shape[0], "w2": y.size}
    assert isinstance(plain.flops, Operations)
    operations = plain.flops
    for name in ("w0", "w1", "w2", "w", "b"):
        if name in layer:
            count = taken.get(name, layer[name].size)
            operations += Operations(mul=count if f"{name}_scale" in layer else 0)
            operations += Operations(add=count if f"{name}_zero_point" in layer else 0)
    read = plain.mread + sum(x.nbytes for x in extra.values())
    return Cost(operations, read, layer.written, layer.attrs)


BLOCKS: Mapping[str, PerElement] = {
    "quantize_blocks": PerElement(
        Operations(mul=1, add=1, cmp=4), "largest = max(largest, abs(x)); min(max(round(x * power), least), most)"
    ),
    "dequantize_blocks": PerElement(Operations(mul=1), "x * power"),
}


@covers(BLOCKS)
def calc_blocks(layer: Layer) -> Cost:
    """Block floating point: the elements of a block as integers times one power of two, that of the largest of them.

    Powers of two are found from exponents' bits, and free. Made: per element 1 add and 1 cmp for the largest absolute
    value, 1 mul, 3 cmp to round and to limit; made real: 1 mul.

    Source: Darvish Rouhani et al., "Pushing the Limits of Narrow Precision Inferencing at Cloud Scale with Microsoft
    Floating Point", 2020.

    Shapes: x[N, C] -> y[N, C]
    """
    real = layer.out if layer.op == "dequantize_blocks" else layer["x"]
    return Cost(real.size * BLOCKS[layer.op].operations, layer.read, layer.written, layer.attrs)
