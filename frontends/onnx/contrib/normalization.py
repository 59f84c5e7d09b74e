"""Normalizations that ONNX Runtime adds."""

from __future__ import annotations

from ..rows.arguments import axis, first_outputs, node_of
from ..rows.normalization import ROWS
from ..schema.signature import ONNX
from ..shapes.normalization import RULES, layer_norm
from ..shapes.rules import like
from .channels_last import channels_last
from .fused.hyper_connections import grouped_streams, streams
from .spec import OperatorSpec, row

SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "SimplifiedLayerNormalization",
        "X scale B",
        required=2,
        attributes="axis",
        infer=layer_norm,
        rows=[
            row(
                "rms_norm",
                {"x": "X", "w": "scale", "b": "B"},
                {
                    "axis": lambda a: tuple(
                        range(axis("X", default=len(a["X"].known_shape) - 1)(a), len(a["X"].known_shape))
                    ),
                    "eps": "epsilon",
                },
                outputs=first_outputs(1),
            )
        ],
        domain=ONNX,
    ),
    OperatorSpec(
        "BranchwiseRMSNorm",
        "X scale",
        attributes="num_branches",
        infer=like("X"),
        rows=[
            row(
                "rms_norm",
                {"x": grouped_streams("X"), "w": "scale"},
                {"axis": lambda a: (len(streams(node_of(a))[0]) - 1,), "eps": "epsilon"},
            )
        ],
    ),
    *(
        channels_last(name, inputs, RULES, ROWS, required=len(inputs.split()))
        for name, inputs in (
            ("BatchNormalization", "X scale B input_mean input_var"),
            ("InstanceNormalization", "input scale B"),
            ("LRN", "X"),
        )
    ),
)
