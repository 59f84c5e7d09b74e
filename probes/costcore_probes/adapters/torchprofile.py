"""The profile_macs of torchprofile."""

from __future__ import annotations

import warnings
from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _macs(_format: str, built: Any) -> Figure:
    from torchprofile import profile_macs

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = profile_macs(*built)
    texts = [str(warning.message) for warning in caught if str(warning.message).startswith("No handlers found")]
    return Figure(int(value), tuple(sorted({text.split('"')[1] for text in texts})))


def _with_norms(probe: Probe) -> int:
    per = {"batch_norm_eval": 1, "layer_norm": 1, "avg_pool_outputs": 1, "global_pool_outputs": 1}
    per |= {"bilinear_outputs": 4, "multiply": 1}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="torchprofile",
    package="torchprofile",
    declares="counts the number of MACs (multiply-accumulate operations) in a PyTorch model",
    cites="https://github.com/zhijian-liu/torchprofile#torchprofile",
    counts={"macs": _macs},
    rules=(Rule("norms, average pools and products of pairs count too", "torchprofile/handlers.py", _with_norms),),
)
