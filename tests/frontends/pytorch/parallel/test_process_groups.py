"""Process groups among the arguments of operators, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed


def group(size=3, rank=2, description="mesh_tp") -> Any:
    return SimpleNamespace(size=lambda: size, rank=lambda: rank, group_desc=description)


def test_gradients_of_collectives(monkeypatch):
    """In a group of 3, whose collectives are replaced: what they receive is made of what is sent, times a number."""
    from costcore.frontends.pytorch.parallel import strategies

    sent = []

    def replaced(factor):
        def collective(*tensors, group):
            made, given = tensors if len(tensors) == 2 else tensors * 2
            sent.append((factor, tuple(made.shape), tuple(given.shape)))
            made.copy_(factor * given.sum())

        return collective

    names = {"all_reduce": 2, "all_to_all_single": 3}
    names |= dict.fromkeys(("all_gather_single", "all_gather_into_tensor"), 5)
    names |= dict.fromkeys(("reduce_scatter_single", "reduce_scatter_tensor"), 7)
    for name, factor in names.items():
        monkeypatch.setattr(distributed, name, replaced(factor), raising=False)
    results = {}
    for name in ("shared", "added", "gathered", "exchanged"):
        x = torch.ones(4, 5, requires_grad=True)
        y = getattr(strategies, name)(x, group())
        y.backward(torch.ones_like(y))
        results[name] = (tuple(y.shape), y.unique().tolist(), x.grad.unique().tolist())
    assert results == {
        "shared": ((4, 5), [1], [2 * 20]),
        "added": ((4, 5), [2 * 20], [1]),
        "gathered": ((12, 5), [5 * 20], [7 * 60]),
        "exchanged": ((4, 5), [3 * 20], [3 * 20]),
    }
    assert sent == [
        *((2, (4, 5), (4, 5)), (2, (4, 5), (4, 5))),
        *((5, (12, 5), (4, 5)), (7, (4, 5), (12, 5))),
        *((3, (4, 5), (4, 5)), (3, (4, 5), (4, 5))),
    ]
