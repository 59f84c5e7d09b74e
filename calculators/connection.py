"""Layers that multiply activations by weights, or by each other, and add the products up."""

from __future__ import annotations

from itertools import chain

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, maximum, minimum, prod

from .parts import dot_products, read_of


def calc_conv(layer: Layer) -> Cost:
    """Convolution over any number of spatial axes, grouped or not.

    Every output element is one dot product over the window and the channels of its group. Taps that fall on padding
    count as any other; stride, padding and dilation act through the size of the output alone.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285.

    Shapes: x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w], b[C_out] -> y[N, C_out, H_out, W_out]
    Settings: kernel=(K_h, K_w), groups=G
    """
    macs = layer.out.size * prod(layer["w"].shape[1:])
    operations = dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_conv_transpose(layer: Layer) -> Cost:
    """Transposed convolution over any number of spatial axes, grouped or not.

    Every input element is multiplied by the kernels of its group, and each product is added onto an output that
    starts at the bias or at zero: all products are fma, with or without bias. Products that fall into the cropped
    padding count as any other.

    Shapes: x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w], b[C_out] -> y[N, C_out, H_out, W_out]
    Settings: kernel=(K_h, K_w), groups=G
    """
    macs = layer["x"].size * prod(layer["w"].shape[1:])
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


def calc_local_conv(layer: Layer) -> Cost:
    """Convolution with a kernel of its own at every output position (unshared weights).

    Shapes: x[N, C_in, L_in], w[C_out, L_out, C_in, K], b[C_out, L_out] -> y[N, C_out, L_out]
    """
    macs = layer.out.size * prod(layer["w"].shape[layer.out.ndim - 1 :])
    operations = dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_deform_conv(layer: Layer) -> Cost:
    """Deformable convolution: every tap is a bilinear sample at a place shifted by ``offset``, times ``mask`` if given.

    One sample per input channel, tap and output position, 3 mul and 6 add each (the weights from the fractions are
    index arithmetic), one mul more with a mask (version 2); then the dot products of an ordinary convolution.

    Source: Zhu et al., "Deformable ConvNets v2", arXiv:1811.11168.

    Shapes: x[N, C, H_in, W_in], w[F, C/G, K, K], offset[N, 2*K*K, H, W], b[F] -> y[N, F, H, W]
    Settings: kernel=(K, K), groups=G
    """
    x, w, y = layer["x"], layer["w"], layer.out
    samples = prod(x.shape[:2]) * prod(w.shape[2:]) * prod(y.shape[2:])
    macs = y.size * prod(w.shape[1:])
    sampling = Operations(mul=4 if "mask" in layer else 3, add=6) * samples
    read = layer.read - x.nbytes + x.bytes_of(minimum(4 * samples, x.size))
    return Cost(sampling + dot_products(y.size, macs, "b" in layer), read, layer.written, layer.attrs, macs)


def _scaled(layer: Layer) -> Operations:
    """Products with ``alpha`` (of the whole matrix product) and ``beta`` (of the addend), where they are not 1."""
    alpha = layer.out.size if layer.attrs.get("alpha", 1) != 1 else 0
    beta = layer["b"].size if "b" in layer and layer.attrs.get("beta", 1) != 1 else 0
    return Operations(mul=alpha + beta)


