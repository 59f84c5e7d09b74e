"""A tensor that a file of weights stores, from the header of the file."""

from __future__ import annotations

from math import prod
from typing import NamedTuple


class StoredTensor(NamedTuple):
    """A tensor of a file.

    Attributes:
        name: its name in the file.
        shape: its sizes, as PyTorch orders them.
        format: the name of its format, ``Q4_K`` or ``bfloat16``.
        nbytes: its bytes in the file, with its scales.
        bits: bits of one number without scales.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    nbytes: int
    bits: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)
