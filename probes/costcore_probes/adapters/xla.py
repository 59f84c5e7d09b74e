"""The cost analysis of XLA, applied to a compiled JAX function."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _flops(_format: str, built: Any) -> Figure:
    import jax

    function, inputs = built
    analysis = jax.jit(function).lower(*inputs).compile().cost_analysis()
    return Figure(int(analysis["flops"]))


def _without_padding(probe: Probe) -> int:
    inside = sum(None not in triple for triple in probe.loops())
    per = {"broadcast_add": 1, "relu": 1, "multiply": 1}
    return 2 * inside + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="xla",
    package="jax",
    declares="flops: a multiply-accumulate is two; there is no guarantee",
    cites="https://docs.jax.dev/en/latest/aot.html#debug-information-and-analyses-when-available",
    formats=("jax",),
    counts={"macs": _flops},
    unit={"macs": 2},
    rules=(
        Rule(
            "only taps inside the image count, and elementwise operations count too",
            "xla/service/hlo_cost_analysis.cc",
            _without_padding,
        ),
    ),
    framework="jax",
)
