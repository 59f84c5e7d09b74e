"""Integers in the file of weights, such as axes: all that is read of it, if it is there."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from costcore.errors import CostError
from costcore.files import is_file, open_file, unreadable

from .model import LayerInfo, integer

MOST_BYTES = 64
"""The largest constant that is read."""

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
            CostError: if the file cannot be read, or became shorter since it was opened.
        """
        offset, size = (integer(layer.data.get(name, "")) for name in ("offset", "size"))
        form = FORMATS.get(layer.data.get("element_type", ""))
        if form is None or offset is None or size is None or offset < 0 or not 0 <= size <= MOST_BYTES:
            return None
        if size % struct.calcsize(form) or offset + size > self.nbytes:
            return None
        with open_file(self.path) as file:
            try:
                file.seek(offset)
                content = file.read(size)
            except OSError as error:  # a pipe took its place
                raise unreadable(self.path, error) from error
        if len(content) < size:
            raise CostError(f"{self.path} became shorter while it was read")
        return tuple(each for (each,) in struct.iter_unpack(form, content))
