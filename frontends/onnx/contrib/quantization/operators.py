"""Quantized element-wise operators, reductions, pooling and norms that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costcore.translate import Arguments

from ...graph.node import Node
from ...rows.arguments import SPATIAL, axis, determined, flag
from ...shapes.reduction import reduced_axes, reduction
from ...shapes.rules import broadcast, broadcast_of, like
from ...values.value import Value
from ..channels_last import channel_view, has_no_activation, rule_with_channels_last
from ..pooling import global_pool, pool
from ..spec import MICROSOFT, NHWC, OperatorSpec, row
from .products import output_scale


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


def quantized_embedding(node: Node) -> Sequence[Value]:
    """Infer the norm of the embeddings, and the position of the first masked word."""
    ids, table = node.value("input_ids"), node.value("word_embedding_quant")
    return [
        node.result((*ids.known_shape, table.known_shape[-1]), node.value("gamma_scale").dtype),
        node.result((ids.known_shape[0],), "int32"),
    ]


def _scaled(canonical: str, native: str, scale: str, zero: str) -> dict[str, str]:
    """Return an operand with its scale and zero point."""
    return {canonical: native, f"{canonical}_scale": scale, f"{canonical}_zero_point": zero}


def _every_third(part: int) -> Any:
    """Return a source for the operands of a quantized concatenation, their scales, or their zero points."""
    return lambda a: a["inputs"][part::3]


def _softmax_axes(a: Arguments) -> Any:
    """Return one axis; with an ``opset`` before 13, all axes from it on."""
    rank = len(a["X"].known_shape)
    found = a.get("axis", -1) % rank
    return found if a.get("opset", 13) >= 13 else tuple(range(found, rank))


UNARY_SCALES = _scaled("x", "X", "X_scale", "X_zero_point")
"""The input of element-wise operators, with its scale and zero point."""

POOLED_SCALES = _scaled("x", "X", "x_scale", "x_zero_point")
"""The input of pooling, with its scale and zero point."""


def _embedding_part(i: int, name: str) -> dict[str, str]:
    """Return the scale and zero point of one table of embeddings."""
    return {f"w{i}_scale": f"{name}_embedding_scale", f"w{i}_zero_point": f"{name}_embedding_zero_point"}


AVERAGE_POOL = row(
    "quantized_avg_pool",
    {**POOLED_SCALES, "x": channel_view("X"), **output_scale("y_scale", "y_zero_point")},
    {**SPATIAL, "ceil_mode": flag("ceil_mode")},
)


SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            name,
            "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
            required=2,
            infer=broadcast_of("A", "B"),
            rows=[
                row(
                    op,
                    {
                        **_scaled("x0", "A", "A_scale", "A_zero_point"),
                        **_scaled("x1", "B", "B_scale", "B_zero_point"),
                        **output_scale("C_scale", "C_zero_point"),
                    },
                )
            ],
        )
        for name, op in (("QLinearAdd", "quantized_add"), ("QLinearMul", "quantized_mul"))
    ),
    *(
        OperatorSpec(
            name,
            "X X_scale X_zero_point Y_scale Y_zero_point",
            required=2,
            infer=like("X"),
            rows=[row(op, {**UNARY_SCALES, **output_scale("Y_scale", "Y_zero_point")}, attributes)],
        )
        for name, op, attributes in (
            ("QLinearSigmoid", "quantized_sigmoid", {}),
            ("QLinearLeakyRelu", "quantized_leaky_relu", {"slope": "alpha"}),
        )
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
                {**_scaled("x", "X", "X_scale", "x_zero_point"), **output_scale("y_scale", "y_zero_point")},
                {"axis": _softmax_axes},
            )
        ],
    ),
    *(
        OperatorSpec(
            "QLinearAveragePool",
            "X x_scale x_zero_point y_scale y_zero_point",
            required=2,
            attributes="channels_last ceil_mode",
            infer=infer,
            rows=[average],
            domain=domain,
        )
        for infer, average, domain in (
            (pool, AVERAGE_POOL, MICROSOFT),
            (rule_with_channels_last(pool), replace(AVERAGE_POOL, when=has_no_activation), NHWC),
        )
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
                    **output_scale("reduced_scale", "reduced_zero_point"),
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
                    **output_scale("Y_scale", "Y_zero_point"),
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
                    **output_scale("z_scale", "z_zero_point"),
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
)
