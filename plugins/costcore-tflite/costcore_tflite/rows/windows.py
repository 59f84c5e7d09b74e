"""Rows of convolutions, pooling and other operators on images, whose channels are their last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tflite

from costcore.graphs.graph import X, operand
from costcore.ir import is_symbolic
from costcore.translate import Arguments, Row, Source

from .arguments import (
    JOINED,
    activation,
    has_activation,
    image,
    images,
    is_hybrid,
    is_quantized,
    numbers,
    quantization,
    row,
)

WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "CONV_2D": (0, 3, 1, 2),
    "DEPTHWISE_CONV_2D": (3, 0, 1, 2),
    "TRANSPOSE_CONV": (3, 0, 1, 2),
    "CONV_3D": (4, 3, 0, 1, 2),
    "CONV_3D_TRANSPOSE": (4, 3, 0, 1, 2),
}
"""The axes of weights in the order of the formulas: ``[O, I, k…]``, of transposed convolutions ``[I, O, k…]``."""


def _spatial(a: Arguments, name: str, rank: int) -> tuple[int, ...]:
    """Return an option that has one number per axis: ``StrideH``, ``StrideW``; at least 1."""
    ends = ("D", "H", "W")[3 - rank :]
    return tuple(max(a.get(f"{name}{end}", 1), 1) for end in ends)


def _padding(kernel: Callable[[Arguments], tuple[Any, ...]], name: str, is_transposed: bool = False) -> Source:
    """Return a source for the padding: SAME is what keeps ``ceil(size / stride)`` places, more at the end."""

    def read(a: Arguments) -> Any:
        if a.get("Padding", tflite.Padding.VALID) != tflite.Padding.SAME:
            return None
        sizes = kernel(a)
        x, y = a["inputs"][2 if is_transposed else 0], a["outputs"][0]
        small, large = (x, y) if is_transposed else (y, x)
        stride, dilation = _spatial(a, "Stride", len(sizes)), _dilation(a, len(sizes))
        places = zip(sizes, stride, dilation, small.shape[1:-1], large.shape[1:-1], strict=True)
        totals = [(count - 1) * step + (k - 1) * d + 1 - size for k, step, d, count, size in places]
        if any(map(is_symbolic, totals)):
            return None
        pairs = [(max(total, 0) // 2, max(total, 0) - max(total, 0) // 2) for total in totals]
        return tuple(a for a, _ in pairs) if all(a == b for a, b in pairs) else tuple(pairs)

    return read


def _dilation(a: Arguments, rank: int) -> tuple[int, ...]:
    ends = ("D", "H", "W")[3 - rank :]
    return tuple(max(a.get(f"Dilation{end}Factor", 1), 1) for end in ends)


def _convolution(native: str, formula: str, x: int, w: int, b: int) -> tuple[Row, ...]:
    """Return the rows of one kind of convolution: of real numbers, of integers, and of both."""
    order = WEIGHTS[native]
    rank, is_transposed = len(order) - 2, formula == "conv_transpose"

    def weight(a: Arguments) -> Any:
        return a["inputs"][w].permuted(*order)

    def kernel(a: Arguments) -> tuple[Any, ...]:
        found: tuple[Any, ...] = weight(a).shape[2:]
        return found

    def groups(a: Arguments) -> Any:
        channels, inside = a["inputs"][x].shape[-1], weight(a).shape[0 if is_transposed else 1]
        return channels // inside if inside else 1

    attrs: dict[str, Source] = {
        "kernel": kernel,
        "stride": lambda a: _spatial(a, "Stride", rank),
        "padding": _padding(kernel, native, is_transposed),
        "dilation": lambda a: _dilation(a, rank),
        "groups": groups,
        "activation": activation,
    }
    inputs: dict[str, Source] = {"x": image(x), "w": weight, "b": operand(b)}
    scales = quantization({"x": x, "w": w})
    of_weight = {name: source for name, source in scales.items() if name.startswith("w_")}
    name = f"tflite::{native}"
    return (
        Row(name, f"dynamic_quantized_{formula}", {**inputs, **of_weight}, attrs, is_hybrid, images),
        Row(name, f"quantized_{formula}", {**inputs, **scales}, attrs, lambda a: is_quantized(a, x), images),
        Row(name, f"{'activated' if is_transposed else 'fused'}_{formula}", inputs, attrs, has_activation, images),
        Row(name, formula, inputs, attrs, outputs=images),
    )


def _window(a: Arguments) -> tuple[int, ...]:
    return (max(a.get("FilterHeight", 1), 1), max(a.get("FilterWidth", 1), 1))


def _pool(native: str, formula: str, **attrs: Source) -> tuple[Row, ...]:
    """Return the rows of a pooling, with an activation and without."""
    settings: dict[str, Source] = {
        "kernel": _window,
        "stride": lambda a: _spatial(a, "Stride", 2),
        "padding": _padding(_window, native),
        "activation": activation,
        **attrs,
    }
    name, x = f"tflite::{native}", {"x": image(0)}
    return (
        Row(name, f"activated_{formula}", x, settings, has_activation, images),
        Row(name, formula, x, settings, outputs=images),
    )


def _resize(native: str, mode: str) -> Row:
    return Row(
        f"tflite::{native}",
        "resize",
        {"x": image(0)},
        {
            "mode": lambda a: mode,
            "align_corners": lambda a: True if a.get("AlignCorners") else None,
            "coordinates": lambda a: None if a.get("HalfPixelCenters") or a.get("AlignCorners") else "asymmetric",
        },
        outputs=images,
    )


def _ordered(position: int, *names: str) -> Callable[[Arguments], Any]:
    """Return a source for an operand of a StableHLO convolution with its axes in the order of the formulas."""

    def read(a: Arguments) -> Any:
        value = a["inputs"][position] if position >= 0 else a["outputs"][0]
        first, second = (int(a.get(name, 0)) for name in names[:2])
        axes = [first, second, *map(int, a.get(names[2], ()))]
        return value.permuted(*axes) if sorted(axes) == list(range(value.ndim)) else value

    return read


INPUT = _ordered(0, "InputBatchDimension", "InputFeatureDimension", "InputSpatialDimensions")
KERNEL = _ordered(1, "KernelOutputFeatureDimension", "KernelInputFeatureDimension", "KernelSpatialDimensions")
OUTPUT = _ordered(-1, "OutputBatchDimension", "OutputFeatureDimension", "OutputSpatialDimensions")

FUNCTIONS = {1: "add", 2: "mul", 3: "min", 4: "max", 5: "min", 6: "max"}
"""What REDUCE_WINDOW joins elements with, by its number: sums, products, extremes, all and any."""


def _reduced_window(a: Arguments) -> Sequence[Any]:
    """Return the sizes of a window; one that is not known is the whole of x."""
    sizes = a.get("WindowDimensions") or numbers(a, 2)
    return tuple(map(int, sizes)) if sizes else a["inputs"][0].shape


ROWS: tuple[Row, ...] = (
    Row(
        "tflite::STABLEHLO_CONVOLUTION",
        "conv",
        {"x": INPUT, "w": KERNEL},
        {
            "kernel": lambda a: KERNEL(a).shape[2:],
            "stride": "WindowStrides",
            "groups": lambda a: max(int(a.get("FeatureGroupCount", 1)), 1),
        },
        outputs=lambda a, values: [OUTPUT(a)],
    ),
    Row(
        "tflite::STABLEHLO_REDUCE_WINDOW",
        "window_reduction",
        X,
        {"kernel": _reduced_window, "by": lambda a: JOINED[a["update"]]},
        when=lambda a: JOINED.get(a.get("update", ("?",)), "none") != "none",
    ),
    Row(
        "tflite::REDUCE_WINDOW",
        "window_reduction",
        X,
        {"kernel": _reduced_window, "by": lambda a: FUNCTIONS[a["ReduceFunction"]]},
        when=lambda a: a.get("ReduceFunction") in FUNCTIONS,
    ),
    *_convolution("CONV_2D", "conv", 0, 1, 2),
    *_convolution("DEPTHWISE_CONV_2D", "conv", 0, 1, 2),
    *_convolution("CONV_3D", "conv", 0, 1, 2),
    *_convolution("TRANSPOSE_CONV", "conv_transpose", 2, 1, 3),
    *_convolution("CONV_3D_TRANSPOSE", "conv_transpose", 2, 1, 3),
    *_pool("AVERAGE_POOL_2D", "avg_pool"),
    *_pool("MAX_POOL_2D", "max_pool"),
    *_pool("L2_POOL_2D", "lp_pool", p=lambda a: 2),
    _resize("RESIZE_BILINEAR", "linear"),
    _resize("RESIZE_NEAREST_NEIGHBOR", "nearest"),
    Row(
        "tflite::LOCAL_RESPONSE_NORMALIZATION",
        "local_response_norm",
        {"x": image(0)},
        {"size": lambda a: 2 * a.get("Radius", 0) + 1},
        outputs=images,
    ),
    row("DEPTH_TO_SPACE", "depth_to_space", {"x": operand(0)}, block="BlockSize"),
    row("SPACE_TO_DEPTH", "space_to_depth", {"x": operand(0)}, block="BlockSize"),
)
