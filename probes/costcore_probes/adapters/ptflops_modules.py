"""The backend pytorch of ptflops, its default."""

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


def _with_others(probe: Probe) -> int:
    per = {"batch_norm_eval": 2, "layer_norm": 1, "relu": 2, "relu_function": 1, "relu6": 1, "max_pool_inputs": 2}
    per |= {"avg_pool_inputs": 2, "gate_adds": 1, "lstm_units": 2}
    per |= {"max_pool_function_inputs": 1, "nearest_outputs": 2, "bilinear_outputs": 1}
    per |= {} if probe.extras.get("gate_adds") else {"bias": 1}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="ptflops_modules",
    package="ptflops",
    declares="the theoretical amount of multiply-add operations in neural networks",
    cites=f"{README}, backend='pytorch'",
    counts={"macs": _macs, "trainable_params": lambda _format, built: Figure(_profile(built)[0][1])},
    rules=(Rule("biases, norms, activations, pools and gates count too", "ptflops/pytorch_ops.py", _with_others),),
    limits=(Limit(frozenset({"functional"}), "the pytorch backend misses some functional operations", README),),
)
