"""The input sizes at which networks are usually counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costcore.ir import Tensor

IMAGES = (224, 256, 288, 299, 320, 384, 448, 512, 640)
"""Sides of images that papers and model zoos use."""

SEQUENCES = (128, 256, 512, 1024, 2048)
"""Lengths of token sequences."""


def other_sizes(text: str, inputs: Any) -> Iterator[str]:
    """Yield the text of ``--input`` with other usual sizes: square images, or other lengths of a sequence.

    Args:
        text: the text, ``1x3x224x224`` or ``ids=1x128:int64``.
        inputs: the parsed inputs.
    """
    tensor = _only(inputs)
    if tensor is None or not all(isinstance(size, int) for size in tensor.shape):
        return
    shape = tensor.shape
    if len(shape) == 4 and shape[2] == shape[3]:
        others: list[tuple[Any, ...]] = [(*shape[:2], side, side) for side in IMAGES if side != shape[2]]
    elif len(shape) == 2 and tensor.dtype.startswith("int"):
        others = [(shape[0], length) for length in SEQUENCES if length != shape[1]]
    else:
        return
    written = "x".join(map(str, shape))
    yield from (text.replace(written, "x".join(map(str, other)), 1) for other in others)


def _only(inputs: Any) -> Tensor | None:
    """Return the only input as shape and dtype; None if there are several, or if it has values."""
    if isinstance(inputs, dict) and len(inputs) == 1:
        return _only(next(iter(inputs.values())))
    if isinstance(inputs, list) and len(inputs) == 1:
        return _only(inputs[0])
    if isinstance(inputs, Tensor):
        return inputs
    if isinstance(inputs, tuple) and inputs and all(isinstance(size, int) for size in inputs):
        return Tensor(inputs)
    return None
