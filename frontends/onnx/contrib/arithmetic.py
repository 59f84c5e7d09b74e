"""Arithmetic of ONNX Runtime: element-wise operators and reductions, matrix products and linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.ir import prod
from costcore.numbers import ceil_div, is_symbolic
from costcore.translate import Arguments

from ..node import EXTENSIONS, MICROSOFT, QONNX, Node, OperatorSpec, row
from ..operators import broadcast, determined, like, node_of, true_or_none
from ..operators.matrices import product
from ..operators.statistics import reduced_axes, reduction
from ..schema import ANY, ONNX, Constraints
from ..values import DTYPES, Shape, Value

FUSED = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSigmoid": "hard_sigmoid",
    "Clip": "clip",
    "Gelu": "gelu",
    "FastGelu": "fast_gelu",
    "QuickGelu": "quick_gelu",
    "Elu": "elu",
    "Softplus": "softplus",
    "HardSwish": "hard_swish",
    "SiLU": "silu",
    "Swish": "silu",
    "Selu": "selu",
}
"""Canonical names of the activations fused with other operators, by their names in ONNX Runtime."""


def fused_with(a: Arguments) -> Any:
    """Return the canonical name of the fused activation; None if there is none."""
    name = a.get("activation")
    return FUSED.get(name, name) if name else None


def has_supported_activation(a: Arguments) -> bool:
    """Return whether the fused activation, if any, has a formula."""
    return not a.get("activation") or a["activation"] in FUSED


ACTIVATION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QuickGelu",
        "X",
        infer=like("X"),
        rows=[row("quick_gelu", {"x": "X"}, {"alpha": lambda a: a.get("alpha", 1.702)})],
    ),
    OperatorSpec(
        "Gelu",
        "X",
        infer=like("X"),
        rows=[row("gelu", {"x": "X"}, {"approximate": lambda a: "none"})],
    ),
)


# Arithmetic on elements; some of these operators were removed from onnx.


def complex_product(node: Node) -> Sequence[Value]:
    """Infer the broadcast of pairs of real and imaginary parts."""
    a, b = node.value("A"), node.value("B")
    if not all(v.known_shape and (v.known_shape[-1] == 2 or is_symbolic(v.known_shape[-1])) for v in (a, b)):
        raise node.error(
            f"needs real and imaginary parts as the last axis (got the shapes {a.known_shape} and {b.known_shape})"
        )
    return [node.result((*broadcast(node, a.known_shape[:-1], b.known_shape[:-1]), 2), a.dtype)]


def integer_product(node: Node) -> Sequence[Value]:
    """Infer the broadcast of two operands, as 32-bit integers."""
    return [node.result(broadcast(node, node.value("A").known_shape, node.value("B").known_shape), "int32")]


ELEMENTWISE_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BiasAdd",
        "X bias skip",
        required=3,
        infer=like("X"),
        rows=[row("add", {"x0": "X", "x1": "bias", "x2": "skip"})],
    ),
    *(
        OperatorSpec(
            op,
            "A B",
            required=2,
            infer=complex_product,
            rows=[row("complex_pairs_mul" if op == "ComplexMul" else "complex_pairs_mul_conj", {"x0": "A", "x1": "B"})],
        )
        for op in ("ComplexMul", "ComplexMulConj")
    ),
    OperatorSpec(
        "MulInteger",
        "A A_zero_point B B_zero_point",
        infer=integer_product,
        rows=[
            row("integer_mul", {"x0": "A", "x0_zero_point": "A_zero_point", "x1": "B", "x1_zero_point": "B_zero_point"})
        ],
    ),
    OperatorSpec(
        "ScaledSiLU",
        "X scale",
        infer=like("X"),
        rows=[row("scaled_silu", {"x": "X", "scale": "scale"})],
    ),
    OperatorSpec(
        "GatedAdd",
        "X Y gate",
        required=3,
        infer=like("X"),
        rows=[row("gated_add", {"x0": "X", "x1": "Y", "gate": "gate"})],
    ),
    *(
        OperatorSpec(name, x, infer=like(x), rows=[row(op, {"x": x})], domain=ONNX)
        for name, x, op in (
            ("Affine", "X", "scale_shift"),
            ("ImageScaler", "input", "scale_shift"),
            ("ScaledTanh", "input", "scaled_tanh"),
            ("ParametricSoftplus", "X", "scaled_softplus"),
        )
    ),
    OperatorSpec(
        "Scale",
        "input",
        infer=like("input"),
        rows=[row("mul", {"x0": "input", "x1": lambda a: Value((), a["input"].dtype, None, "const")})],
        domain=ONNX,
    ),
)


# Dropout.


def bit_dropout(node: Node) -> Sequence[Value]:
    """Infer the output, and the mask with 32 elements packed into one."""
    x = node.value("data")
    return [node.result(x.known_shape, x.dtype), node.result((ceil_div(prod(x.known_shape), 32),), "uint32")]


def training(a: Arguments) -> Any:
    """Return True if dropout is in training mode; None if it is not, or if that depends on data."""
    return determined(lambda n: bool(n.number("training_mode")) or None)(a)


RANDOM_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BitmaskDropout",
        "data ratio training_mode",
        infer=bit_dropout,
        rows=[row("dropout", {"x": "data"}, {"training": training})],
    ),
)


# Reductions.


def all_finite(node: Node) -> Sequence[Value]:
    """Infer one bool."""
    node.values("input")
    return [node.result((), "bool")]


def unique(node: Node) -> Sequence[Value]:
    """Infer distinct elements, the index of each element among them, and their counts."""
    x = node.value("x")
    if len(x.known_shape) != 1:
        raise node.error(f"needs an input of one dimension (got the shape {x.known_shape})")
    return [node.result((None,), x.dtype), node.result(x.known_shape, "int64"), node.result((None,), "int64")]


def _test_name(a: Arguments) -> Any:
    # None: both tests.
    return "isinf" if a.get("isinf_only") else "isnan" if a.get("isnan_only") else None


REDUCTION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "ReduceSumInteger",
        "data",
        attributes="keepdims",
        infer=reduction,
        rows=[
            row(
                "reduce_sum",
                {"x": "data"},
                {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
            )
        ],
    ),
    OperatorSpec(
        "Unique",
        "x",
        infer=unique,
        rows=[row("unique", {"x": "x"})],
    ),
    OperatorSpec(
        "IsAllFinite",
        "*input",
        required=0,
        infer=all_finite,
        rows=[row("all_finite", {"x*": "input"}, {"test": _test_name})],
    ),
)

ELEMENTS_SPECS: tuple[OperatorSpec, ...] = (*ACTIVATION_SPECS, *ELEMENTWISE_SPECS, *RANDOM_SPECS, *REDUCTION_SPECS)


# Matrix products of ONNX Runtime, and linear algebra.


def transposed(node: Node, name: str) -> Shape:
    """Return the shape of an operand of a matrix product after its transpositions.

    ``trans`` swaps the last two axes. ``transBatch`` moves the first axis before the last one.
    """
    shape = node.value(name).known_shape
    if node.args.get(f"transBatch{name}") and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if node.args.get(f"trans{name}") and len(shape) > 1 else shape


def matmul(node: Node) -> Sequence[Value]:
    """Infer the product of A and B, either of them transposed."""
    a = node.value("A")
    dtype = {"MatMulInteger16": "int32"}.get(node.op, a.dtype)
    if node.op == "MatMulIntegerToFloat":
        dtype = node.value("a_scale").dtype
    if node.op == "GemmFloat8":
        dtype = DTYPES.get(node.args.get("dtype") or 1, "float32")
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def sparse_product(node: Node) -> Sequence[Value]:
    """Infer a sparse matrix times a dense one, either of them transposed."""
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), node.value("B").dtype)]


def _batch_first(name: str) -> Any:
    # The last two axes stay as stored: the layer has an attribute for their order.
    def read(a: Arguments) -> Value:
        shape = transposed(node_of(a), name)
        view: Value = a[name].viewed((*shape[:-2], shape[-1], shape[-2]) if a.get(f"trans{name}") else shape)
        return view

    return read


def factor(name: str) -> Any:
    """Return a source for a factor; None if it is 1."""
    return lambda a: None if a.get(name, 1.0) == 1 else a[name]


MATRICES = {"x0": _batch_first("A"), "x1": _batch_first("B")}

SWAPPED = {"transpose_x0": true_or_none("transA"), "transpose_x1": true_or_none("transB"), "alpha": factor("alpha")}


def _stored_elements(a: Arguments) -> Value:
    x: Value = a["A"]
    return x if x.stored is None or x.stored.size == x.size else x.viewed((x.stored.size,))


def _stored_count(a: Arguments) -> Any:
    values = _stored_elements(a)
    return None if values is a["A"] else values.size


def _columns(a: Arguments) -> Any:
    b = a["B"].known_shape
    columns = b[-2 if a.get("transB") else -1]
    for d in b[:-2]:
        columns = columns * d
    return columns


MATMUL_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            "XnorPopcountMatMul",  # operands are binary: an XNOR counts as a product
            "A B",
            required=2,
            infer=matmul,
            rows=[row("matmul", MATRICES)],
            domain=domain,
        )
        for domain in QONNX
    ),
    *(
        OperatorSpec(
            op,
            "A B",
            required=2,
            attributes=attributes,
            infer=matmul,
            rows=[row("matmul", MATRICES, SWAPPED)],
        )
        for op, attributes in (
            ("FusedMatMul", "transA transB transBatchA transBatchB"),
            ("TransposeMatMul", "transA transB"),
        )
    ),
    OperatorSpec(
        "MatMulInteger16",
        "A B",
        required=2,
        infer=matmul,
        rows=[row("matmul", {"x0": "A", "x1": "B"})],
    ),
    OperatorSpec(
        "SparseToDenseMatMul",
        "A B",
        required=2,
        attributes="transA transB",
        infer=sparse_product,
        rows=[
            row(
                "sparse_dense_matmul",
                {"x0": _stored_elements, "x1": "B"},
                {**SWAPPED, "width": _columns, "indices": _stored_count},
            )
        ],
    ),
)


# Linear algebra.


def distances(node: Node) -> Sequence[Value]:
    """Infer one distance for each pair of rows."""
    a, b = node.value("A"), node.value("B")
    if len(a.known_shape) != 2 or len(b.known_shape) != 2:
        raise node.error(f"needs two matrices (got the shapes {a.known_shape} and {b.known_shape})")
    return [node.result((a.known_shape[0], b.known_shape[0]), a.dtype)]


METRICS = {"euclidean": 2, "cityblock": 1, "chebyshev": float("inf")}
"""Order of the norm of the difference, by metric."""

LINALG_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            "Inverse",
            "X",
            constraints=Constraints(ranks={"X": (2, ANY)}),
            infer=like("X"),
            rows=[row("inverse", {"x": "X"})],
            domain=domain,
        )
        for domain in (MICROSOFT, *EXTENSIONS)
    ),
    OperatorSpec(
        "CDist",
        "A B",
        required=2,
        infer=distances,
        rows=[
            row(
                "squared_distances",
                {"x0": "A", "x1": "B"},
                when=lambda a: a.get("metric", "sqeuclidean") == "sqeuclidean",
            ),
            row(
                "pairwise_distances",
                {"x0": "A", "x1": "B"},
                {"p": lambda a: METRICS[a["metric"]]},
                when=lambda a: a.get("metric") in METRICS,
            ),
        ],
    ),
)

MATRICES_SPECS: tuple[OperatorSpec, ...] = (*MATMUL_SPECS, *LINALG_SPECS)


SPECS: tuple[OperatorSpec, ...] = (*ELEMENTS_SPECS, *MATRICES_SPECS)
