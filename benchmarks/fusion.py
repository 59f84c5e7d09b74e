"""Measures how long fusing takes, as a ratio of CPU times.

Run in the root of the repository: ``python -m benchmarks.fusion``. Prints the CPU time of fusing a network of
10,000 calls, by level, and its ratio to the CPU time of ``estimate`` for the same network. Exits with 1 if a ratio is
above ``MAX_RATIO``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from torch import nn

from costcore import estimate
from costcore.analyses.fusion.groups import groups_of

CALLS, ROUNDS, MAX_RATIO = 10_000, 5, 1.0


def network() -> nn.Module:
    """Return a perceptron with a norm after each layer."""
    layers: list[nn.Module] = []
    for _ in range(CALLS // 4):
        layers += [nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Softmax(-1)]
    return nn.Sequential(*layers).eval()


def seconds(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the CPU time of the fastest of several runs."""
    times = []
    for _ in range(rounds):
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


def main() -> int:
    """Print the times, and return the exit code."""
    net = network()
    trace = estimate(net, (4, 8)).trace
    whole = seconds(lambda: estimate(net, (4, 8)), rounds=2)
    ratios = []
    for level in ("pointwise", "compiler"):
        time = seconds(lambda level=level: groups_of(trace, level))  # type: ignore[misc]
        ratios.append(time / whole)
        print(f"{level}: {len(trace)} calls, {time:.3f} s of CPU time, {time / whole:.2f} of that of estimate")
    return int(max(ratios) > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
