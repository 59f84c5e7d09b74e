"""Rows of layers: connections, normalisation, pooling."""

from __future__ import annotations

from costcore.translate import Row

from .rows.arguments import X, array, at, axes, constant, kernel_of, named, row, setting, settings

XWB = named("x", "w", "b")
SPATIAL_2D = {
    "kernel": kernel_of(1),
    "stride": settings("sy", "sx"),
    "padding": settings("ph", "pw"),
    "dilation": settings("dy", "dx"),
    "groups": setting("groups"),
}
SPATIAL_ND = {
    "kernel": kernel_of(1),
    "stride": setting("stride"),
    "padding": setting("pad"),
    "dilation": setting("dilate"),
    "groups": setting("groups"),
}
WINDOW_2D = {"kernel": settings("kh", "kw"), "stride": settings("sy", "sx"), "padding": settings("ph", "pw")}
WINDOW_ND = {"kernel": setting("ksize"), "stride": setting("stride"), "padding": setting("pad")}
EPS = setting("eps")
GROUPS = setting("groups")
CEIL = setting("cover_all")

ROWS: tuple[Row, ...] = (
    row("Convolution2DFunction", "conv", XWB, **SPATIAL_2D),
    row("ConvolutionND", "conv", XWB, **SPATIAL_ND),
    row("Deconvolution2DFunction", "conv_transpose", XWB, **SPATIAL_2D),
    row("DeconvolutionND", "conv_transpose", XWB, **SPATIAL_ND),
    row(
        "LocalConvolution2DFunction",
        "local_conv",
        XWB,
        kernel=lambda args: tuple(args["inputs"][1].shape[-2:]),
        stride=settings("sy", "sx"),
    ),
    row("LinearFunction", "linear", XWB),
    row("EmbedIDFunction", "embedding", named("x", "w")),
    row("Shift", "shift", X, kernel=settings("kh", "kw"), dilation=settings("dy", "dx")),
    # normalisation
    row(
        "BatchNormalization",
        "batch_norm",
        {**XWB, "mean": array("running_mean"), "var": array("running_var")},
        training=constant(True),
        eps=EPS,
    ),
    row(
        "FixedBatchNormalization", "batch_norm", named("x", "w", "b", "mean", "var"), training=constant(False), eps=EPS
    ),
    row("GroupNormalization", "group_norm", XWB, groups=GROUPS, eps=EPS),
    row("LayerNormalization", "layer_norm", XWB, axis=constant((1,)), eps=EPS),
    row("LocalResponseNormalization", "local_response_norm", X, size=setting("n")),
    row("NormalizeL2", "l2_normalize", X, axis=axes, eps=EPS),
    # pooling
    row("MaxPoolingND", "max_pool", X, **WINDOW_ND, ceil_mode=CEIL),
    row("AveragePooling2D", "avg_pool", X, **WINDOW_2D),
    row("AveragePoolingND", "avg_pool", X, **WINDOW_ND),
    row("Unpooling2D", "unpool", X, **WINDOW_2D),
    row("UnpoolingND", "unpool", X, **WINDOW_ND),
    row("Upsampling2D", "upsample", {"x": at(0), "indices": array("indexes")}, **WINDOW_2D),
    # in groups, or by other statistics
    row(
        "BatchRenormalizationFunction",
        "batch_renorm",
        {**XWB, "mean": array("_running_mean"), "var": array("_running_var")},
        eps=EPS,
    ),
    row(
        "DecorrelatedBatchNormalization",
        "decorrelated_batch_norm",
        {**X, "mean": array("running_mean"), "projection": array("running_projection")},
        groups=GROUPS,
    ),
    row(
        "FixedDecorrelatedBatchNormalization",
        "fixed_decorrelated_batch_norm",
        named("x", "mean", "projection"),
        groups=GROUPS,
    ),
)
