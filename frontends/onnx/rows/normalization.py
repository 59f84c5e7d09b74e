"""Rows of normalizations."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import axes_from, axis, determined, first_given, first_outputs, node_of


def _trains(a: Arguments) -> bool:
    """Return whether batch normalization is in training mode."""
    if node_of(a).version < 7:
        return not a.get("is_test")
    return bool(a.get("training_mode")) or len([o for o in node_of(a).outputs if o is not None]) > 1


def _norm_axes(a: Arguments) -> Any:
    """Return the axes of the statistics."""
    return determined(lambda n: n.axes(len(n.value("X").known_shape), "axes"))(a)


ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::BatchNormalization",
        "batch_norm",
        {
            "x": "X",
            "w": "scale",
            "b": "B",
            "mean": first_given("input_mean", "mean"),
            "var": first_given("input_var", "var"),
        },
        {"training": _trains, "eps": "epsilon"},
        outputs=first_outputs(1),
    ),
    Row(
        "ai.onnx::LayerNormalization",
        "layer_norm",
        {"x": "X", "w": "Scale", "b": "B"},
        {"axis": axes_from("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::RMSNormalization",
        "rms_norm",
        {"x": "X", "w": "scale"},
        {"axis": axes_from("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::GroupNormalization",
        "group_norm",
        {"x": "X", "w": "scale", "b": "bias"},
        {"groups": "num_groups", "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::InstanceNormalization",
        "instance_norm",
        {"x": "input", "w": "scale", "b": "B"},
        {"eps": "epsilon"},
    ),
    Row("ai.onnx::MeanVarianceNormalization", "mean_variance_norm", {"x": "X"}, {"axis": _norm_axes}),
    Row("ai.onnx::LRN", "local_response_norm", {"x": "X"}, {"size": "size"}),
    Row(
        "ai.onnx::LpNormalization",
        lambda a: "l1_normalize" if a.get("p") == 1 else "l2_normalize",
        {"x": "input"},
        {"axis": lambda a: (axis("input")(a),)},
        ops=("l1_normalize", "l2_normalize"),
    ),
)
