"""Matrix products that ONNX Runtime fuses with a bias and an activation."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.translate import Arguments

from ...graph.node import Node
from ...shapes.matmul import product
from ...values.value import Value
from ..activation import fused_with, has_supported_activation
from ..matmul import MATRICES, SWAPPED, factor, matmul
from ..spec import OperatorSpec, row


def gelu_gemm(node: Node) -> Sequence[Value]:
    """Infer the product of X and W."""
    x = node.value("X")
    return [node.result(product(node, x.known_shape, node.value("W").known_shape), x.dtype)]


def _row_weight(a: Arguments) -> Value:
    """Return the weight of a product of rows by a matrix as ``[Fout, Fin]``."""
    w: Value = a.get("W") or a["B"]
    return w.viewed(w.known_shape[::-1])


FUSED_GEMM = row(
    "fused_matmul",
    {**MATRICES, "b": "C"},
    {**SWAPPED, "beta": factor("beta"), "activation": fused_with},
    when=has_supported_activation,
)

SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "FusedMatMulActivation",
        "A B",
        required=2,
        attributes="transA transB transBatchA transBatchB",
        infer=matmul,
        rows=[row("fused_matmul", MATRICES, {**SWAPPED, "activation": fused_with}, when=has_supported_activation)],
    ),
    *(
        OperatorSpec(name, inputs, required=2, attributes=attributes, infer=matmul, rows=[FUSED_GEMM])
        for name, inputs, attributes in (
            ("FusedGemm", "A B C", "transA transB"),
            ("GemmFloat8", "A B C scaleA scaleB scaleY", "transA transB dtype"),
        )
    ),
    OperatorSpec(
        "GemmFastGelu",
        "X W bias",
        required=2,
        infer=gelu_gemm,
        rows=[row("fused_linear", {"x": "X", "w": _row_weight, "b": "bias"}, {"activation": lambda a: "fast_gelu"})],
    ),
)
