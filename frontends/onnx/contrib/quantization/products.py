"""Quantized matrix products and convolutions that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Inferred, Node
from ...rows.arguments import first_given
from ...rows.conv import CONVOLUTION
from ...rows.quantization import ROWS
from ...shapes.conv import conv_transpose
from ...shapes.matmul import product
from ...shapes.quantization import RULES
from ...values.value import Value
from ..channels_last import channel_view, channels_last, rule_with_channels_last, weight_view
from ..conv import conv
from ..matmul import MATRICES, SWAPPED, matmul, transposed
from ..spec import NHWC, OperatorSpec, row


def quantized_gemm(node: Node) -> Sequence[Value]:
    """Infer a product of quantized matrices, quantized if the output has a scale."""
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("a_scale").dtype
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def dynamic_matmul(node: Node) -> Sequence[Value]:
    """Infer a product of floats by quantized weights."""
    a = node.value("A")
    return [node.result(product(node, a.known_shape, node.value("B").known_shape), a.dtype)]


def quantized_conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution of integers."""
    x, w, zero = node.value("x"), node.value("w"), node.value("y_zero_point")
    node.args |= {"X": x, "W": w}
    found = conv_transpose(node)
    return Inferred([node.result(found.outputs[0].shape, zero.dtype)], found.facts)


def output_scale(scale: str, zero: str) -> dict[str, str]:
    """Return the scale and zero point of the output."""
    return {"y_scale": scale, "y_zero_point": zero}


SCALES = {name: name for name in ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")}
"""Scales and zero points of input, weight and output, which the operators name as costcore does."""

SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QLinearConv",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        required=8,
        attributes="group channels_last",
        infer=conv,
        rows=[
            row(
                "quantized_conv",
                {
                    "x": channel_view("x"),
                    "w": weight_view("w"),
                    "b": "B",
                    **SCALES,
                },
                CONVOLUTION,
            )
        ],
    ),
    OperatorSpec(
        "QGemm",
        "A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point",
        required=6,
        attributes="transA transB",
        infer=quantized_gemm,
        rows=[
            row(
                "quantized_matmul",
                {
                    **MATRICES,
                    "b": "C",
                    "x0_scale": "a_scale",
                    "x0_zero_point": "a_zero_point",
                    "x1_scale": "b_scale",
                    "x1_zero_point": "b_zero_point",
                    **output_scale("y_scale", "y_zero_point"),
                },
                SWAPPED,
            )
        ],
    ),
    OperatorSpec(
        "MatMulIntegerToFloat",
        "A B a_scale b_scale a_zero_point b_zero_point bias",
        required=4,
        infer=matmul,
        rows=[
            row(
                "quantized_matmul",
                {
                    "x0": "A",
                    "x1": "B",
                    "b": "bias",
                    "x0_scale": "a_scale",
                    "x0_zero_point": "a_zero_point",
                    "x1_scale": "b_scale",
                    "x1_zero_point": "b_zero_point",
                },
            )
        ],
    ),
    OperatorSpec(
        "DynamicQuantizeMatMul",
        "A B b_scale b_zero_point bias",
        required=3,
        infer=dynamic_matmul,
        rows=[
            row(
                "dynamic_quantized_matmul",
                {"x0": "A", "x1": "B", "b": "bias", "x1_scale": "b_scale", "x1_zero_point": "b_zero_point"},
            )
        ],
    ),
    OperatorSpec(
        "QOrderedMatMul",
        "A scale_A B scale_B scale_Y bias C scale_C",
        required=5,
        infer=matmul,
        rows=[
            row(
                "quantized_matmul",
                {
                    "x0": "A",
                    "x1": "B",
                    "b": first_given("bias", "C"),
                    "x0_scale": "scale_A",
                    "x1_scale": "scale_B",
                    "y_scale": "scale_Y",
                },
                when=lambda a: a.get("bias") is None or a.get("C") is None,
            )
        ],
    ),
    channels_last(
        "QLinearConv",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        RULES,
        ROWS,
        required=8,
        attributes="group",
    ),
    OperatorSpec(
        "QLinearConvTranspose",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        required=8,
        attributes="group",
        infer=rule_with_channels_last(quantized_conv_transpose),
        rows=[row("quantized_conv_transpose", {"x": "x", "w": "w", "b": "B", **SCALES}, CONVOLUTION)],
        domain=NHWC,
    ),
)
