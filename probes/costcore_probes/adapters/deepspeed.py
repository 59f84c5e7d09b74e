"""The flops profiler of DeepSpeed."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure

__all__ = ["ADAPTER"]


def _profile(built: Any) -> tuple[int, int, int]:
    from deepspeed.profiling.flops_profiler import get_model_profile

    module, inputs = built
    options = {"print_profile": False, "detailed": False, "warm_up": 0, "as_string": False}
    flops, macs, params = get_model_profile(module, args=list(inputs), **options)
    return int(flops), int(macs), int(params)


ADAPTER = Adapter(
    name="deepspeed",
    package="deepspeed",
    declares="The MACs (multiply-accumulate operations) … of the model",
    cites="https://www.deepspeed.ai/tutorials/flops-profiler/, deepspeed/profiling/flops_profiler/profiler.py",
    counts={
        "macs": lambda _format, built: Figure(_profile(built)[1]),
        "params": lambda _format, built: Figure(_profile(built)[2]),
    },
    isolated=True,
)
