"""Windows of convolutions and poolings: kernel, stride, dilation and padding, with ``auto_pad`` resolved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costcore.numbers.dims import Dim, ceil_div, floor_div, maximum, minimum

from ..graph.node import Node


class Windows(NamedTuple):
    """Attributes of windows along the spatial axes, and the sizes of the output."""

    kernel: tuple[Dim, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    out: tuple[Dim, ...]

    @property
    def padding(self) -> tuple[Dim, ...] | tuple[tuple[Dim, Dim], ...]:
        """One number for each axis if both ends are padded equally, else a pair for each axis."""
        return self.before if self.before == self.after else tuple(zip(self.before, self.after, strict=True))


def window_attributes(
    node: Node, kernel: Sequence[Dim], rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return strides, dilations and pads (all at the start, then all at the end).

    Raises:
        CostError: if an attribute has too few or too many numbers, or too small a number.
    """

    def read(name: str, count: int, default: int, least: int | None) -> tuple[int, ...]:
        given: tuple[int, ...] = tuple(node.args.get(name) or ()) or (default,) * count
        if len(given) != count:
            raise node.error(f"has {len(given)} {name} for {rank} spatial dimensions")
        if least is not None and min(given) < least:
            raise node.error(f"has {name} {given} (expected {least} or more)")
        return given

    if len(kernel) != rank or any(isinstance(k, int) and k < 1 for k in kernel):
        raise node.error(f"has the kernel {tuple(kernel)} for {rank} spatial dimensions")
    automatic = node.args.get("auto_pad", "NOTSET") not in ("NOTSET", "")
    pads = (0,) * (2 * rank) if automatic else read("pads", 2 * rank, 0, None)
    return read("strides", rank, 1, 1), read("dilations", rank, 1, 1), pads


def windows(node: Node, space: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """Return the windows of a convolution or pooling over ``space``.

    Raises:
        CostError: if a window is larger than the padded input, or an attribute is invalid.
    """
    rank = len(space)
    stride, dilation, pads = window_attributes(node, kernel, rank)
    before, after, out = list[Dim](pads[:rank]), list[Dim](pads[rank:]), list[Dim]()
    mode = node.args.get("auto_pad", "NOTSET")
    for i, (length, k, s, d) in enumerate(zip(space, kernel, stride, dilation, strict=True)):
        reach = d * (k - 1) + 1
        if mode.startswith("SAME"):
            out.append(ceil_div(length, s))
            total = maximum((out[i] - 1) * s + reach - length, 0)
            before[i] = total // 2 if mode == "SAME_UPPER" else total - total // 2
            after[i] = total - before[i]
            continue
        if node.args.get("ceil_mode"):  # no window starts beyond the input
            count = ceil_div(length + before[i] + minimum(after[i] + s - reach, 0), s)
        else:
            count = floor_div(length + before[i] + after[i] - reach, s) + 1
        if isinstance(count, int) and count < 1 and length != 0:
            raise node.error(f"has the kernel {tuple(kernel)}, larger than its padded input of shape {tuple(space)}")
        out.append(maximum(count, 0) if isinstance(count, int) else count)
    return Windows(tuple(kernel), stride, dilation, tuple(before), tuple(after), tuple(out))


def transposed_windows(node: Node, space: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """Return the windows of a transposed convolution, which lie on its output.

    Raises:
        CostError: if an attribute is invalid.
    """
    rank = len(space)
    stride, dilation, pads = window_attributes(node, kernel, rank)
    extra = tuple(node.args.get("output_padding") or ()) or (0,) * rank
    wanted = tuple(node.args.get("output_shape") or ())[-rank:]
    mode = node.args.get("auto_pad", "NOTSET")
    before, after, out = list[Dim](pads[:rank]), list[Dim](pads[rank:]), list[Dim]()
    for i, (length, k, s, d) in enumerate(zip(space, kernel, stride, dilation, strict=True)):
        full = s * (length - 1) + extra[i] + d * (k - 1) + 1
        if wanted or mode.startswith("SAME"):
            out.append(wanted[i] if wanted else length * s)
            total = maximum(full - out[i], 0)
            after[i] = total // 2 if mode != "SAME_UPPER" else total - total // 2
            before[i] = total - after[i]
        else:
            out.append(full - before[i] - after[i])
        if isinstance(out[i], int) and out[i] < 1 and length != 0:
            raise node.error(f"has an output of size {out[i]} along spatial axis {i}")
    return Windows(tuple(kernel), stride, dilation, tuple(before), tuple(after), tuple(out))


def kernel_of(node: Node) -> tuple[Dim, ...]:
    """Return the kernel of a pooling.

    Raises:
        CostError: if it is missing.
    """
    kernel = node.args.get("kernel_shape")
    if not kernel:
        raise node.error("lacks the attribute 'kernel_shape'")
    return tuple(kernel)


def kernel_of_weight(node: Node, weight: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the kernel of a convolution with a weight of this shape.

    Raises:
        CostError: if the attribute is different.
    """
    kernel, declared = tuple(weight[2:]), tuple(node.args.get("kernel_shape") or ())
    if declared and declared != kernel and all(isinstance(k, int) for k in kernel):
        raise node.error(f"has the kernel_shape {declared}, but a weight of shape {tuple(weight)}")
    return declared or kernel


def spatial_dims(node: Node, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the spatial dimensions of ``[N, C, ...]``.

    Raises:
        CostError: if there are none.
    """
    if len(shape) < 3:
        raise node.error(f"needs an input of 3 or more dimensions (got the shape {tuple(shape)})")
    return tuple(shape[2:])
