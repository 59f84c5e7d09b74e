"""The backend of ptflops that its signature has by default, pytorch."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Limit, Rule
from ..probe import Probe
from .ptflops import profile

__all__ = ["ADAPTER"]

README = "https://github.com/sovrasov/flops-counter.pytorch/blob/master/README.md"


def _profile(built: Any) -> tuple[tuple[int, int], tuple[str, ...]]:
    return profile(built, "pytorch", r"Warning: module (\w+) is treated as a zero-op")


def _macs(_format: str, built: Any) -> Figure:
    (macs, _), missing = _profile(built)
    return Figure(macs, missing)


def _per_image(probe: Probe) -> int:
    per = {"bias": 1, "batch_norm_eval": 2, "layer_norm": 1, "relu": 2, "max_pool_inputs": 2, "avg_pool_inputs": 2}
    whole = probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())
    return whole // probe.extras.get("batch", 1)


ADAPTER = Adapter(
    name="ptflops_modules",
    package="ptflops",
    declares="the theoretical amount of multiply-add operations in neural networks",
    cites=f"{README}, backend='pytorch'",
    counts={"macs": _macs, "trainable_params": lambda _format, built: Figure(_profile(built)[0][1])},
    rules=(Rule("biases, norms, activations and pools count too, per image", "ptflops/pytorch_ops.py", _per_image),),
    limits=(Limit(frozenset({"functional"}), "the pytorch backend misses some functional operations", README),),
)
