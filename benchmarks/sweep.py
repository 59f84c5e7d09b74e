"""Measures sweeps: models per second of CPU time compared with other counters, and the scaling with many models.

``python benchmarks/sweep.py [--models N] [--only PART ...]`` prints Markdown tables. The models are variants of
MobileNetV2 of 50 to 150 calls on an image of 224 x 224, each with another width, in one process with one thread. The
tools take turns; making a model is measured separately and left out. ``long`` counts many models, in tenths. ``jobs``
compares two processes with one by the clock. ``tiny`` counts many models of two layers, end to end, with one and two
processes: by the clock, and in CPU time of the main process and of the workers, which depends less on other programs of
the machine. ``held`` writes a million simulated rows: the time and the peak memory of the process that writes them to a
file of each format, and of a process that resumes the file. A tool that is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from costcore import estimate, sweep
from costcore.studies.sweeps.process import Plan, rows
from costcore.studies.sweeps.rows import Settings
from costcore.studies.sweeps.table import variants as grid_of

IMAGE = (1, 3, 224, 224)
STAGES = ((1, 16, 1), (6, 24, 2), (6, 32, 2), (6, 64, 2), (6, 96, 1), (6, 160, 2), (6, 320, 1))
"""Expansion, channels and stride of the stages of MobileNetV2 (arXiv:1801.04381, table 2)."""


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = before * expansion
        layers = conv(before, hidden, 1) if expansion > 1 else []
        layers += conv(hidden, hidden, 3, stride, hidden)
        self.body = nn.Sequential(*layers, nn.Conv2d(hidden, after, 1, bias=False), nn.BatchNorm2d(after))
        self.is_residual = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


def conv(before: int, after: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(after), nn.ReLU6()]


def make(width: float = 1.0, depth: int = 1) -> nn.Module:
    """MobileNetV2 with ``width`` times its channels, and ``depth`` blocks per stage."""
    channels = max(8, round(32 * width))
    layers: list[nn.Module] = [*conv(3, channels, 3, 2)]
    for expansion, stage, stride in STAGES:
        for i in range(depth):
            after = max(8, round(stage * width))
            layers.append(Block(channels, after, stride if i == 0 else 1, expansion))
            channels = after
    layers += [*conv(channels, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers).eval()


def variants(n: int) -> list[tuple[float, int]]:
    return [(0.5 + i / n, 1 + i % 2) for i in range(n)]


def by_costcore(model: nn.Module) -> int:
    return int(estimate(model, IMAGE).total_report["macs"])


def by_flop_counter(model: nn.Module) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.empty(IMAGE))
    return int(counter.get_total_flops())


def by_flop_counter_on_meta(model: nn.Module) -> int:
    model = model.to("meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.empty(IMAGE, device="meta"))
    return int(counter.get_total_flops())


def by_fvcore(model: nn.Module) -> int:
    from fvcore.nn import FlopCountAnalysis

    counter = FlopCountAnalysis(model, torch.empty(IMAGE))
    counter.unsupported_ops_warnings(False)
    return int(counter.total())


def by_ptflops(model: nn.Module) -> int:
    from ptflops import get_model_complexity_info

    with contextlib.redirect_stdout(io.StringIO()):
        macs, _ = get_model_complexity_info(model, IMAGE[1:], print_per_layer_stat=False, as_strings=False)
    return int(macs)


TOOLS = {
    "costcore": by_costcore,
    "FlopCounterMode, CPU": by_flop_counter,
    "FlopCounterMode, meta": by_flop_counter_on_meta,
    "fvcore": by_fvcore,
    "ptflops": by_ptflops,
}


def seconds(tool: Callable[[nn.Module], int], model: nn.Module) -> float:
    gc.collect()
    start = time.process_time()
    tool(model)
    return time.process_time() - start


def compare(n: int) -> None:
    tools = dict(TOOLS)
    for name, tool in TOOLS.items():
        try:
            tool(make(0.4))
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            del tools[name]
    spent = dict.fromkeys(tools, 0.0)
    start = time.process_time()
    for width, depth in variants(n):
        make(width, depth)
    making = (time.process_time() - start) / n
    for width, depth in variants(n):
        for name, tool in tools.items():
            spent[name] += seconds(tool, make(width, depth))
    calls = sorted(estimate(make(1.0, depth), IMAGE).total_report["n_layers"] for depth in (1, 2))
    print(f"\n{n} models of {calls[0]} and {calls[1]} calls; making one takes {1000 * making:.1f} ms\n")
    print("| tool | models per second | costcore is faster by |\n|:---|---:|---:|")
    for name, total in spent.items():
        print(f"| {name} | {n / total:.1f} | {total / spent['costcore']:.1f} |")


def long(n: int) -> None:
    """Print the time of each tenth of a long sweep, without making the models, and its memory."""
    print(f"\n{n} models in one process\n\n| models | ms per model | resident MiB |\n|---:|---:|---:|")
    spent = 0.0
    for done, (width, depth) in enumerate(variants(n), 1):
        spent += seconds(lambda model: estimate(model, IMAGE), make(width, depth))
        if done % max(1, n // 10) == 0:
            print(f"| {done} | {1000 * spent / max(1, n // 10):.1f} | {resident()} |", flush=True)
            spent = 0.0


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def jobs(n: int) -> float:
    """Print rows per second by the clock of one process and of two, once all have started; return their ratio."""
    print("\n| processes | models per second |\n|---:|---:|")
    rates = {}
    for processes in (1, 2):
        models = dict(enumerate(grid_of(f"{__file__}:make", {"width": [width for width, _ in variants(n)]}, IMAGE)))
        found = rows(models, Settings(("macs",)), Plan(processes))
        for _ in range(n // 4):
            next(found)
        start = time.perf_counter()
        done = sum(1 for _ in found)
        rates[processes] = done / (time.perf_counter() - start)
        print(f"| {processes} | {rates[processes]:.1f} |")
    found = rates[2] / rates[1]
    print(f"\ntwo processes are faster by {found:.2f}")
    return found


def make_tiny(width: int) -> nn.Module:
    """A model of two layers, as few as a row can have."""
    return nn.Sequential(nn.Linear(8, 1 + width % 64), nn.ReLU())


def tiny(n: int) -> None:
    """Print the CPU time per row of the main process and of the workers, and the speed-up that it allows."""
    print(f"\n{n} models of two layers\n\n| processes | seconds | rows per second | ms of CPU: hands out | computes |")
    print("|---:|---:|---:|---:|---:|")
    walls, costs = {}, (0.0, 0.0)
    for processes in (1, 2):
        with TemporaryDirectory() as folder:
            start, cpu, below = time.perf_counter(), time.process_time(), cpu_of_children()
            sweep(
                f"{__file__}:make_tiny",
                {"width": range(n)},
                (1, 8),
                columns=["macs"],
                jobs=processes,
                output=f"{folder}/rows.csv",
            )
            walls[processes] = time.perf_counter() - start
        costs = (1000 * (time.process_time() - cpu) / n, 1000 * (cpu_of_children() - below) / n)
        print(
            f"| {processes} | {walls[processes]:.1f} | {n / walls[processes]:.0f} | {costs[0]:.2f} | {costs[1]:.2f} |"
        )
    handed, computed = costs
    allowed = max(handed, computed) / max(handed, (handed + computed) / 2)  # on one core each; then all on two
    print(
        f"\ntwo processes were faster by {walls[1] / walls[2]:.2f}; the CPU time allows {allowed:.2f} on two idle cores"
    )


def cpu_of_children() -> float:
    """Return the CPU time of processes beside this one that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


