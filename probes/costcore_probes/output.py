"""What tools print."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

__all__ = ["quoted"]


@contextmanager
def quoted(pattern: str) -> Iterator[list[str]]:
    """Yield a list that has, after the block, what the group of ``pattern`` matched in the printed text, each once."""
    found: list[str] = []
    with redirect_stdout(io.StringIO()) as printed:
        yield found
    found.extend(dict.fromkeys(re.findall(pattern, printed.getvalue())))
