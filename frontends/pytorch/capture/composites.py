"""Composite operators that stay whole.

PyTorch takes a composite operator (``linear``, ``layer_norm``, ``lstm`` …) apart before a dispatch mode can see it, and
into pieces that depend on shapes, layout, device and grad mode. At the dispatch key ``PreDispatch``, which comes before
all others and which nothing uses in an ordinary run, it is still whole: a kernel of ours sees it there, and passes it
on.
The kernels run only in threads whose local state includes that key, that is, while they capture. They are registered at
the first capture, which takes a millisecond, and stay: everybody else passes them by, also tracing and export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..operators.composite_ops import COMPOSITES, overload

PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
AFTER = torch._C._dispatch_keyset_full_after(PRE_DISPATCH)
"""The keys that come after it; a frame passes its operator on to those."""
_MODES = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
HIDDEN = torch._C.DispatchKeySet(PRE_DISPATCH).add(_MODES[0]).add(_MODES[1])
"""The keys at which anything is seen; without them an operator runs as if nothing was captured."""
UNSEEN = AFTER - HIDDEN


def register(running: Callable[[], Any]) -> None:
    """Register a kernel for every frame, for the rest of the process.

    It tells the capture of the thread, ``running()``. Where the key is not in the state of the thread, nothing does.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in sorted(COMPOSITES):
        operator = overload(name)
        if operator is not None:
            library.impl(name, _kernel(operator, running), "PreDispatch", with_keyset=True)
    _libraries.append(library)


_libraries: list[torch.library.Library] = []
"""Kept, as kernels go with the library that brought them."""


def _kernel(operator: torch._ops.OpOverload, running: Callable[[], Any]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        session = running()
        if session is None:
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        return session.frame(operator, keyset, args, kwargs)

    return kernel


_AUTOCAST_KEYS = tuple(
    (name, getattr(torch._C.DispatchKey, name))
    for name in ("AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS")
    if hasattr(torch._C.DispatchKey, name)
)


def casts_first(operator: torch._ops.OpOverload, keyset: Any) -> bool:
    """Whether autocast is about to cast the inputs of a frame, and to call it again."""
    return any(
        keyset.has(key) and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), name)
        for name, key in _AUTOCAST_KEYS
    )
