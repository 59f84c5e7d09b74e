"""Measures the CPU time of a step of MFUMeter, in µs, around a module that computes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from costcore import MFUMeter

STEPS, ROUNDS = 3000, 15


class Nothing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: object, attention_mask: object, labels: object) -> torch.Tensor:
        return self.weight


def microseconds(step: Callable[[], object], net: nn.Module, batch: dict[str, torch.Tensor]) -> float:
    start = time.process_time()
    for _ in range(STEPS):
        net(**batch)
        step()
    return (time.process_time() - start) / STEPS * 1e6


def main() -> None:
    net = Nothing()
    batch = {name: torch.zeros(4, 16, dtype=torch.int64) for name in ("input_ids", "attention_mask", "labels")}
    plain, metered = [], []
    for _ in range(ROUNDS):
        plain.append(microseconds(lambda: None, net, batch))
        with MFUMeter(net, counted="copy") as meter:
            net(**batch)
            meter.step()
            metered.append(microseconds(meter.step, net, batch))
    print(f"a step of the meter: {min(metered) - min(plain):.2f} µs (a pass without it: {min(plain):.2f} µs)")


if __name__ == "__main__":
    main()
