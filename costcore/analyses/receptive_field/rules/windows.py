"""The windows of convolutions and poolings, from the attributes of a layer."""

from __future__ import annotations

from typing import Any, NamedTuple

from costcore.analyses.receptive_field.dependence import CannotFollowError, number
from costcore.analyses.receptive_field.periodic_map import Taps
from costcore.analyses.receptive_field.site import Site
from costcore.numbers.dims import Dim


class Windows(NamedTuple):
    """Windows along the last axes. ``before`` is the padding at the start of each axis."""

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    before: tuple[Dim, ...]
    dilation: tuple[Dim, ...]

    def axis_taps(self, i: int) -> Taps:
        """Return the taps along one of these axes."""
        stride, before = number(self.stride[i], "a stride"), number(self.before[i], "padding")
        size, dilation = number(self.kernel[i], "a kernel"), number(self.dilation[i], "a dilation")
        return Taps.window(size, stride, before, dilation)

    def taps(self) -> list[Taps]:
        """Return the taps along each axis."""
        return [self.axis_taps(i) for i in range(len(self.kernel))]

    def transposed_taps(self) -> list[Taps]:
        """Return the taps along each axis of a transposed convolution."""
        return [
            Taps.transposed(
                number(self.kernel[i], "a kernel"),
                number(self.stride[i], "a stride"),
                number(self.before[i], "padding"),
                number(self.dilation[i], "a dilation"),
            )
            for i in range(len(self.kernel))
        ]


def windows_of(site: Site) -> Windows:
    """Return the windows of a layer.

    Raises:
        CannotFollowError: if an attribute is missing.
    """
    kernel: Any = site.attribute("kernel")
    rank, attrs = len(kernel), site.layer.attrs
    stride: Any = site.attribute("stride")
    padding, dilation = attrs.get("padding", (0,) * rank), attrs.get("dilation", (1,) * rank)
    if not len(stride) == len(padding) == len(dilation) == rank:
        raise CannotFollowError("attributes of different lengths")
    before = tuple(each[0] if isinstance(each, tuple) else each for each in padding)
    return Windows(tuple(kernel), tuple(stride), before, tuple(dilation))
