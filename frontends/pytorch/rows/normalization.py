"""Rows of normalizations and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import any_is_differentiated, statistics_dtype
from .arguments import axes, constant, first_output, needed_gradients, non_default, normalized_axes

_WEIGHT_BIAS: dict[str, Source] = {"w": "weight", "b": "bias"}
_RUNNING: dict[str, Source] = {"mean": "running_mean", "var": "running_var"}


def _saved(args: Arguments) -> str | None:
    """Return the dtype of mean and deviation, which a norm keeps for its backward pass."""
    x, weight = args["input"], args.get("weight")
    if not any_is_differentiated(x, weight, args.get("bias")):
        return None
    return statistics_dtype(x, weight)


def _saved_in_training(args: Arguments) -> str | None:
    """Return the dtype of the statistics that a batch norm keeps, which are given at inference."""
    in_training = args.get("training", args.get("train", args.get("use_input_stats")))
    return _saved(args) if in_training else None


BATCH_NORM = (
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {
                "training": lambda args: bool(args.get("training", args.get("train", False))),
                "eps": "eps",
                "saved": _saved_in_training,
            },
            outputs=first_output,
        )
        for name in (
            *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {"training": "training", "eps": "epsilon"},
            outputs=first_output,
        )
        for name in ("cudnn_batch_norm", "miopen_batch_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {"training": constant(training), "eps": "eps"},
            outputs=first_output,
        )
        for name, training in (
            ("_batch_norm_with_update", True),
            ("_batch_norm_no_update", False),
            ("_batch_norm_with_update_functional", True),
            ("_native_batch_norm_legit_functional", True),
        )
    ),
    Row(
        "aten::instance_norm",
        lambda args: "instance_norm" if args["use_input_stats"] else "batch_norm",
        {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
        {
            "training": lambda args: None if args["use_input_stats"] else False,
            "eps": "eps",
            "saved": _saved_in_training,
        },
        ops=("instance_norm", "batch_norm"),
    ),
)

LAYER_AND_GROUP_NORM = (
    *(
        Row(
            f"aten::{name}",
            "layer_norm",
            {"x": "input", **_WEIGHT_BIAS},
            {"axis": normalized_axes, "eps": "eps", "saved": _saved},
            outputs=first_output,
        )
        for name in ("layer_norm", "native_layer_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "rms_norm",
            {"x": "input", "w": "weight"},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=first_output,
        )
        for name in ("rms_norm", "_fused_rms_norm")
    ),
    Row(
        "aten::group_norm",
        "group_norm",
        {"x": "input", **_WEIGHT_BIAS},
        {"groups": "num_groups", "eps": "eps", "saved": _saved},
    ),
    Row(
        "aten::native_group_norm",
        "group_norm",
        {"x": "input", **_WEIGHT_BIAS},
        {"groups": "group", "eps": "eps", "saved": _saved},
        outputs=first_output,
    ),
)


def _with_norms(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the norms, the second output, if a backward pass can follow."""
    return outputs if any_is_differentiated(args["v"], args["g"]) else outputs[:1]


WEIGHT_NORM = (
    Row(
        "aten::_weight_norm_interface",
        "weight_norm",
        {"w0": "v", "w1": "g"},
        {"axis": "dim"},
        outputs=_with_norms,
    ),
)

PYTHON_FUNCTIONS = (
    Row(
        "torch.nn.functional::normalize",
        lambda args: "l1_normalize" if args["p"] == 1 else "l2_normalize",
        {"x": "input"},
        {"axis": axes(), "eps": "eps"},
        ops=("l1_normalize", "l2_normalize"),
    ),
    Row("torch.nn.functional::local_response_norm", "local_response_norm", {"x": "input"}, {"size": "size"}),
)

RENORM = (
    *(
        Row(f"aten::{name}", "renorm_rows", {"w": "self", "x": "indices"}, {"p": non_default("norm_type", 2)})
        for name in ("embedding_renorm", "embedding_renorm_")
    ),
    Row(
        "aten::renorm",
        "renorm",
        {"x": "self"},
        {"p": non_default("p", 2), "axis": lambda args: int(args["dim"]) % args["self"].dim()},
    ),
)

_GRADIENT: dict[str, Source] = {"dy": "grad_out", "x": "input", "w": "weight"}
_NEEDED: dict[str, Source] = {"needs": needed_gradients("x", "w", "b")}
_SAVED: dict[str, Source] = {"mean": "save_mean", "var": "save_var"}


def _in_training(args: Arguments) -> bool:
    return bool(args["train"])


def _uses_batch_statistics(args: Arguments) -> bool:
    return bool(args["update"])


def _batch_norm_backward(native: str, inputs: dict[str, Source], training: bool, **options: Any) -> Row:
    return Row(f"aten::{native}", "batch_norm_backward", inputs, {"training": constant(training), **_NEEDED}, **options)


GRADIENTS = (
    Row(
        "aten::native_layer_norm_backward",
        "layer_norm_backward",
        {**_GRADIENT, "b": "bias", "mean": "mean", "var": "rstd"},
        {"axis": normalized_axes, **_NEEDED},
    ),
    Row(
        "aten::native_group_norm_backward",
        "group_norm_backward",
        {**_GRADIENT, "mean": "mean", "var": "rstd"},
        {"groups": "group", **_NEEDED},
    ),
    Row(
        "aten::_fused_rms_norm_backward",
        "rms_norm_backward",
        {**_GRADIENT, "var": "rstd"},
        {"axis": normalized_axes, "needs": needed_gradients("x", "w")},
    ),
    _batch_norm_backward(
        "native_batch_norm_backward", {**_GRADIENT, "mean": "save_mean", "var": "save_invstd"}, True, when=_in_training
    ),
    _batch_norm_backward("native_batch_norm_backward", {**_GRADIENT, **_RUNNING}, False),
    _batch_norm_backward("batch_norm_backward", {**_GRADIENT, **_SAVED}, True, when=_uses_batch_statistics),
    _batch_norm_backward("batch_norm_backward", {**_GRADIENT, **_RUNNING}, False),
    *(
        _batch_norm_backward(name, {**_GRADIENT, "dy": "grad_output", **_SAVED}, True)
        for name in ("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
    ),
    Row(
        "aten::_weight_norm_interface_backward",
        "weight_norm_backward",
        {"dy": "grad_w", "w0": "saved_v", "w1": "saved_g", "norms": "saved_norms"},
        {"axis": "dim"},
    ),
)

ROWS = (*BATCH_NORM, *LAYER_AND_GROUP_NORM, *WEIGHT_NORM, *PYTHON_FUNCTIONS, *RENORM, *GRADIENTS)
