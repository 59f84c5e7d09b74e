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
