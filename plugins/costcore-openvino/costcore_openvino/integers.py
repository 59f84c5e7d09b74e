"""Integers in the file of weights, such as axes: all that is read of it, if it is there."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from costcore.files import is_file

from .model import LayerInfo

MOST_BYTES = 64
"""The largest constant that is read."""

MOST_DIGITS = 18
"""The most digits of a place in the file."""

FORMATS = {"i32": "<i", "i64": "<q"}


class Integers(NamedTuple):
    """The small integer constants of a model.

    Attributes:
        path: the file of weights.
        nbytes: its size; 0 if it is not there.
    """

    path: Path
    nbytes: int

    @classmethod
    def beside(cls, model: str) -> Integers:
        """Return those of an IR file, whose weights are beside it in a file of the same name with ``.bin``."""
        path = Path(model).with_suffix(".bin")
        return cls(path, path.stat().st_size if is_file(path) else 0)

    def of(self, layer: LayerInfo) -> tuple[int, ...] | None:
        """Return the elements of a constant; None if it is not small, has no integers, or is not in the file.

        Raises:
            OSError: if the file cannot be read.
        """
        numbers = [layer.data.get(name, "") for name in ("offset", "size")]
        form = FORMATS.get(layer.data.get("element_type", ""))
        if form is None or not all(each.isdecimal() and len(each) <= MOST_DIGITS for each in numbers):
            return None
        offset, size = map(int, numbers)
        if size > MOST_BYTES or size % struct.calcsize(form) or offset + size > self.nbytes:
            return None
        with self.path.open("rb") as file:
            file.seek(offset)
            return tuple(each for (each,) in struct.iter_unpack(form, file.read(size)))
