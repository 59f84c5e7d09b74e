"""What rows read of an operator: its operands in the order of the formulas, its options and small constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tflite

from costcore.graphs import GraphValue
from costcore.graphs.graph import given
from costcore.translate import Arguments, Row, Source

ACTIVATIONS: Mapping[int, str] = {
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "hard_tanh",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.TANH: "tanh",
    tflite.ActivationFunctionType.SIGN_BIT: "signbit",
}
"""Canonical names of the activations that operators apply to their result."""

LIMITS = ("relu", "relu6", "hard_tanh")
"""Activations that a quantized operator applies with the limits that its result has anyway, at no further cost."""

TO_CHANNELS_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


JOINED: Mapping[tuple[str, ...], str] = {
    (): "none",
    **dict.fromkeys((("ADD",), ("STABLEHLO_ADD",)), "add"),
    **dict.fromkeys((("MUL",), ("STABLEHLO_MULTIPLY",)), "mul"),
    **dict.fromkeys((("MAXIMUM",), ("STABLEHLO_MAXIMUM",)), "max"),
    **dict.fromkeys((("MINIMUM",), ("STABLEHLO_MINIMUM",)), "min"),
}
"""What joins an element and its update, by the operators of the graph that does; none replaces the element."""


def numbers(a: Arguments, position: int) -> tuple[int, ...] | None:
    """Return the elements of a small constant operand; None if they are not known."""
    value = given(a, position)
    return None if value is None else value.data


def channels_first(value: GraphValue) -> GraphValue:
    """Return images ``[N, H, W, C]`` as formulas name their axes, ``[N, C, H, W]``; other values as they are."""
    axes = TO_CHANNELS_FIRST.get(value.ndim)
    return value.permuted(*axes) if axes else value


def image(position: int) -> Source:
    """Return a source for images by their position among the operands."""
    return lambda a: channels_first(a["inputs"][position])


def images(a: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the results with their axes as formulas name them."""
    return [channels_first(value) for value in outputs]


def axis_of(a: Arguments, axis: int, position: int = 0) -> int:
    """Return an axis of an operand, counted from the front."""
    rank: int = given(a, position).ndim
    return axis % max(rank, 1)


def axes_of(a: Arguments, position: int) -> tuple[int, ...] | None:
    """Return the axes that a constant operand lists; None if they are not known."""
    found = numbers(a, position)
    return None if found is None else tuple(sorted({axis_of(a, axis) for axis in found}))


def is_quantized(a: Arguments, position: int = 0) -> bool:
    """Return whether an operand holds integers that stand for real numbers."""
    value = given(a, position)
    return value is not None and getattr(value, "scale", None) is not None and value.dtype.startswith(("int", "uint"))


def is_hybrid(a: Arguments) -> bool:
    """Return whether real numbers meet quantized weights, as after dynamic-range quantization."""
    return is_quantized(a, 1) and not is_quantized(a)


def quantization(operands: Mapping[str, int]) -> dict[str, Source]:
    """Return sources for scales and zero points of operands by position, and of the result ``y``."""

    def read(position: int, attribute: str) -> Source:
        def source(a: Arguments) -> Any:
            value = a["outputs"][0] if position < 0 else given(a, position)
            return getattr(value, attribute, None)

        return source

    return {
        f"{name}_{attribute}": read(position, attribute)
        for name, position in {**operands, "y": -1}.items()
        for attribute in ("scale", "zero_point")
    }


def activation(a: Arguments) -> str | None:
    """Return the activation that an operator applies to its result; None for none, or if it costs nothing more."""
    found = ACTIVATIONS.get(a.get("FusedActivationFunction", 0))
    return None if found in LIMITS and is_quantized(a) else found


def has_activation(a: Arguments) -> bool:
    """Return whether an operator applies an activation that costs something."""
    return activation(a) is not None


def row(native: str, op: str | Callable[[Arguments], str], inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """Return the row of a builtin operator."""
    return Row(f"tflite::{native}", op, inputs, attrs)


def constant(value: Any) -> Source:
    """Return a source for a fixed attribute."""
    return lambda a: value
