"""FlopCounterMode of PyTorch."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure

__all__ = ["ADAPTER"]


def _forward(_format: str, built: Any) -> Figure:
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = built
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return Figure(counter.get_total_flops())


def _backward(_format: str, built: Any) -> Figure:
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = built
    loss = module(*inputs).sum()
    with FlopCounterMode(display=False) as counter:
        loss.backward()
    return Figure(counter.get_total_flops())


ADAPTER = Adapter(
    name="flop_counter_mode",
    package="torch",
    declares="a context manager that counts the number of flops within its context; its formulas have 2 per "
    "multiply-accumulate",
    cites="https://docs.pytorch.org/docs/stable/utils.html, torch/utils/flop_counter.py: `# Counts the number of "
    "flops`, `m * n * 2 * k`",
    counts={"macs": _forward, "macs_backward": _backward},
    unit={"macs": 2, "macs_backward": 2},
)
