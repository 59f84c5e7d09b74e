"""Matrix products that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.arguments import node_of
from ..shapes.matmul import product
from ..values.value import DTYPES, Shape, Value
from .spec import QONNX, OperatorSpec, row


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
    """Return a source for a matrix operand with its batch axes in front; the last two may still be swapped."""

    def read(a: Arguments) -> Value:
        shape = transposed(node_of(a), name)
        view: Value = a[name].viewed((*shape[:-2], shape[-1], shape[-2]) if a.get(f"trans{name}") else shape)
        return view

    return read


def _flag(name: str) -> Any:
    """Return a source for an attribute; True if it is set, else None."""
    return lambda a: True if a.get(name) else None


def factor(name: str) -> Any:
    """Return a source for a factor; None if it is 1."""
    return lambda a: None if a.get(name, 1.0) == 1 else a[name]


MATRICES = {"x0": _batch_first("A"), "x1": _batch_first("B")}


SWAPPED = {"transpose_x0": _flag("transA"), "transpose_x1": _flag("transB"), "alpha": factor("alpha")}


def _stored_elements(a: Arguments) -> Value:
    """Return the stored elements of a sparse matrix; all elements if it is not known to be sparse."""
    x: Value = a["A"]
    return x if x.stored is None or x.stored.size == x.size else x.viewed((x.stored.size,))


def _stored_count(a: Arguments) -> Any:
    """Return the number of stored elements of a sparse matrix; None if it is not known to be sparse."""
    values = _stored_elements(a)
    return None if values is a["A"] else values.size


def _columns(a: Arguments) -> Any:
    """Return the number of columns of all dense matrices."""
    b = a["B"].known_shape
    columns = b[-2 if a.get("transB") else -1]
    for d in b[:-2]:
        columns = columns * d
    return columns


SPECS: tuple[OperatorSpec, ...] = (
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
