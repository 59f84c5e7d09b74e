"""Rows of normalizations and their gradients."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import constant, needs, normalized_axes, only_first

_WB: dict[str, Source] = {"w": "weight", "b": "bias"}
_RUNNING: dict[str, Source] = {"mean": "running_mean", "var": "running_var"}

BATCH_NORM = (
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_RUNNING},
            {"training": lambda args: bool(args.get("training", args.get("train", False))), "eps": "eps"},
            outputs=only_first,
        )
        for name in (
            *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_RUNNING},
            {"training": "training", "eps": "epsilon"},
            outputs=only_first,
        )
        for name in ("cudnn_batch_norm", "miopen_batch_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_RUNNING},
            {"training": constant(training), "eps": "eps"},
            outputs=only_first,
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
        {"x": "input", **_WB, **_RUNNING},
        {"training": lambda args: None if args["use_input_stats"] else False, "eps": "eps"},
        ops=("instance_norm", "batch_norm"),
    ),
)

LAYER_AND_GROUP_NORM = (
    *(
        Row(
            f"aten::{name}",
            "layer_norm",
            {"x": "input", **_WB},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=only_first,
        )
        for name in ("layer_norm", "native_layer_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "rms_norm",
            {"x": "input", "w": "weight"},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=only_first,
        )
        for name in ("rms_norm", "_fused_rms_norm")
    ),
    Row("aten::group_norm", "group_norm", {"x": "input", **_WB}, {"groups": "num_groups", "eps": "eps"}),
    Row(
        "aten::native_group_norm",
        "group_norm",
        {"x": "input", **_WB},
        {"groups": "group", "eps": "eps"},
        outputs=only_first,
    ),
)

WEIGHT_NORM = (
    Row(
        "aten::_weight_norm_interface",
        "weight_norm",
        {"w0": "v", "w1": "g"},
        {"axis": "dim"},
        outputs=only_first,
    ),
)

_NORM: dict[str, Source] = {"dy": "grad_out", "x": "input", "w": "weight"}
_NEEDS: dict[str, Source] = {"needs": needs("x", "w", "b")}
_SAVED: dict[str, Source] = {"mean": "save_mean", "var": "save_var"}


def _in_training(args: Arguments) -> bool:
    return bool(args["train"])


def _is_updated(args: Arguments) -> bool:
    return bool(args["update"])


def _batch_norm(native: str, inputs: dict[str, Source], training: bool, **settings: Any) -> Row:
    return Row(f"aten::{native}", "batch_norm_backward", inputs, {"training": constant(training), **_NEEDS}, **settings)


GRADIENTS = (
    Row(
        "aten::native_layer_norm_backward",
        "layer_norm_backward",
        {**_NORM, "b": "bias", "mean": "mean", "var": "rstd"},
        {"axis": normalized_axes, **_NEEDS},
    ),
    Row(
        "aten::native_group_norm_backward",
        "group_norm_backward",
        {**_NORM, "mean": "mean", "var": "rstd"},
        {"groups": "group", **_NEEDS},
    ),
    Row(
        "aten::_fused_rms_norm_backward",
        "rms_norm_backward",
        {**_NORM, "var": "rstd"},
        {"axis": normalized_axes, "needs": needs("x", "w")},
    ),
    _batch_norm(
        "native_batch_norm_backward", {**_NORM, "mean": "save_mean", "var": "save_invstd"}, True, when=_in_training
    ),
    _batch_norm("native_batch_norm_backward", {**_NORM, **_RUNNING}, False),
    _batch_norm("batch_norm_backward", {**_NORM, **_SAVED}, True, when=_is_updated),
    _batch_norm("batch_norm_backward", {**_NORM, **_RUNNING}, False),
    *(
        _batch_norm(name, {**_NORM, "dy": "grad_output", **_SAVED}, True)
        for name in ("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
    ),
    Row(
        "aten::_weight_norm_interface_backward",
        "weight_norm_backward",
        {"dy": "grad_w", "w0": "saved_v", "w1": "saved_g", "norms": "saved_norms"},
        {"axis": "dim"},
    ),
)

ROWS = (*BATCH_NORM, *LAYER_AND_GROUP_NORM, *WEIGHT_NORM, *GRADIENTS)
