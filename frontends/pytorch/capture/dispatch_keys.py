"""The dispatch keys at which operators are captured."""

from __future__ import annotations

import torch

PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
"""The first key of all; PyTorch itself uses it for tracing only. Composite operators are still whole there."""

AFTER = torch._C._dispatch_keyset_full_after(PRE_DISPATCH)
"""The keys after :data:`PRE_DISPATCH`: a kernel at that key passes its operator on to those."""

_MODES = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
CAPTURED = torch._C.DispatchKeySet(PRE_DISPATCH).add(_MODES[0]).add(_MODES[1])
"""The keys at which a capture sees operators; without them an operator runs as if nothing was captured."""

AFTER_CAPTURE = AFTER - CAPTURED

_LAZY = (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative, torch._C.DispatchKey.ZeroTensor)
_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_set_excluded = torch._C._dispatch_tls_set_dispatch_key_excluded


class LazyValues:
    """A context in which operators see the values of conjugated, negated and zero views.

    Such a view shares the memory of another tensor, and the operators that read it must conjugate or negate. PyTorch
    does so at dispatch keys that it excludes while a dispatch mode handles an operator: what the operator consists of
    would read the memory as it is. The context is entered inside of the handler.
    """

    __slots__ = ("_excluded",)

    def __enter__(self) -> None:
        self._excluded = [key for key in _LAZY if _is_excluded(key)]
        for key in self._excluded:
            _set_excluded(key, False)

    def __exit__(self, *_: object) -> None:
        for key in self._excluded:
            _set_excluded(key, True)
