"""The printed output of tools."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

__all__ = ["quoted"]


@contextmanager
def quoted(pattern: str) -> Iterator[list[str]]:
    """Yield a list. After the block, it has the distinct matches of the group of ``pattern`` in the printed text."""
    found: list[str] = []
    with redirect_stdout(io.StringIO()) as printed:
        yield found
    found.extend(dict.fromkeys(re.findall(pattern, printed.getvalue())))
