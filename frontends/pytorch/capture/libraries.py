"""Kernels for operators of PyTorch, registered for the rest of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.library import Library

_libraries: list[Library] = []
"""Kept alive: PyTorch unregisters the kernels of a library that is deleted."""


@contextmanager
def kernels_of_aten() -> Iterator[Library]:
    """Return a library for kernels of ``aten``: all stay registered, or none if the code inside fails."""
    library = Library("aten", "IMPL")
    try:
        yield library
    except BaseException:
        library._destroy()
        raise
    _libraries.append(library)


def fallback_of_all(kernel: Callable[..., Any], key: str) -> bool:
    """Register the kernel of every operator at a dispatch key; return whether this PyTorch can."""
    library = Library("_", "IMPL")
    if not hasattr(library, "fallback"):
        return False
    library.fallback(kernel, key, with_keyset=True)
    _libraries.append(library)
    return True
