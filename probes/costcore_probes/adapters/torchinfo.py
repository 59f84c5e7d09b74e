"""Summary of torchinfo."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..probe import Probe

__all__ = ["ADAPTER"]


def _summary(built: Any) -> Any:
    import torchinfo

    return torchinfo.summary(built[0], input_data=built[1], verbose=0, depth=12)


def _with_biases(probe: Probe) -> int:
    return probe.answer + sum(probe.extras.get(name, 0) for name in ("bias", "norm_params_per_item", "table_per_item"))


ADAPTER = Adapter(
    name="torchinfo",
    package="torchinfo",
    declares="# of operations (Mult-Adds)",
    cites="https://github.com/TylerYep/torchinfo#documentation",
    counts={
        "macs": lambda _format, built: Figure(int(_summary(built).total_mult_adds)),
        "params": lambda _format, built: Figure(int(_summary(built).total_params)),
        "trainable_params": lambda _format, built: Figure(int(_summary(built).trainable_params)),
    },
    rules=(
        Rule(
            "\"MACs using the module's parameters and layer's output size\": every parameter once per place, biases, "
            "norms and tables too",
            "torchinfo/layer_info.py, calculate_macs",
            _with_biases,
        ),
    ),
)
