"""The speed of costcore in one table: ``python benchmarks/speed.py --output docs/speed.json``.

Ratios compare the CPU time of one thread in one process, the minimum of several rounds in which both take turns. Some
rows are CPU seconds; the sweep is timed by the clock. Run it on a machine that does nothing else.
``tools/benchmark.py`` writes the table into ``docs/figures.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import cold_start, pytorch_capture, sweep
from benchmarks.instructions import versions
from costcore import estimate
from tests.whole_networks.pytorch_models import without_data

ROUNDS = 12


class Figure(NamedTuple):
    """A row of the table.

    Attributes:
        work: what is measured.
        found: a ratio or seconds.
        bar: the maximum of ``found``; None: a figure to compare with.
        is_least: whether the bar is a minimum.
        unit: "" for a ratio, or "s".
    """

    work: str
    found: float
    bar: float | None
    is_least: bool = False
    unit: str = ""


class Dense(nn.Module):
    """A layer of DenseNet: its output is concatenated to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 128, 1, bias=False)),
            *(nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1, bias=False)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet121() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for i, n in enumerate((6, 12, 24, 16)):
        if i:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2))
            channels //= 2
        for _ in range(n):
            layers.append(Dense(channels))
            channels += 32
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@contextmanager
def observed(observer: Any) -> Iterator[None]:
    observer.start()
    try:
        yield
    finally:
        observer.stop()


def compiled_observer() -> Any:
    """Build the observer; None without ninja."""
    from torch.utils import cpp_extension

    if not cpp_extension.is_ninja_available():
        return None
    # -DNDEBUG as PyTorch's own wheels: the layout of a RecordFunction depends on it.
    source = str(Path(__file__).with_name("observer.cpp"))
    return cpp_extension.load("costcore_observer", [source], extra_cflags=["-O2", "-DNDEBUG"])


def users() -> Iterator[Figure]:
    """Yield calls of users, relative to the same work without costcore."""
    observer = compiled_observer()
    for case in pytorch_capture.whole_cases():
        runs = [case.counted] if case.plain is None else [case.plain, case.counted]
        if case.plain is not None and case.name.startswith("hook") and observer is not None:

            def compiled(plain: Callable[[], object] = case.plain) -> None:
                with observed(observer):
                    plain()

            runs.append(compiled)
        with torch.set_grad_enabled("on data" not in case.name):
            seconds = pytorch_capture.least_seconds(2 if case.plain is None else ROUNDS, *runs)
        plain, counted = seconds[:1] if case.plain else [], seconds[1 if case.plain else 0]
        is_floor = case.name.startswith("a dispatch mode that does nothing")
        yield Figure(
            case.name.removesuffix(", seconds"),
            counted / plain[0] if plain else counted,
            None if is_floor else case.bar,
            unit="" if plain else "s",
        )
        if len(seconds) == 3:
            work = case.name.replace("hook", "an observer in C++ that notes shapes", 1)
            yield Figure(work, seconds[2] / seconds[0], None)


def on_meta() -> Iterator[Figure]:
    """Yield captures on the meta device, relative to the plain run and to FlopCounterMode."""
    for case in pytorch_capture.cases():
        if case.to_counter is not None:
            seconds = pytorch_capture.measure(case, case.rounds or 5).seconds
            yield Figure(f"meta forward, {case.name}", seconds["capture"] / seconds["plain"], case.to_plain)
            found = seconds["counter"] / seconds["capture"]
            yield Figure(f"times faster than FlopCounterMode, {case.name}", found, case.to_counter, is_least=True)


def cold() -> Iterator[Figure]:
    """Yield the first estimate of a process, without the imports and the making of the model."""
    first = cold_start.CASES["PyTorch, linear layers"]
    for work, bare, whole, bar in (
        ("first estimate after `import torch`", first.bare, first.whole, 0.1),
        (
            "`costcore hf:bert` in a new process, beyond `from transformers import BertModel`",
            ("-c", "import torch; from transformers import BertModel"),
            ("-m", "costcore", "hf:bert"),
            0.3,
        ),
    ):
        with tempfile.TemporaryDirectory() as folder:
            turns = [[cold_start.seconds(program, folder) for program in (bare, whole)] for _ in range(5)]
        without, found = (min(times) for times in zip(*turns[1:], strict=True))
        yield Figure(work, found - without, bar, unit="s")


def formulas() -> Iterator[Figure]:
    """Yield an estimate with symbolic sizes."""
    start = process_time()
    estimate(without_data(densenet121), ("batch", 3, "height", "width"))
    yield Figure("MACs of DenseNet-121 in batch, height and width", process_time() - start, 10, unit="s")


def scaling() -> Iterator[Figure]:
    """Yield the speed-up of a sweep by a second process."""
    yield Figure("sweep on 2 workers, of one", sweep.jobs(200), 1.8, is_least=True)


PARTS: tuple[Callable[[], Iterator[Figure]], ...] = (users, on_meta, cold, formulas, scaling)


def machine() -> str:
    """Name the processor and the number of its cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{next(iter(names), platform.machine())}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="a JSON file for the table")
    output = parser.parse_args().output
    torch.set_num_threads(1)
    figures = []
    for part in PARTS:
        for figure in part():
            print(*figure, flush=True)
            figures.append(figure._asdict() | {"found": float(f"{figure.found:.3g}")})
    if output:
        content = {"machine": machine(), "versions": versions(), "figures": figures}
        output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
