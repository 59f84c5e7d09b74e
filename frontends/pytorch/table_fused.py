"""Rows of operators that do at once what others do in steps: optimizers, transformer layers, cells of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import axis, constant, first, given, named, non_empty, only_first, same, tensors_of, unlearned
from .table_backward import LAYER, matrices, mode_of, vectors


def _changed(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Parameters and moments; a step may say that it writes to gradients and to its own number as well."""
    others = {id(value) for value in (*args["grads"], *args.get("state_steps", ()))}
    return [value for value in outputs if id(value) not in others]


def _set(name: str) -> Source:
    return lambda args: args[name] or None


_DECAY: dict[str, Source] = {"weight_decay": _set("weight_decay"), "maximize": _set("maximize")}
_STEP: dict[str, Source] = {"scaled": lambda args: True if args.get("grad_scale") is not None else None}


def _sgd(args: Arguments) -> str:
    if not args["momentum"]:
        return "sgd_step"
    return "sgd_nesterov_step" if args["nesterov"] else "sgd_momentum_step"


def _moments(*names: str) -> Source:
    return tensors_of("self", "grads", *names)


OPTIMIZERS = (
    *(
        Row(
            f"aten::{name}",
            "adam_step",
            {"x*": _moments("exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")},
            {**decay, **_STEP, "amsgrad": _set("amsgrad"), "maximize": _set("maximize")},
            outputs=_changed,
        )
        for name, decay in (
            ("_fused_adam", {"weight_decay": _set("weight_decay")}),
            ("_fused_adamw", {"weight_decay_after": _set("weight_decay")}),
        )
    ),
    Row(
        "aten::_fused_sgd",
        _sgd,
        {"x*": _moments("momentum_buffer_list")},
        {**_DECAY, **_STEP, "dampening": _set("dampening")},
        outputs=_changed,
        ops=("sgd_step", "sgd_momentum_step", "sgd_nesterov_step"),
    ),
    Row(
        "aten::_fused_adagrad",
        "adagrad_step",
        {"x*": _moments("state_sums")},
        {**_DECAY, **_STEP},
        outputs=_changed,
    ),
    Row("aten::_foreach_zero", "full", {}),
    Row("aten::_foreach_clone", "foreach_copy", {"x*": "self"}),
    Row("aten::_foreach_max", "foreach_max", {"x*": "self"}),
    Row("aten::_foreach_powsum", "foreach_powsum", {"x*": "self"}, {"p": "ord"}),
    Row("aten::_foreach_mm", "foreach_matmul", {"x*": tensors_of("self", "mat2")}),
    Row(
        "aten::_amp_foreach_non_finite_check_and_unscale",
        "foreach_unscale",
        {"x*": "self", "scale": "inv_scale"},
        outputs=lambda args, outputs: outputs[:-1],
    ),
)

_WEIGHTS: dict[str, Source] = {"w0": "qkv_weight", "b0": "qkv_bias", "w1": "proj_weight", "b1": "proj_bias"}

TRANSFORMERS = (
    Row(
        "aten::_native_multi_head_attention",
        "multi_head_attention",
        {
            "q": "query",
            "k": lambda args: None if args["key"] is args["query"] else args["key"],
            "v": lambda args: None if args["value"] is args["key"] else args["value"],
            **_WEIGHTS,
            "mask": "mask",
        },
        {"heads": "num_head"},
    ),
    Row(
        "aten::_transformer_encoder_layer_fwd",
        "transformer_encoder_layer",
        {
            **named("x=src mask=mask w2=ffn_weight_1 b2=ffn_bias_1 w3=ffn_weight_2 b3=ffn_bias_2"),
            **named("w4=norm_weight_1 b4=norm_bias_1 w5=norm_weight_2 b5=norm_bias_2"),
            **_WEIGHTS,
        },
        {"heads": "num_heads", "activation": lambda args: "gelu" if args["use_gelu"] else None},
    ),
    Row("aten::_transform_bias_rescale_qkv", "scaled_split_heads", {"x": "qkv", "b": "qkv_bias"}),
    Row(
        "aten::_masked_softmax",
        "masked_softmax",
        {"x": "self", "mask": "mask"},
        {"axis": lambda args: args["self"].dim() - 1 if args["dim"] is None else axis()(args)},
    ),
)