def calc_linear(layer: Layer) -> Cost:
    """Fully connected layer: every output is one dot product over the input features, onto the bias if there is one.

    Settings ``alpha`` and ``beta``, as ONNX's Gemm has them, multiply the product and the bias: one mul per element
    where they are not 1.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out]
    """
    macs = layer.out.size * layer["x"].shape[-1]
    operations = dot_products(layer.out.size, macs, "b" in layer) + _scaled(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_matmul(layer: Layer) -> Cost:
    """Matrix product, batched and broadcast as numpy's matmul: every output is one dot product of length K.

    With an operand ``b`` the products are added onto it, as in addmm and baddbmm; settings ``alpha`` and ``beta``
    multiply product and addend, one mul per element where they are not 1. With the setting ``transpose_x0`` the first
    operand is stored [..., K, M], with ``transpose_x1`` the second one [..., N, K].

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    """
    x0 = layer["x0"]
    macs = layer.out.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    operations = dot_products(layer.out.size, macs, "b" in layer) + _scaled(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_bilinear(layer: Layer) -> Cost:
    """Bilinear layer: y_o = x0^T W_o x1 + b_o for every output feature o, evaluated from left to right.

    x0^T W_o is a vector of F_1 dot products of length F_0; its dot product with x1, of length F_1, is added onto the
    bias. This is two products for every output and F_1, so macs = |y| F_1 (F_0 + 1).

    Shapes: x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w"].shape[1:]
    vector, y = layer.out.size * second, layer.out.size
    operations = dot_products(vector, vector * first) + dot_products(y, vector, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * (first + 1))


def calc_einsum(layer: Layer) -> Cost:
    """Einstein summation of any number of operands; ellipsis, repeated indices and an implied output included.

    Two operands: every output element is the sum, over the indices that the output lacks, of products of two: as many
    products as all distinct indices have values, a dot product for every output element. They are macs where an index
    is summed over; an outer or element-wise product is plain mul. More operands: pairwise from left to right; an
    index is summed over as soon as no later operand and no output has it. One operand: additions only (a sum, a
    trace), or none (a transpose, a diagonal). With an operand ``b`` the result is added onto it.

    Read: of an operand with a repeated index its diagonal. Intermediate results stay inside.

    Raises ValueError for an equation that does not fit the operands.

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    Settings: equation="bmk,bkn->bmn"
    """
    tensors = [tensor for name, tensor in layer.inputs.items() if name != "b"]
    terms, result = einsum_labels(layer.attrs["equation"], [tensor.ndim for tensor in tensors])
    sizes = _label_sizes(terms, tensors)

    def elements(labels: set[str]) -> Dim:
        return prod(sizes[label] for label in sorted(labels))

    operations, macs, left = Operations(), 0, set(terms[0])
    for i, term in enumerate(terms[1:], start=2):
        together = left | set(term)
        left = together & set(chain(result, *terms[i:]))
        start = "b" in layer and i == len(terms)
        operations += dot_products(elements(left), elements(together), start)
        macs += elements(together) if together - left else 0
    summed = elements(left) - (0 if "b" in layer and len(terms) == 1 else elements(set(result)))
    operations += Operations(add=summed)
    diagonals = (dict(zip(term, tensor.shape, strict=True)) for term, tensor in zip(terms, tensors, strict=True))
    read = read_of(layer, "b") + sum(t.bytes_of(prod(d.values())) for t, d in zip(tensors, diagonals, strict=True))
    return Cost(operations, read, layer.written, layer.attrs, macs)


def einsum_labels(equation: str, ranks: list[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The index of every axis, for each operand and for the output; an ellipsis has ``.0``, ``.1`` from the last.

    Raises:
        ValueError: where the equation does not fit operands of these ``ranks``.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    written = left.split(",")
    if len(written) != len(ranks):
        raise ValueError(f"the equation {equation!r} has {len(written)} operands, the layer {len(ranks)}")
    terms, hidden = [], 0
    for term, rank in zip(written, ranks, strict=True):
        before, ellipsis, after = term.partition("...")
        inside = rank - len(before) - len(after)
        if inside < 0 or (inside and not ellipsis):
            raise ValueError(f"{term!r} of the equation {equation!r} does not fit an operand of {rank} axes")
        hidden = max(hidden, inside)
        terms.append((*before, *_ellipsis(inside), *after))
    if not arrow:
        letters = "".join(written).replace(".", "")
        right = "..." + "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    before, ellipsis, after = right.partition("...")
    result = (*before, *_ellipsis(hidden if ellipsis else 0), *after)
    if unknown := set(result) - set(chain(*terms)):
        raise ValueError(f"the output of the equation {equation!r} has {sorted(unknown)}, which no operand has")
    return terms, result


def _ellipsis(axes: int) -> tuple[str, ...]:
    return tuple(f".{i}" for i in reversed(range(axes)))


def _label_sizes(terms: list[tuple[str, ...]], tensors: list[Tensor]) -> dict[str, Dim]:
    """How many values every index has: an axis of length 1 is broadcast."""
    sizes: dict[str, Dim] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, size in zip(term, tensor.shape, strict=True):
            sizes[label] = maximum(sizes.get(label, size), size)
    return sizes
