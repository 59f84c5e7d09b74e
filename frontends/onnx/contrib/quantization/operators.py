"""Operators on quantized tensors that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costcore.translate import Arguments

from ...graph.node import Inferred, Node
from ...rows.arguments import SPATIAL, axis, determined, first_given, flag
from ...rows.conv import CONVOLUTION
from ...rows.quantization import ROWS
from ...shapes.conv import conv_transpose
from ...shapes.matmul import product
from ...shapes.quantization import RULES
from ...shapes.reduction import reduced_axes, reduction
from ...shapes.rules import broadcast, broadcast_of, like
from ...values.value import Value
from ..channels_last import channel_view, channels_last, has_no_activation, rule_with_channels_last, weight_view
from ..conv import conv
from ..matmul import MATRICES, SWAPPED, matmul, transposed
from ..pooling import global_pool, pool
from ..spec import NHWC, OperatorSpec, row


def concat(node: Node) -> Sequence[Value]:
    """Infer the concatenation of quantized inputs, each with its scale and zero point."""
    given = node.values("inputs")[::3]
    axis = node.axis(len(given[0].known_shape), "axis") or 0
    shape = list(given[0].known_shape)
    shape[axis] = sum(value.known_shape[axis] for value in given)
    return [node.result(shape, given[0].dtype)]


def where(node: Node) -> Sequence[Value]:
    """Infer the broadcast of condition and both inputs."""
    values = [node.value(name) for name in ("condition", "X", "Y")]
    return [node.result(broadcast(node, *(value.known_shape for value in values)), values[1].dtype)]


def quantized_gemm(node: Node) -> Sequence[Value]:
    """Infer a product of quantized matrices, quantized if the output has a scale."""
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("a_scale").dtype
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def dynamic_matmul(node: Node) -> Sequence[Value]:
    """Infer a product of floats by quantized weights."""
    a = node.value("A")
    return [node.result(product(node, a.known_shape, node.value("B").known_shape), a.dtype)]


def quantized_embedding(node: Node) -> Sequence[Value]:
    """Infer the norm of the embeddings, and the position of the first masked word."""
    ids, table = node.value("input_ids"), node.value("word_embedding_quant")
    return [
        node.result((*ids.known_shape, table.known_shape[-1]), node.value("gamma_scale").dtype),
        node.result((ids.known_shape[0],), "int32"),
    ]


def quantized_conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution of integers."""
    x, w, zero = node.value("x"), node.value("w"), node.value("y_zero_point")
    node.args |= {"X": x, "W": w}
    found = conv_transpose(node)
    return Inferred([node.result(found.outputs[0].shape, zero.dtype)], found.facts)


def _scaled(canonical: str, native: str, scale: str, zero: str) -> dict[str, str]:
    """Return an operand with its scale and zero point."""
    return {canonical: native, f"{canonical}_scale": scale, f"{canonical}_zero_point": zero}


def _output_scale(scale: str, zero: str) -> dict[str, str]:
    """Return the scale and zero point of the output."""
    return {"y_scale": scale, "y_zero_point": zero}


def _every_third(part: int) -> Any:
    """Return a source for the operands of a quantized concatenation, their scales, or their zero points."""
    return lambda a: a["inputs"][part::3]


def _softmax_axes(a: Arguments) -> Any:
    """Return one axis; with an ``opset`` before 13, all axes from it on."""
    rank = len(a["X"].known_shape)
    found = a.get("axis", -1) % rank
    return found if a.get("opset", 13) >= 13 else tuple(range(found, rank))


UNARY_SCALES = _scaled("x", "X", "X_scale", "X_zero_point")


LOWER_SCALES = _scaled("x", "X", "x_scale", "x_zero_point")


def _embedding_part(i: int, name: str) -> dict[str, str]:
    """Return the scale and zero point of one table of embeddings."""
    return {f"w{i}_scale": f"{name}_embedding_scale", f"w{i}_zero_point": f"{name}_embedding_zero_point"}