_CHUNKED: dict[str, Source] = {
    "x": "input",
    "w": "linear_weight",
    "b": "linear_bias",
    "target": "target",
    "class_weights": "weight",
}


def _wanted(args: Arguments) -> tuple[str, ...]:
    asked = (("x", "input"), ("w", "linear_weight"), ("b", "linear_bias"))
    return tuple(name for name, argument in asked if args[f"compute_{argument}_grad"])


LOSSES = (
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked",
        "linear_cross_entropy",
        _CHUNKED,
        {"reduction": "reduction", "needs": _wanted},
        outputs=non_empty,
    ),
    Row(
        "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
        "linear_cross_entropy",
        _CHUNKED,
        {"reduction": constant("none"), "needs": constant(())},
    ),
)

RECURRENT = (
    *(
        Row(
            f"aten::{name}",
            mode_of(),
            {"x": "input", "h0": "hx", "c0": "cx", "w*": matrices, "b*": vectors},
            {**LAYER, "projection": given("proj_size", 0)},
            outputs=lambda args, outputs: outputs[:4],
            ops=("rnn", "lstm", "gru"),
        )
        for name in ("_cudnn_rnn", "miopen_rnn")
    ),
    Row(
        "aten::_thnn_fused_lstm_cell",
        "summed_lstm_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "c0": "cx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
    Row(
        "aten::_thnn_fused_gru_cell",
        "summed_gru_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "h0": "hx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
    *same("_cudnn_rnn_flatten_weight=copy", {"x": first}),
)

_SCALES: dict[str, Source] = {"x0": "self", "x1": "mat2", "x0_scale": "scale_a", "x1_scale": "scale_b", "b": "bias"}


def _listed(prefix: str, name: str) -> dict[str, Source]:
    return {f"{prefix}_scale*": name}


PRODUCTS = (
    Row("aten::_scaled_mm", "scaled_matmul", {**_SCALES, "y_scale": "scale_result"}),
    Row(
        "aten::_scaled_mm_v2",
        "scaled_matmul",
        {"x0": "self", "x1": "mat2", **_listed("x0", "scale_a"), **_listed("x1", "scale_b"), "b": "bias"},
    ),
    Row("aten::_grouped_mm", "grouped_matmul", {"x0": "self", "x1": "mat2", "offsets": "offs", "b": "bias"}),
    Row("aten::_scaled_grouped_mm", "grouped_matmul", {**_SCALES, "offsets": "offs"}),
    Row(
        "aten::_scaled_grouped_mm_v2",
        "grouped_matmul",
        {
            **named("x0=self x1=mat2 offsets=offs b=bias"),
            **_listed("x0", "scale_a"),
            **_listed("x1", "scale_b"),
        },
    ),
    Row("aten::_weight_int8pack_mm", "packed_matmul", {"x": "self", "w": "mat2", "w_scale": "scales"}),
    *(
        Row(
            f"aten::{name}",
            "packed_matmul",
            {"x": "self", "w": "mat2", "w_scale": "qScaleAndZeros"},
            {"zero_points": constant(True), "block": "qGroupSize"},
        )
        for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
    ),
    Row(
        "aten::_addmm_activation",
        "fused_matmul",
        {"x0": "mat1", "x1": "mat2", "b": unlearned("self")},
        {
            "alpha": given("alpha", 1),
            "beta": given("beta", 1),
            "activation": lambda args: "gelu" if args["use_gelu"] else "relu",
        },
    ),
    Row(
        "aten::_weight_norm_interface",
        "weight_norm",
        {"w0": "v", "w1": "g"},
        {"axis": "dim"},
        outputs=only_first,
    ),
)

ROWS = (*OPTIMIZERS, *TRANSFORMERS, *LOSSES, *RECURRENT, *PRODUCTS)
