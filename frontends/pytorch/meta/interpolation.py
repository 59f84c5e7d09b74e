"""Interpolation of images on the meta device: the shapes, dtypes and strides that PyTorch's own kernels give.

Each function returns None unless its operands plainly fit, so that PyTorch decides about everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from .plain_layouts import FLOATS, empty, is_contiguous

_WAYS = ("nearest2d", "bilinear2d", "bicubic2d")


def upsample(x: Tensor, output_size: Sequence[int], *_: Any, **__: Any) -> Tensor | None:
    """Return the empty image of another size."""
    is_plain = x.dim() == 4 and x.dtype in FLOATS and is_contiguous(x) and len(output_size) == 2
    return empty((*x.shape[:2], *output_size), x.dtype) if is_plain and min(output_size) > 0 else None


def upsample_backward(
    gradient: Tensor, output_size: Sequence[int], input_size: Sequence[int], *_: Any, **__: Any
) -> Tensor | None:
    """Return the empty gradient of the image."""
    if gradient.dtype not in FLOATS or not is_contiguous(gradient) or len(input_size) != 4 or min(input_size) < 1:
        return None
    is_plain = tuple(gradient.shape) == (*input_size[:2], *output_size)
    return empty(input_size, gradient.dtype) if is_plain else None


INTERPOLATION: Mapping[str, Callable[..., Any]] = {
    **{f"aten::upsample_{way}": upsample for way in _WAYS},
    **{f"aten::upsample_{way}_backward": upsample_backward for way in _WAYS},
}
"""Functions by the operator with its overload."""
