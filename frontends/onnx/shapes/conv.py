"""Shapes of convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.node import Inferred, Node, Rule
from ..values.value import Value
from .windows import kernel_of_weight, spatial_dims, transposed_windows, windows


def conv(node: Node) -> Inferred:
    """Infer a convolution, also of integers."""
    x, w = node.value("X", "x"), node.value("W", "w")
    _check_weight(node, x, w, transposed=False)
    found = windows(node, spatial_dims(node, x.known_shape), kernel_of_weight(node, w.known_shape))
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "ConvInteger" else x.dtype
    return Inferred([node.result((x.known_shape[0], w.known_shape[0], *found.out), dtype)], found)


def conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution, whose weight is ``[Cin, Cout/G, ...]``."""
    x, w = node.value("X"), node.value("W")
    _check_weight(node, x, w, transposed=True)
    found = transposed_windows(node, spatial_dims(node, x.known_shape), kernel_of_weight(node, w.known_shape))
    return Inferred(
        [node.result((x.known_shape[0], w.known_shape[1] * node.args.get("group", 1), *found.out), x.dtype)], found
    )


def _check_weight(node: Node, x: Value, w: Value, transposed: bool) -> None:
    """Check the weight against the input's rank, channels and groups.

    Raises:
        CostError: if they do not fit.
    """
    groups, channels = node.args.get("group", 1), x.known_shape[1] if len(x.known_shape) > 1 else None
    if groups < 1:
        raise node.error(f"has group {groups} (expected 1 or more)")
    if len(w.known_shape) != len(x.known_shape) or len(x.known_shape) < 3:
        raise node.error(
            f"needs weights of the same rank as its input (got the shapes {x.known_shape} and {w.known_shape})"
        )
    taken = w.known_shape[0] if transposed else w.known_shape[1] * groups
    if isinstance(channels, int) and isinstance(taken, int) and channels != taken:
        raise node.error(f"has {channels} input channels, but weights {w.known_shape} in {groups} groups for {taken}")
    for channels in (x.known_shape[1], *(() if transposed else (w.known_shape[0],))):
        if isinstance(channels, int) and channels % groups:
            raise node.error(f"has {groups} groups, which do not divide {channels} channels")


RULES: Mapping[str, Rule] = {
    "ai.onnx::Conv": conv,
    "ai.onnx::ConvTranspose": conv_transpose,
    "ai.onnx::DeformConv": conv,
}
"""Rules by full operator name."""
