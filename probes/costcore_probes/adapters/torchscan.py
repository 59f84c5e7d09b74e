"""The crawl_module of torch-scan."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _crawl(built: Any) -> Any:
    from torchscan import crawl_module

    module, inputs = built
    return crawl_module(module, args=tuple(inputs))


def _macs(_format: str, built: Any) -> Figure:
    total = _crawl(built)["totals"]["macs"]
    value = total["value"] if total["value"] is not None else total["known_value"]
    return Figure(int(value or 0), () if total["status"] == "complete" else (f"status {total['status']}",))


def _total(name: str) -> Any:
    return lambda _format, built: Figure(int(_crawl(built)["totals"][name]["value"]))


def _with_norms(probe: Probe) -> int:
    per = {"batch_norm_eval": 2, "max_pool_row_comparisons": 1, "avg_pool_row_additions": 1}
    per |= {"global_pool_inputs": 1, "global_pool_outputs": 1}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="torchscan",
    package="torchscan",
    declares="macs, with a status: complete, partial or unavailable",
    cites="https://github.com/frgfm/torch-scan/blob/main/docs/metrics.md",
    counts={"macs": _macs, "params": _total("parameters"), "trainable_params": _total("trainable_parameters")},
    rules=(Rule("norms and pools count too", "torchscan/modules/macs.py", _with_norms),),
)
