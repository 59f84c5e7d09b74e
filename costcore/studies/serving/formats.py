"""Formats in which weights and caches are stored: bits of a number, and of the scales beside it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from costcore.ir import BITS
from costcore.messages import unknown


class Format(NamedTuple):
    """A format of stored numbers.

    Attributes:
        name: its name.
        bits: bits of one number.
        scale_bits: bits of the scale that a group of numbers shares, with its zero point if it has one.
        group: numbers of a group; 0 without scales, or if whole rows or tensors share one, which is not counted.
    """

    name: str
    bits: int
    scale_bits: int = 0
    group: int = 0

    @property
    def bits_with_scales(self) -> Fraction:
        """Bits of one number and of its part of a scale."""
        return self.bits + (Fraction(self.scale_bits, self.group) if self.group else Fraction(0))


_NAMED = (
    Format("int8", 8),
    Format("fp8", 8),
    Format("int4", 4, 16, 128),  # GPTQ and AWQ: a float16 scale for 128 weights
    Format("int3", 3, 16, 128),
    Format("int2", 2, 16, 128),
    Format("nf4", 4, 32, 64),  # Dettmers et al., QLoRA, arXiv:2305.14314: a float32 scale for 64 weights
    Format("mxfp4", 4, 8, 32),  # OCP Microscaling Formats 1.0: a scale of 8 bits for 32 numbers
    Format("mxfp6", 6, 8, 32),
    Format("mxfp8", 8, 8, 32),
    Format("nvfp4", 4, 8, 16),  # NVIDIA: an FP8 scale for 16 numbers
    Format("q4_0", 4, 16, 32),  # llama.cpp: a float16 scale for 32 weights
    Format("q5_0", 5, 16, 32),
    Format("q8_0", 8, 16, 32),
    Format("fp16", 16),
    Format("bf16", 16),
    Format("fp32", 32),
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _NAMED}
"""The formats that have a name; every other dtype is a format without scales."""

DTYPES: Mapping[str, str] = {
    "fp8": "float8_e4m3fn",
    "mxfp8": "float8_e4m3fn",
    "mxfp4": "float4_e2m1",
    "nvfp4": "float4_e2m1",
    "mxfp6": "float6_e2m3",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
}
"""The dtype of formats that have another name than their dtype."""


def format_of(name: object, place: str) -> Format:
    """Return a format by its name; ``int4:32`` has one scale for 32 numbers.

    Args:
        name: a key of :data:`FORMATS` or a dtype, optionally with a size of groups.
        place: the argument, for messages.

    Raises:
        TypeError: if it is not a text.
        ValueError: for an unknown name, or an invalid size of groups.
    """
    if not isinstance(name, str):
        raise TypeError(f"{place} must be the name of a format such as 'int4' (got {name!r})")
    base, _, group = name.partition(":")
    found = FORMATS.get(base) or (Format(base, BITS[base]) if BITS.get(base) else None)
    if found is None:
        raise ValueError(f"{place}: {unknown('format', base, [*FORMATS, *BITS])}")
    if not group:
        return found
    if not group.isdecimal() or not int(group):
        raise ValueError(f"{place}: {name!r} needs a size of groups such as int4:32")
    return found._replace(name=name, scale_bits=found.scale_bits or 16, group=int(group))


def dtype_of(name: object, place: str) -> str:
    """Return the dtype of a format, in which products are computed.

    Raises:
        TypeError, ValueError: as :func:`format_of`.
    """
    base = format_of(name, place).name.partition(":")[0]
    return DTYPES.get(base, base)
