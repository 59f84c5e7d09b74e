"""Convolutions that ONNX Runtime adds: fused with an activation, with channels last, in blocks of channels."""

from __future__ import annotations

from costcore.translate import Arguments

from ..graph.node import Inferred, Node
from ..rows.conv import CONVOLUTION, ROWS
from ..shapes import conv as standard
from ..shapes.windows import windows
from ..values.value import Undetermined, Value
from .activation import FUSED, fused_with, has_supported_activation
from .channels_last import channel_view, channels_back, channels_first, channels_last, weight_view
from .spec import NCHWC, OperatorSpec, row


def conv(node: Node) -> Inferred:
    """Infer a convolution, with channels first or last."""
    x, w = node.value("X", "x"), node.value("W", "w")
    shape = channels_first(node, x.known_shape)
    if len(shape) < 3 or len(w.known_shape) != len(shape):
        raise node.error(
            f"needs weights of the same rank as its input (got the shapes {x.known_shape} and {w.known_shape})"
        )
    group = node.args.get("group", 1)
    is_last = w.known_shape[1] * group != shape[1] and w.known_shape[-1] * group == shape[1]
    kernel = node.args.get("kernel_shape") or (w.known_shape[1:-1] if is_last else w.known_shape[2:])
    found = windows(node, shape[2:], kernel)
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else x.dtype
    return Inferred([node.result(channels_back(node, (shape[0], w.known_shape[0], *found.out)), dtype)], found)


def padded_conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution whose padding is an input."""
    try:
        pads = node.numbers("Pads")
    except Undetermined:
        found = standard.conv_transpose(node)
        y = found.outputs[0]
        return Inferred([node.result((*y.known_shape[:2], *(None for _ in y.known_shape[2:])), y.dtype)], found.facts)
    if pads is not None:
        node.args["pads"] = pads
    return standard.conv_transpose(node)


def _is_plain(a: Arguments) -> bool:
    """Return whether nothing is fused to the convolution."""
    return not fused_with(a) and not isinstance(a.get("Z"), Value) and not isinstance(a.get("Sum"), Value)


SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            op,
            inputs,
            required=2,
            attributes="group",
            infer=conv,
            rows=[
                row("conv", {"x": channel_view("X"), "w": weight_view("W"), "b": "B"}, CONVOLUTION, when=_is_plain),
                row(
                    "fused_conv",
                    {"x": channel_view("X"), "w": weight_view("W"), "b": "B", "z": "Z"},
                    {**CONVOLUTION, "activation": fused_with},
                    when=has_supported_activation,
                ),
            ],
        )
        for op, inputs in (("FusedConv", "X W B Z"), ("NhwcConv", "X W B"), ("NhwcFusedConv", "X W B Z"))
    ),
    OperatorSpec(
        "ConvTransposeWithDynamicPads",
        "X W Pads B",
        required=2,
        attributes="group",
        infer=padded_conv_transpose,
        rows=[row("conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION)],
    ),
    OperatorSpec(
        "Conv",
        "X W B Sum",
        required=2,
        attributes="group",
        infer=conv,
        rows=[
            row("conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION, when=_is_plain),
            row(
                "fused_conv",
                {"x": "X", "w": "W", "b": "B", "z": "Sum"},
                {**CONVOLUTION, "activation": fused_with},
                when=has_supported_activation,
            ),
        ],
        domain=NCHWC,
    ),
    channels_last(
        "Conv",
        "X W B",
        standard.RULES,
        ROWS,
        required=2,
        attributes="group",
        fused=[
            row(
                "fused_conv",
                {"x": "X", "w": "W", "b": "B"},
                {**CONVOLUTION, "activation": fused_with},
                when=lambda a: a.get("activation") in FUSED,
            )
        ],
    ),
    channels_last(
        "ConvTranspose",
        "X W B",
        standard.RULES,
        ROWS,
        required=2,
        attributes="group",
    ),
)
