"""Matrix products of ONNX Runtime, and linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments

from ..graph.node import Node
from ..operators.arguments import like, node_of
from ..operators.matrices import product
from ..schema import ANY, Constraints
from ..values import DTYPES, Shape, Value
from .spec import EXTENSIONS, MICROSOFT, QONNX, OperatorSpec, row


def transposed(node: Node, name: str) -> Shape:
    """Return the shape of an operand of a matrix product as it is multiplied.

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
    # The last two axes may still be swapped.
    def read(a: Arguments) -> Value:
        shape = transposed(node_of(a), name)
        view: Value = a[name].viewed((*shape[:-2], shape[-1], shape[-2]) if a.get(f"trans{name}") else shape)
        return view

    return read


def _true_or_none(name: str) -> Any:
    return lambda a: True if a.get(name) else None


def factor(name: str) -> Any:
    """Return a source for a factor; None if it is 1."""
    return lambda a: None if a.get(name, 1.0) == 1 else a[name]


MATRICES = {"x0": _batch_first("A"), "x1": _batch_first("B")}

SWAPPED = {"transpose_x0": _true_or_none("transA"), "transpose_x1": _true_or_none("transB"), "alpha": factor("alpha")}


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
            "XnorPopcountMatMul",  # of binary operands: their products are XNOR, which are counted
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


SPECS: tuple[OperatorSpec, ...] = (*MATMUL_SPECS, *LINALG_SPECS)
