"""Rows of normalization layers and their gradients."""

from __future__ import annotations

from costcore.translate import Row

from .arguments import X, array_attribute, attribute, axes, constant, input_at, operands, output_gradient, row

XWB = operands("x", "w", "b")
EPS = attribute("eps")
GROUPS = attribute("groups")
INVERSE_STD = array_attribute("inv_std")
ALL_GRADIENTS = constant(("x", "w", "b"))

ROWS: tuple[Row, ...] = (
    row(
        "BatchNormalization",
        "batch_norm",
        {**XWB, "mean": array_attribute("running_mean"), "var": array_attribute("running_var")},
        training=constant(True),
        eps=EPS,
    ),
    row(
        "FixedBatchNormalization",
        "batch_norm",
        operands("x", "w", "b", "mean", "var"),
        training=constant(False),
        eps=EPS,
    ),
    row(
        "BatchRenormalizationFunction",
        "batch_renorm",
        {**XWB, "mean": array_attribute("_running_mean"), "var": array_attribute("_running_var")},
        eps=EPS,
    ),
    row(
        "DecorrelatedBatchNormalization",
        "decorrelated_batch_norm",
        {**X, "mean": array_attribute("running_mean"), "projection": array_attribute("running_projection")},
        groups=GROUPS,
    ),
    row(
        "FixedDecorrelatedBatchNormalization",
        "fixed_decorrelated_batch_norm",
        operands("x", "mean", "projection"),
        groups=GROUPS,
    ),
    row("GroupNormalization", "group_norm", XWB, groups=GROUPS, eps=EPS),
    row("LayerNormalization", "layer_norm", XWB, axis=constant((1,)), eps=EPS),
    row("LocalResponseNormalization", "local_response_norm", X, size=attribute("n")),
    row("NormalizeL2", "l2_normalize", X, axis=axes, eps=EPS),
    # gradients
    row(
        "BatchNormalizationGrad",
        "batch_norm_backward",
        operands("x", "w", "dy"),
        training=constant(True),
        needs=ALL_GRADIENTS,
    ),
    row(
        "FixedBatchNormalizationGrad",
        "batch_norm_backward",
        operands("x", "w", "mean", "var", "dy"),
        training=constant(False),
        needs=ALL_GRADIENTS,
    ),
    row(
        "BatchRenormalizationFunctionBackward",
        "batch_renorm_backward",
        {"dy": output_gradient(0), "x": input_at(0), "w": input_at(1)},
    ),
    row(
        "DecorrelatedBatchNormalizationGrad",
        "decorrelated_batch_norm_backward",
        {
            "dy": input_at(0),
            "values": array_attribute("eigvals"),
            "vectors": array_attribute("eigvectors"),
            "y": array_attribute("y_hat_pca"),
        },
        groups=GROUPS,
    ),
    row(
        "FixedDecorrelatedBatchNormalizationGrad",
        "fixed_decorrelated_batch_norm_backward",
        {"dy": input_at(3), "x": input_at(0), "mean": input_at(1), "projection": input_at(2)},
        groups=GROUPS,
    ),
    row(
        "LocalResponseNormalizationGrad",
        "local_response_norm_backward",
        {
            "dy": input_at(2),
            "x": input_at(0),
            "y": input_at(1),
            "u": array_attribute("unit_scale"),
            "scale": array_attribute("scale"),
        },
        size=attribute("n"),
    ),
    # the functions that layer normalization consists of
    row(
        "_XHat",
        "normalize_rows",
        {"x": input_at(0), "mean": array_attribute("mean"), "scale": INVERSE_STD},
    ),
    row("_ScaleShiftGrad", "scale_shift_backward", {"dy": input_at(2), "x": input_at(0), "w": input_at(1)}),
    # reads the normalized x, which has the size of x and which the function itself holds and then releases
    row(
        "_XHatGrad",
        "normalize_rows_backward",
        {"dy": input_at(1), "y": input_at(0), "scale": INVERSE_STD},
    ),
)
