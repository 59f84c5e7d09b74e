"""FlopCountAnalysis of fvcore."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _macs(_format: str, built: Any) -> Figure:
    from fvcore.nn import FlopCountAnalysis

    analysis = FlopCountAnalysis(*built).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    return Figure(int(analysis.total()), tuple(sorted(analysis.unsupported_ops())))


def _params(_format: str, built: Any) -> Figure:
    from fvcore.nn import parameter_count

    return Figure(parameter_count(built[0])[""])


def _with_norms(probe: Probe) -> int:
    per = {"batch_norm_eval": 2, "batch_norm_eval_plain": 1, "layer_norm": 5, "layer_norm_plain": 4}
    per |= {"global_pool_inputs": 1, "nearest_outputs": 1, "bilinear_outputs": 4}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="fvcore",
    package="fvcore",
    declares="We count one fused multiply-add as one flop.",
    cites="https://github.com/facebookresearch/fvcore/blob/main/docs/flop_count.md",
    counts={"macs": _macs, "params": _params},
    rules=(Rule("norms, adaptive pools and upsampling count too", "fvcore/nn/flop_count.py", _with_norms),),
)