SCALED = {name: name for name in ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")}


AVERAGE_POOL = row(
    "quantized_avg_pool",
    {**LOWER_SCALES, "x": channel_view("X"), **_output_scale("y_scale", "y_zero_point")},
    {**SPATIAL, "ceil_mode": flag("ceil_mode")},
)


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
                    "x_scale": "x_scale",
                    "x_zero_point": "x_zero_point",
                    "w_scale": "w_scale",
                    "w_zero_point": "w_zero_point",
                    **_output_scale("y_scale", "y_zero_point"),
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
                    **_output_scale("y_scale", "y_zero_point"),
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
    OperatorSpec(
        "QLinearAdd",
        "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
        required=2,
        infer=broadcast_of("A", "B"),
        rows=[
            row(
                "quantized_add",
                {
                    **_scaled("x0", "A", "A_scale", "A_zero_point"),
                    **_scaled("x1", "B", "B_scale", "B_zero_point"),
                    **_output_scale("C_scale", "C_zero_point"),
                },
            )
        ],
    ),
    OperatorSpec(
        "QLinearMul",
        "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
        required=2,
        infer=broadcast_of("A", "B"),
        rows=[
            row(
                "quantized_mul",
                {
                    **_scaled("x0", "A", "A_scale", "A_zero_point"),
                    **_scaled("x1", "B", "B_scale", "B_zero_point"),
                    **_output_scale("C_scale", "C_zero_point"),
                },
            )
        ],
    ),
    OperatorSpec(
        "QLinearSigmoid",
        "X X_scale X_zero_point Y_scale Y_zero_point",
        required=2,
        infer=like("X"),
        rows=[row("quantized_sigmoid", {**UNARY_SCALES, **_output_scale("Y_scale", "Y_zero_point")})],
    ),
    OperatorSpec(
        "QLinearLeakyRelu",
        "X X_scale X_zero_point Y_scale Y_zero_point",
        required=2,
        infer=like("X"),
        rows=[
            row(
                "quantized_leaky_relu", {**UNARY_SCALES, **_output_scale("Y_scale", "Y_zero_point")}, {"slope": "alpha"}
            )
        ],
    ),
    OperatorSpec(
        "QLinearSoftmax",
        "X X_scale x_zero_point y_scale y_zero_point",
        required=2,
        attributes="axis opset",
        infer=like("X"),
        rows=[
            row(
                "quantized_softmax",
                {**_scaled("x", "X", "X_scale", "x_zero_point"), **_output_scale("y_scale", "y_zero_point")},
                {"axis": _softmax_axes},
            )
        ],
    ),
    OperatorSpec(
        "QLinearAveragePool",
        "X x_scale x_zero_point y_scale y_zero_point",
        required=2,
        attributes="channels_last ceil_mode",
        infer=pool,
        rows=[AVERAGE_POOL],
    ),
    OperatorSpec(
        "QLinearGlobalAveragePool",
        "X x_scale x_zero_point y_scale y_zero_point",
        required=5,
        attributes="channels_last",
        infer=global_pool,
        rows=[AVERAGE_POOL],
    ),
    OperatorSpec(
        "QLinearReduceMean",
        "data data_scale data_zero_point reduced_scale reduced_zero_point",
        required=2,
        attributes="keepdims",
        infer=reduction,
        rows=[
            row(
                "quantized_reduce_mean",
                {
                    **_scaled("x", "data", "data_scale", "data_zero_point"),
                    **_output_scale("reduced_scale", "reduced_zero_point"),
                },
                {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
            )
        ],
    ),
    OperatorSpec(
        "QLinearConcat",
        "Y_scale Y_zero_point *inputs",
        required=2,
        attributes="axis",
        infer=concat,
        rows=[
            row(
                "quantized_concat",
                {
                    "x*": _every_third(0),
                    "x*_scale": _every_third(1),
                    "x*_zero_point": _every_third(2),
                    **_output_scale("Y_scale", "Y_zero_point"),
                },
                {"axis": determined(lambda n: n.axis(len(n.values("inputs")[0].known_shape), "axis"))},
            )
        ],
    ),
    OperatorSpec(
        "QLinearWhere",
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        required=9,
        infer=where,
        rows=[
            row(
                "quantized_where",
                {
                    "condition": "condition",
                    **_scaled("x0", "X", "x_scale", "x_zero_point"),
                    **_scaled("x1", "Y", "y_scale", "y_zero_point"),
                    **_output_scale("z_scale", "z_zero_point"),
                },
            )
        ],
    ),
    OperatorSpec(
        "QOrderedGelu",
        "X scale_X scale_Y",
        required=3,
        infer=like("X"),
        rows=[row("quantized_gelu", {"x": "X", "x_scale": "scale_X", "y_scale": "scale_Y"})],
    ),
    OperatorSpec(
        "QOrderedLayerNormalization",
        "X scale_X scale B scale_Y",
        required=3,
        attributes="axis",
        infer=like("X"),
        rows=[
            row(
                "quantized_layer_norm",
                {"x": "X", "x_scale": "scale_X", "w": "scale", "b": "B", "y_scale": "scale_Y"},
                {
                    "axis": lambda a: tuple(
                        range(axis("X", default=len(a["X"].known_shape) - 1)(a), len(a["X"].known_shape))
                    ),
                    "eps": "epsilon",
                },
            )
        ],
    ),
    OperatorSpec(
        "QEmbedLayerNormalization",
        "input_ids segment_ids word_embedding_quant position_embedding_quant segment_embedding "
        "gamma_quant beta_quant mask word_embedding_scale position_embedding_scale "
        "segment_embedding_scale gamma_scale beta_scale word_embedding_zero_point "
        "position_embedding_zero_point segment_embedding_zero_point gamma_zero_point "
        "beta_zero_point",
        infer=quantized_embedding,
        rows=[
            row(
                "quantized_embed_norm",
                {
                    "x": "input_ids",
                    "segments": "segment_ids",
                    "w0": "word_embedding_quant",
                    "w1": "position_embedding_quant",
                    "w2": "segment_embedding",
                    "w": "gamma_quant",
                    "b": "beta_quant",
                    "mask": "mask",
                    **_embedding_part(0, "word"),
                    **_embedding_part(1, "position"),
                    **_embedding_part(2, "segment"),
                    "w_scale": "gamma_scale",
                    "w_zero_point": "gamma_zero_point",
                    "b_scale": "beta_scale",
                    "b_zero_point": "beta_zero_point",
                },
                {"eps": "epsilon"},
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
        "QLinearAveragePool",
        "X x_scale x_zero_point y_scale y_zero_point",
        required=2,
        attributes="channels_last ceil_mode",
        infer=rule_with_channels_last(pool),
        rows=[replace(AVERAGE_POOL, when=has_no_activation)],
        domain=NHWC,
    ),
    OperatorSpec(
        "QLinearConvTranspose",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        required=8,
        attributes="group",
        infer=rule_with_channels_last(quantized_conv_transpose),
        rows=[row("quantized_conv_transpose", {"x": "x", "w": "w", "b": "B", **SCALED}, CONVOLUTION)],
        domain=NHWC,
    ),
)
