"""Shapes of matrix products that ONNX Runtime adds, and of weights that it stores in another form."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import prod

from ..graph.node import Node
from ..values.value import DTYPES, Shape, Undetermined, Value
from .matmul import product


def transposed(node: Node, name: str) -> Shape:
    """An operand of a matrix product as it is multiplied: ``trans`` swaps axes, ``transBatch`` moves the first.

    With ``transBatch`` the first axis stands behind the batch axes: it goes before the last one.
    """
    shape = node.value(name).known
    if node.args.get(f"transBatch{name}") and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if node.args.get(f"trans{name}") and len(shape) > 1 else shape


def matmul(node: Node) -> Sequence[Value]:
    """A matrix product of A and B, either one transposed."""
    a = node.value("A")
    dtype = {"MatMulInteger16": "int32"}.get(node.op, a.dtype)
    if node.op == "MatMulIntegerToFloat":
        dtype = node.value("a_scale").dtype
    if node.op == "GemmFloat8":
        dtype = DTYPES.get(node.args.get("dtype") or 1, "float32")
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def gelu_gemm(node: Node) -> Sequence[Value]:
    """A matrix product of X and W."""
    x = node.value("X")
    return [node.result(product(node, x.known, node.value("W").known), x.dtype)]


def quantized_gemm(node: Node) -> Sequence[Value]:
    """A product of quantised matrices: quantised again where the output has a scale, else in floats."""
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("a_scale").dtype
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def packed(node: Node, name: str, shape: Shape, dtype: str) -> Value:
    """A weight stored in another form, as the weight that it is: its elements count, at their own width."""
    value = node.value(name)
    if value.stored is not None and all(isinstance(d, int) for d in shape):
        value.stored.size, value.stored.dtype = prod(shape), dtype
    view = value.viewed(shape)
    view.dtype = dtype
    node.cache[name] = view
    return view


def said(node: Node, name: str) -> int:
    """A number that an attribute says.

    Raises:
        CostError: where it says none.
    """
    number = node.args.get(name)
    if not isinstance(number, int) or number < 1:
        raise node.error(f"has no {name}")
    return number


def of_rank(node: Node, **ranks: int) -> None:
    """Check how many dimensions the named inputs have.

    Raises:
        CostError: for an input that is left out, or has others.
    """
    for name, rank in ranks.items():
        shape = node.value(name).known
        if len(shape) != rank:
            raise node.error(f"needs {name} of {rank} dimensions, got {shape}")


def width(node: Node, *names: str) -> int:
    """The bits of an element of packed weights, which the first of these attributes that is given says; else 4."""
    bits: int = next((node.args[name] for name in names if node.args.get(name)), 4)
    if not 1 <= bits <= 8:
        raise node.error(f"has weights of {bits} bits")
    return bits


def packed_matmul(node: Node) -> Sequence[Value]:
    """A product with a weight of ``N`` outputs and ``K`` inputs, which its attributes or its shape tell."""
    a, b = node.value("A"), node.value("B")
    if node.op == "MatMulBlockQuantizedFp4Weight":
        shape: Shape = (b.known[0], 2 * b.known[1])
        dtype = "float4_e2m1"
    elif node.op == "MatMulBlockQuantizedFp8Weight":
        shape, dtype = b.known, b.dtype
    elif node.op == "MatMulFpQ4":
        numbers = node.numbers("B_shape")
        if numbers is None:
            raise Undetermined
        shape, dtype = (numbers[1], numbers[0]), "uint4"
    else:
        shape = (said(node, "N"), said(node, "K"))
        bits = width(node, "bits") if node.op == "MatMulNBits" else 4
        dtype = f"uint{bits}"
    packed(node, "B", shape, dtype)
    outputs, features = shape
    if a.known[-1] != features and isinstance(a.known[-1], int) and isinstance(features, int):
        if node.op != "MatMulBnb4" or node.args.get("transB", 1) or a.known[-1] != outputs:
            raise node.error(f"multiplies rows of {a.known[-1]} by a weight of {features} inputs")
        outputs = features
    return [node.result((*a.known[:-1], outputs), a.dtype)]


def packed_gather(node: Node) -> Sequence[Value]:
    """Rows of a matrix stored in blocks, in the type of their scales."""
    data, indices = node.value("data"), node.value("indices")
    axis = node.axis(len(data.known), "gather_axis") or 0
    shape = data.known
    if data.dtype == "uint8" and (bits := width(node, "bits")) < 8:
        shape = (*shape[:-1], shape[-1] * (8 // bits))
        packed(node, "data", shape, f"uint{bits}")
    else:
        node.cache["data"] = data
    return [node.result((*shape[:axis], *indices.known, *shape[axis + 1 :]), node.value("scales").dtype)]


def dynamic_matmul(node: Node) -> Sequence[Value]:
    """A product of floats by quantised weights."""
    a = node.value("A")
    return [node.result(product(node, a.known, node.value("B").known), a.dtype)]


ADDED = {
    **dict.fromkeys(
        ("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul", "MatMulIntegerToFloat", "MatMulInteger16"), matmul
    ),
    **dict.fromkeys(("FusedGemm", "GemmFloat8"), matmul),
    "GemmFastGelu": gelu_gemm,
    "QGemm": quantized_gemm,
    "DynamicQuantizeMatMul": dynamic_matmul,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"), packed_matmul),
    **dict.fromkeys(("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"), packed_matmul),
    "GatherBlockQuantized": packed_gather,
}
