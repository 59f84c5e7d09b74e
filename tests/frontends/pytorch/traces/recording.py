"""Records the traces in ``tests/data/traces/own``, with what the hook counts, and writes traces event by event.

``python -m tests.frontends.pytorch.traces.recording`` records them again. Tests only read them: the profiler of some
releases ends the process if it runs more than a few times.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from costcore import ComputationalCostHook

DATA = Path(__file__).parents[3] / "data" / "traces"
OWN = DATA / "own"
COUNTED = OWN / "counted.json"
KINDS = ("inference", "training", "checkpointed")
TOTALS = ("flops", "macs", "mread", "mwrite")

PHASES = ("forward", "backward", "recompute", "optimizer")


class Net(nn.Module):
    """Convolution, normalization, attention and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.layer_norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.conv(x))) * 2
        y = self.layer_norm(torch.cat([y, y], -1).flatten(2).transpose(1, 2))
        q = y.view(y.shape[0], 1, *y.shape[1:])
        return self.head(self.drop(y + nn.functional.scaled_dot_product_attention(q, q, q).squeeze(1)))


class Checkpointed(nn.Module):
    """Two blocks that are recomputed in the backward pass, which ends each recomputation in its last product."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


def inference(net: nn.Module, x: Tensor) -> Callable[[], None]:
    """Return a function that runs a forward pass."""
    net.eval()

    def run() -> None:
        with torch.no_grad():
            net(x)

    return run


def training(net: nn.Module, x: Tensor) -> Callable[[], None]:
    """Return a function that runs a step of training, which has run once."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    run()
    return run


def record(run: Callable[[], None], path: Path, **options: Any) -> str:
    """Record a trace of the profiler, and return its path."""
    with profile(activities=[ProfilerActivity.CPU], **{"record_shapes": True, **options}) as profiler:
        run()
    profiler.export_chrome_trace(str(path))
    return str(path)


def record_execution(run: Callable[[], None], path: Path) -> str:
    """Record an execution trace, and return its path."""
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    run()
    observer.stop()
    observer.unregister_callback()
    return str(path)


def main(kind: str) -> None:
    """Record the traces of one run, and what the hook counts there."""
    torch.manual_seed(0)
    net, x = (Checkpointed(), torch.randn(8, 32)) if kind == "checkpointed" else (Net(), torch.randn(2, 3, 8, 8))
    run = (inference if kind == "inference" else training)(net, x)
    files = {"execution": lambda path: record_execution(run, path)}
    files["profiler"] = lambda path: record(run, path, with_stack=True)
    if kind == "inference":
        files["both"] = lambda path: record(lambda: record_execution(run, path.with_suffix(".et")), path)
    for name, make in files.items():
        path = OWN / f"{kind}.{name}.json"
        make(path)
        for made in (path, path.with_suffix(".et")):
            if made.exists():
                target = made if made.suffix == ".json" else OWN / f"{kind}.{name}.et.json"
                text = json.dumps(_short(json.loads(made.read_text(encoding="utf-8"))), separators=(",", ":"))
                with gzip.GzipFile(f"{target}.gz", "wb", mtime=0) as file:
                    file.write(text.encode())
                made.unlink()
    with ComputationalCostHook() as hook:
        run()
    calls = hook.report.trace
    phases = {phase: sum(each.cost.macs for each in calls if each.call.phase == phase) for phase in PHASES}
    totals = {name: hook.report.total_report[name] for name in TOTALS}
    known = json.loads(COUNTED.read_text(encoding="utf-8")) if COUNTED.exists() else {}
    known[kind] = {**totals, "calls": len(calls), "macs by phase": phases}
    COUNTED.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _short(trace: Any) -> Any:
    """Leave out what is not read, and the paths of the machine."""
    if "nodes" in trace:
        return trace
    events = []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        if event["cat"] == "python_function" and not event["name"].startswith("nn.Module"):
            place, _, rest = event["name"].partition("(")
            if not place.endswith("traces/recording.py"):
                continue
            event["name"] = f"recording.py({rest}"
        events.append(event)
    return {"deviceProperties": [], "traceEvents": events}


def write(path: Path, events: list[dict[str, Any]], **head: Any) -> str:
    """Write a trace of these events, and return its path."""
    path.write_text(json.dumps({**head, "traceEvents": events}), encoding="utf-8")
    return str(path)


def op(name: str, start: float, length: float, *arguments: tuple[Any, ...], **args: Any) -> dict[str, Any]:
    """Return an event of an operator; an argument is a type, dims, strides and a value."""
    columns = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
    given = {key: [each[i] for each in arguments] for i, key in enumerate(columns)}
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}
    return {**event, "args": {**given, **args}}


def tensor(*dims: int, dtype: str = "float") -> tuple[Any, ...]:
    """Return an argument that is a contiguous tensor."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * size)
    return dtype, [*dims], strides[: len(dims)], ""


def launch(start: float, number: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    """Return an event of the launch of a kernel."""
    place = {"pid": 1, "tid": 1, "ts": start, "dur": 1}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, **place, "args": {"correlation": number}}


def kernel(name: str, start: float, length: float, number: int, category: str = "kernel", stream: int = 7) -> Any:
    """Return an event of work of the device."""
    args = {"correlation": number, "device": 0, "stream": stream}
    place = {"pid": 0, "tid": stream, "ts": start, "dur": length}
    return {"ph": "X", "cat": category, "name": name, **place, "args": args}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        OWN.mkdir(exist_ok=True)
        for each in KINDS:
            subprocess.run([sys.executable, "-m", "tests.frontends.pytorch.traces.recording", each], check=True)