SIMULATED = """
import sys, time
import costcore.studies.sweeps.table as sweeps
from costcore.studies.sweeps.rows import DEFAULT_COLUMNS, ModelRow

def computed(models, settings, plan):
    for position, named in models.items():
        costs = {name: 10**9 + position for name in DEFAULT_COLUMNS}
        yield position, ModelRow(named.name, costs, "complete", arguments=named.arguments)

sweeps.computed_rows = computed
target, n, output = sys.argv[1:]
start = time.perf_counter()
grid = {"width": range(-(-int(n) // 1000)), "depth": range(1000)}
found = sweeps.sweep(target, grid, (1, 8), output=output, resume=True)
with open("/proc/self/status") as status:  # ru_maxrss may be the peak of the parent
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(f"{len(found.rows):,} | {time.perf_counter() - start:.0f} | {memory / 1024:.0f}")
"""


def held(n: int) -> None:
    """Print the time and memory of tables with simulated rows."""
    print("\nrows that nothing computes\n\n| file | run | rows | seconds | MiB of memory |\n|:---|:---|---:|---:|---:|")
    for suffix in (".jsonl", ".csv", ".parquet"):
        with TemporaryDirectory() as folder:
            for run in ("first", "resumed"):
                command = [sys.executable, "-c", SIMULATED, f"{__file__}:make_tiny", str(n), f"{folder}/rows{suffix}"]
                environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                print(f"| {suffix} | {run} | {done.stdout.strip()} |", flush=True)


PARTS = {
    "compare": (compare, 40),
    "long": (long, 200),
    "jobs": (jobs, 200),
    "tiny": (tiny, 10_000),
    "held": (held, 1_000_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=0, help="the number of models in each part")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for part in args.only:
        measure, n = PARTS[part]
        measure(args.models or n)


if __name__ == "__main__":
    main()
