"""Run a kernel of PyTorch, without what its imports leave behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def run_kernel(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a kernel; if it was the first one to import something, collect garbage.

    Kernels in Python import the compiler when the first of them is called. Cycles of that import hold the frames above
    it, and thereby their tensors. Memory would stay alive, and a gradient would be copied, as something else holds it.
    """
    before = len(sys.modules)
    result = run(*args, **kwargs)
    if len(sys.modules) != before:
        gc.collect()
    return result
