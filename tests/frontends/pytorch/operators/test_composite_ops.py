"""The composite operators that are recorded as one call exist in the installed PyTorch."""

from __future__ import annotations

import torch

from costcore.frontends.pytorch.operators.plan import COMPOSITES, exists, overload


def test_every_name_is_a_composite_operator():
    missing = {name for name in COMPOSITES if not exists(name)}
    assert missing <= {"_fused_rms_norm", "rms_norm"}  # PyTorch 2.4 and 2.6 lack them
    for name in COMPOSITES - missing:
        key = "CompositeImplicitAutograd"
        assert torch._C._dispatch_has_kernel_for_dispatch_key(overload(name).name(), key), name
