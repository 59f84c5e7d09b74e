"""The calculate_flops of calflops."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure

__all__ = ["ADAPTER"]


def _profile(built: Any) -> tuple[int, int, int]:
    from calflops import calculate_flops

    module, inputs = built
    options = {"print_results": False, "print_detailed": False, "output_as_string": False}
    flops, macs, params = calculate_flops(module, args=list(inputs), kwargs={}, **options)
    return int(flops), int(macs), int(params)


ADAPTER = Adapter(
    name="calflops",
    package="calflops",
    declares="MACs (multiply-add operations) … in all various neural networks, … even including any custom models via "
    "torch.nn.function.*",
    cites="https://github.com/MrYxJ/calculate-flops.pytorch#introduction",
    counts={
        "macs": lambda _format, built: Figure(_profile(built)[1]),
        "trainable_params": lambda _format, built: Figure(_profile(built)[2]),  # "Total Training Params"
    },
    isolated=True,
)
