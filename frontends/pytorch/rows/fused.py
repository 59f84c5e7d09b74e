"""Rows of fused operators: transformer layers, chunked losses, products and convolutions with an activation."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from ..tensors import sample_lengths
from .arguments import PACKED, as_data, constant, first_argument, is_unpacked, non_default, non_empty_outputs, operands
from .attention import PROJECTIONS

TRANSFORMER_LAYERS = (
    Row(
        "aten::_transformer_encoder_layer_fwd",
        "transformer_encoder_layer",
        {
            **operands("x=src mask=mask w2=ffn_weight_1 b2=ffn_bias_1 w3=ffn_weight_2 b3=ffn_bias_2"),
            **operands("w4=norm_weight_1 b4=norm_bias_1 w5=norm_weight_2 b5=norm_bias_2"),
            **PROJECTIONS,
        },
        {
            "heads": "num_heads",
            "activation": lambda args: "gelu" if args["use_gelu"] else None,
            "lengths": lambda args: sample_lengths(args["src"]),
        },
    ),
    Row("aten::_transform_bias_rescale_qkv", "scaled_split_heads", {"x": "qkv", "b": "qkv_bias"}),
)

_LINEAR_CROSS_ENTROPY: dict[str, Source] = {
    "x": "input",
    "w": "linear_weight",
    "b": "linear_bias",
    "target": "target",
    "class_weights": "weight",
}


def _needed_gradients(args: Arguments) -> tuple[str, ...]:
    operands_and_arguments = (("x", "input"), ("w", "linear_weight"), ("b", "linear_bias"))
    return tuple(name for name, argument in operands_and_arguments if args[f"compute_{argument}_grad"])


LOSSES = (
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked",
        "linear_cross_entropy",
        _LINEAR_CROSS_ENTROPY,
        {"reduction": "reduction", "needs": _needed_gradients},
        outputs=non_empty_outputs,
    ),
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
        "linear_cross_entropy",
        _LINEAR_CROSS_ENTROPY,
        {"reduction": constant("none"), "needs": constant(())},
    ),
)

EPILOGUES = (
    Row(
        "quantized::linear_relu_dynamic_fp16",
        "fused_linear",
        {"x": first_argument, **PACKED},
        {"activation": constant("relu")},
        is_unpacked,
    ),
    Row(
        "aten::_addmm_activation",
        "fused_matmul",
        {"x0": "mat1", "x1": "mat2", "b": as_data("self")},
        {
            "alpha": non_default("alpha", 1),
            "beta": non_default("beta", 1),
            "activation": lambda args: "gelu" if args["use_gelu"] else "relu",
        },
    ),
    Row(
        "aten::cudnn_convolution_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
    Row(
        "aten::cudnn_convolution_add_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias", "z": "z"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
)

ROWS = (*TRANSFORMER_LAYERS, *LOSSES, *EPILOGUES)
