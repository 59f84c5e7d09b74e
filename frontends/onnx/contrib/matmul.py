"""Matrix products that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.arguments import node_of
from ..shapes.matmul import product
from ..values.value import DTYPES, Shape, Value
from .spec import OperatorSpec, row


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


def sparse_product(node: Node) -> Sequence[Value]:
    """A sparse matrix times a dense one, either one transposed."""
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), node.value("B").dtype)]


def _moved(name: str) -> Any:
    """A matrix operand whose batch axes are in place; the last two may still be swapped."""

    def read(a: Arguments) -> Value:
        shape = transposed(node_of(a), name)
        view: Value = a[name].viewed((*shape[:-2], shape[-1], shape[-2]) if a.get(f"trans{name}") else shape)
        return view

    return read


def _flag(name: str) -> Any:
    return lambda a: True if a.get(name) else None


def factor(name: str) -> Any:
    """A factor of a product; None if it is 1."""
    return lambda a: None if a.get(name, 1.0) == 1 else a[name]


MATRICES = {"x0": _moved("A"), "x1": _moved("B")}


SWAPPED = {"transpose_x0": _flag("transA"), "transpose_x1": _flag("transB"), "alpha": factor("alpha")}


def _stored_elements(a: Arguments) -> Value:
    """The elements that a sparse matrix stores, all of them where it is not known to be one."""
    x: Value = a["A"]
    return x if x.stored is None or x.stored.size == x.size else x.viewed((x.stored.size,))


def _places(a: Arguments) -> Any:
    """One place for each element that is stored, where the matrix is known to be sparse."""
    values = _stored_elements(a)
    return None if values is a["A"] else values.size


def _width(a: Arguments) -> Any:
    """Columns of the dense matrix, of all matrices where there are more."""
    b = a["B"].known
    columns = b[-2 if a.get("transB") else -1]
    for d in b[:-2]:
        columns = columns * d
    return columns


SPECS: tuple[OperatorSpec, ...] = (
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
                {**SWAPPED, "width": _width, "indices": _places},
            )
        ],
    ),
)
