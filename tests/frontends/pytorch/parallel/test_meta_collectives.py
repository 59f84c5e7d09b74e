"""Which kernels of collectives are registered for the meta device."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch

from costcore.frontends.pytorch.parallel.plan import communicate_on_meta

KERNELS = {"c10d::send": {"CPU", "Meta"}, "c10d::recv_": {"CPU"}, "c10d::barrier": {"Meta"}, "c10d::reduce_": set()}
"""The devices that a release of PyTorch has a kernel for, by operator."""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no collectives")
def test_only_kernels_that_a_release_lacks_are_registered(monkeypatch):
    registered = []

    class Library:
        def __init__(self, *args):
            assert args == ("c10d", "IMPL")

        def impl(self, name, function, key):
            registered.append((name, key))

        def _destroy(self):
            registered.clear()

    monkeypatch.setattr(torch.library, "Library", Library)
    monkeypatch.setattr(
        torch._C, "_dispatch_has_kernel_for_dispatch_key", lambda name, key: key in KERNELS.get(name, ())
    )
    with ExitStack() as stack:
        communicate_on_meta(stack)
        assert registered == [("c10d::recv_", "Meta")]
    assert registered == []


def test_a_collective_has_its_newer_name_if_there_is_one(monkeypatch):
    from costcore.frontends.pytorch.parallel.strategies import _collective

    monkeypatch.setattr(torch.distributed, "newer", "of 2.13", raising=False)
    monkeypatch.setattr(torch.distributed, "older", "of all releases", raising=False)
    assert (_collective("newer", "older"), _collective("missing", "older")) == ("of 2.13", "of all releases")
