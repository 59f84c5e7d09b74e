"""Shapes of the other operators that ONNX Runtime adds: transforms, distances, layers packed and quantised."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.dims import Dim, ceil_div
from costcore.ir import prod

from ..graph.node import Node
from ..values.value import DTYPES, Undetermined, Value
from . import conv, pooling, recurrent
from .contrib_products import matmul, of_rank, packed, said, transposed, width
from .layout import rearrange
from .matmul import product
from .rules import Rule, broadcast


def like(name: str, dtype: str = "") -> Rule:
    """An output like the input of that name, maybe of another type."""
    return lambda node: [node.result(node.value(name).known, dtype or node.value(name).dtype)]


def expanded(node: Node) -> Sequence[Value]:
    """The input with a new axis of length 1."""
    x, axis = node.value("X"), node.number("axis")
    rank = len(x.known) + 1
    if not -rank <= axis < rank:
        raise node.error(f"has the axis {axis} for an output of {rank} dimensions")
    shape = list(x.known)
    shape.insert(axis % rank, 1)
    return [node.renamed(x, shape)]


def half_spectrum(node: Node) -> Sequence[Value]:
    """Half the bins of a real signal along the last axis, real and imaginary part behind; or that signal again."""
    x, axes = node.value("X").known, node.args.get("signal_ndim", 1)
    if not 1 <= axes <= len(x) - (0 if node.op == "Rfft" else 1):
        raise node.error(f"has signal_ndim {axes} for an input of shape {x}")
    if node.op == "Rfft":
        return [node.result((*x[:-1], x[-1] // 2 + 1, 2), node.value("X").dtype)]
    return [node.result((*x[:-2], 2 * (x[-2] - 1)), node.value("X").dtype)]


def unfolded(node: Node) -> Sequence[Value]:
    """Slices along an axis, which may overlap, each along a new last axis."""
    x, size, step = node.value("input"), said(node, "size"), node.args.get("step", 1)
    axis = node.args.get("dim", -1)
    if not -len(x.known) <= axis < len(x.known) or step < 1:
        raise node.error(f"has the dim {axis} and the step {step} for an input of shape {x.known}")
    shape = list(x.known)
    length = shape[axis]
    if isinstance(length, int) and length < size:
        raise node.error(f"takes slices of {size} elements of {length}")
    shape[axis] = (length - size) // step + 1
    return [node.result((*shape, size), x.dtype)]


def crops(node: Node) -> Sequence[Value]:
    """One crop a box, of a size that is a value."""
    x, boxes = node.value("X"), node.value("rois")
    if len(x.known) != 4:
        raise node.error(f"needs images [N, C, H, W], got {x.known}")
    try:
        size = node.numbers("crop_size") or (None, None)
    except Undetermined:
        size = (None, None)
    return [node.result((boxes.known[0], x.known[1], *size), x.dtype)]


def padded_conv_transpose(node: Node) -> Sequence[Value]:
    """A transposed convolution whose padding is an input."""
    try:
        pads = node.numbers("Pads")
    except Undetermined:
        found = conv.conv_transpose(node)[0]
        return [node.result((*found.known[:2], *(None for _ in found.known[2:])), found.dtype)]
    if pads is not None:
        node.args["pads"] = pads
    return conv.conv_transpose(node)


def distances(node: Node) -> Sequence[Value]:
    """Every row of one matrix with every row of the other."""
    a, b = node.value("A"), node.value("B")
    if len(a.known) != 2 or len(b.known) != 2:
        raise node.error(f"needs two matrices, got {a.known} and {b.known}")
    return [node.result((a.known[0], b.known[0]), a.dtype)]


def complex_product(node: Node) -> Sequence[Value]:
    """Pairs of real and imaginary parts, broadcast."""
    a, b = node.value("A"), node.value("B")
    if any(not v.known or v.known[-1] != 2 for v in (a, b)):
        raise node.error(f"needs real and imaginary parts along the last axis, got {a.known} and {b.known}")
    return [node.result(broadcast(node, a.known, b.known), a.dtype)]


def integer_product(node: Node) -> Sequence[Value]:
    """Two operands, broadcast, as 32-bit integers."""
    return [node.result(broadcast(node, node.value("A").known, node.value("B").known), "int32")]


def typed(name: str, attribute: str) -> Rule:
    """An output like the input of that name, whose type is an attribute."""
    return lambda node: [node.result(node.value(name).known, DTYPES.get(node.args.get(attribute) or 1, "float32"))]


def blocks(node: Node) -> Sequence[Value]:
    """Bytes of blocks, as many as their type takes, with the shape and the strides of what is in them."""
    rank = len(node.value("x").known)
    return [node.result((None,), "uint8"), *(node.result((rank,), "int64") for _ in range(2))]


def unblocked(node: Node) -> Sequence[Value]:
    """The tensor whose blocks are given, of a shape that is a value."""
    return [node.result(node.numbers("shape") or (), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


def quantized_recurrent(node: Node) -> Sequence[Value]:
    """All steps, the last state, the last cell; weights are ``[1, I, 4 H]`` and ``[1, H, 4 H]``."""
    x, r = node.value("X"), node.value("R")
    if len(x.known) != 3 or len(r.known) != 3:
        raise node.error(f"needs inputs and weights of 3 dimensions, got {x.known} and {r.known}")
    (steps, batch, _), (directions, hidden, _) = x.known, r.known
    last = (directions, batch, hidden)
    return [node.result(shape, x.dtype) for shape in ((steps, directions, batch, hidden), last, last)]


def recurrent_with_memory(node: Node) -> Sequence[Value]:
    """All steps, the last state, the last cell."""
    of_rank(node, X=3, W=3, R=3, QW=3, MW=3, V=2, M=3)
    node.args["hidden_size"] = node.value("R").known[-1]
    return recurrent.recurrent(node)


def all_finite(node: Node) -> Sequence[Value]:
    """One truth."""
    node.values("input")
    return [node.result((), "bool")]


def packed_layers(node: Node) -> Sequence[Value]:
    """Projections by packed weights; the gated ones make one output, and all the sum they began with."""
    a, features = node.value("A"), said(node, "K")
    names = {"gate": "N", "up": "N"} if node.op == "MatMulNBitsMlp" else {"q": "Nq", "k": "Nkv", "v": "Nkv"}
    if isinstance(a.known[-1], int) and a.known[-1] != features:
        raise node.error(f"multiplies rows of {a.known[-1]} by weights of {features} inputs")
    for name, outputs in names.items():
        packed(node, f"{name}_B", (said(node, outputs), features), f"uint{width(node, 'bits')}")
    sizes = [node.args["N"]] if "gate" in names else [node.args[n] for n in names.values()]
    made = [node.result((*a.known[:-1], size), a.dtype) for size in sizes]
    return [*made, node.result(a.known, a.dtype)]


def sparse_product(node: Node) -> Sequence[Value]:
    """A sparse matrix times a dense one, either one transposed."""
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), node.value("B").dtype)]


def quantized_embedding(node: Node) -> Sequence[Value]:
    """The norm of the embeddings, and the place of the first masked word."""
    ids, table = node.value("input_ids"), node.value("word_embedding_quant")
    return [
        node.result((*ids.known, table.known[-1]), node.value("gamma_scale").dtype),
        node.result((ids.known[0],), "int32"),
    ]


def bit_dropout(node: Node) -> Sequence[Value]:
    """The output like the input, and the mask, 32 elements in one."""
    x = node.value("data")
    return [node.result(x.known, x.dtype), node.result((ceil_div(prod(x.known), 32),), "uint32")]


def joined_causal_conv(node: Node) -> Sequence[Value]:
    """Joined sequences ``[T, C]``, their last inputs, and inputs on the way to them."""
    x, state = node.value("input"), node.value("initial_state")
    if len(x.known) != 2:
        raise node.error(f"needs joined sequences [T, C], got {x.known}")
    update = (state.known[0], node.args.get("state_update_capacity", 0), x.known[1])
    return [
        node.result(x.known, x.dtype),
        node.result(state.known, state.dtype),
        node.result(update, x.dtype),
    ]


def cropped(node: Node) -> Sequence[Value]:
    """An image without its border, or as much of it as ``scale`` says."""
    x = node.value("input")
    border: tuple[Dim, ...] = tuple(node.args.get("border") or ())
    if len(x.known) != 4 or len(border) != 4:
        raise node.error(f"needs an image [N, C, H, W] and a border of 4 numbers, got {x.known} and {border}")
    left, top, right, bottom = border
    size = node.args.get("scale") or (x.known[2] - top - bottom, x.known[3] - left - right)
    return [node.result((*x.known[:2], *size), x.dtype)]


ADDED = {
    "ExpandDims": expanded,
    "SampleOp": like("X"),
    **dict.fromkeys(("Rfft", "Irfft"), half_spectrum),
    "UnfoldTensor": unfolded,
    "CropAndResize": crops,
    "ConvTransposeWithDynamicPads": padded_conv_transpose,
    "CDist": distances,
    **dict.fromkeys(("ComplexMul", "ComplexMulConj"), complex_product),
    "MulInteger": integer_product,
    "QuantizeWithOrder": like("input", "int8"),
    "DequantizeWithOrder": typed("input", "to"),
    "QuantizeBFP": blocks,
    "DequantizeBFP": unblocked,
    "DynamicQuantizeLSTM": quantized_recurrent,
    "AttnLSTM": recurrent_with_memory,
    **dict.fromkeys(("MatMulNBitsMlp", "MatMulNBitsQkv"), packed_layers),
    "QOrderedMatMul": matmul,
    **dict.fromkeys(("QOrderedGelu", "QOrderedLayerNormalization", "ScaledSiLU"), like("X")),
    "SparseToDenseMatMul": sparse_product,
    "QEmbedLayerNormalization": quantized_embedding,
    **dict.fromkeys(("BitmaskDropout", "BitmaskBiasDropout"), bit_dropout),
    "IsAllFinite": all_finite,
    "MaxpoolWithMask": pooling.pool,
    "VarlenCausalConvWithState": joined_causal_conv,
}
STANDARD = {
    **dict.fromkeys(("Affine", "ParametricSoftplus", "MemcpyFromHost", "MemcpyToHost"), like("X")),
    **dict.fromkeys(("ImageScaler", "Scale", "ScaledTanh"), like("input")),
    "Crop": cropped,
    "DynamicSlice": rearrange.slice_,
}
"""Operators of the default domain that onnx has given up."""
