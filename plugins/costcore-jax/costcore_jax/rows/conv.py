"""Rows of convolutions with any layout of their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costcore.numbers import minimum
from costcore.translate import Arguments, Row

from ..capture.dims import dim_of
from ..capture.values import Value


def _ordered(index: int, spec: str) -> Callable[[Arguments], Value]:
    """Return a source for an operand with the axes in the order of the formulas: batch or outputs, channels, space."""

    def read(a: Arguments) -> Value:
        value: Value = a["inputs"][index]
        return value.viewed(*(value.shape[axis] for axis in getattr(a["dimension_numbers"], spec)))

    return read


def is_transposed(a: Arguments) -> bool:
    """Return whether zeros are inserted between the elements of the input, as a transposed convolution does."""
    return any(step != 1 for step in a["lhs_dilation"])


def is_gradient(a: Arguments) -> bool:
    """Return whether it is the gradient of the input of a convolution with stride 1: its kernel is reversed.

    It is the transposed convolution: every element of dy is multiplied by every tap. The padding, up to k - 1 on each
    side, is only how JAX writes that.
    """
    return bool(a["inputs"][1].is_reversed and all(step == 1 for step in a["window_strides"]))


def kernel_fits(a: Arguments) -> bool:
    """Return whether the kernel is no larger than the output, as in a transposed convolution."""
    y, kernel = _output(a).shape[2:], _kernel(a)
    return all(minimum(k, size) == k for k, size in zip(kernel, y, strict=True))


def _output(a: Arguments) -> Value:
    """Return the output with the axes in the order of the formulas."""
    value: Value = a["outputs"][0]
    return value.viewed(*(value.shape[axis] for axis in a["dimension_numbers"].out_spec))


def _swapped(a: Arguments) -> Value:
    """Return the kernel of a transposed convolution as ``[C_in, C_out/G, …]``; JAX stores ``[C_out, C_in/G, …]``."""
    kernel, groups = _ordered(1, "rhs_spec")(a), a["feature_group_count"]
    outputs, inputs, *space = kernel.shape
    return kernel.viewed(inputs * groups, outputs // groups, *space)


def _kernel(a: Arguments) -> Any:
    return tuple(_ordered(1, "rhs_spec")(a).shape[2:])


def _setting(name: str) -> Callable[[Arguments], Any]:
    return lambda a: tuple(int(step) for step in a[name])


def _padding(a: Arguments) -> Any:
    return tuple((dim_of(before), dim_of(after)) for before, after in a["padding"])


def _is_permuted(a: Arguments) -> bool | None:
    """Return True if the axes of the data are in another order than batch, channels, space."""
    numbers = a["dimension_numbers"]
    return True if any(tuple(spec) != tuple(sorted(spec)) for spec in (numbers.lhs_spec, numbers.out_spec)) else None


SETTINGS = {
    "kernel": _kernel,
    "permuted": _is_permuted,
    "padding": _padding,
    "dilation": _setting("rhs_dilation"),
    "groups": lambda a: a["feature_group_count"],
}

ROWS: tuple[Row, ...] = (
    Row(
        "jax::conv_general_dilated",
        "conv_transpose",
        {"x": _ordered(0, "lhs_spec"), "w": _swapped},
        {**SETTINGS, "stride": _setting("lhs_dilation")},
        when=lambda a: a["batch_group_count"] == 1 and (kernel_fits(a) if is_transposed(a) else is_gradient(a)),
    ),
    Row(
        "jax::conv_general_dilated",
        "input_dilated_conv",
        {"x": _ordered(0, "lhs_spec"), "w": _ordered(1, "rhs_spec")},
        {
            **SETTINGS,
            "groups": lambda a: a["feature_group_count"] * a["batch_group_count"],
            "reached": lambda a: tuple(map(minimum, _kernel(a), _output(a).shape[2:])),
        },
        when=is_transposed,
    ),
    Row(
        "jax::conv_general_dilated",
        "conv",
        {"x": _ordered(0, "lhs_spec"), "w": _ordered(1, "rhs_spec")},
        {**SETTINGS, "stride": _setting("window_strides")},
    ),
)
