"""Counts the bytecode instructions that costcore executes, which do not depend on the load of the machine.

``python benchmarks/instructions.py`` prints a Markdown table of counts and of counts of the last release, and fails if
one grew by more than 3 %. Counts depend on the versions of Python and of the frameworks: they are compared only if the
versions equal those in ``data/instructions.json``. ``--write`` stores the counts of a release; ``--against FILE``
compares with another file, ``--only CASE ...`` runs some cases.

Each case first runs once, to import modules and fill caches of operators, and is counted in its second run. Machine
instructions of C code are not counted: ``pytorch_capture.py`` and ``cold_start.py`` measure seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import FrameType

import onnx
import torch
from onnx import TensorProto, helper
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import costcore
from costcore import ComputationalCostHook, TreeColumns, estimate

LAST_RELEASE = Path(__file__).parent / "data" / "instructions.json"
MOST_GROWTH = 0.03
"""The growth that is accepted, as a fraction."""


def executed(run: Callable[[], object]) -> int:
    """Return the number of bytecode instructions of Python that a function executes in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object]:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return count


def image() -> nn.Module:
    """Return twenty convolutions with norms, and a classifier."""
    channels = [3, *(8 * (1 + i // 5) for i in range(20))]
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in pairwise(channels)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10))


def encoder() -> nn.Module:
    """Return a transformer encoder of six layers."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def chain(path: Path, batch: int | str) -> str:
    """Write an ONNX file with 200 pairs of a matrix product and an activation; return its path."""
    nodes, weights = [], []
    for i in range(200):
        weights.append(helper.make_tensor(f"w{i}", TensorProto.FLOAT, [4, 4], [0.0] * 16))
        nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"h{i}"])]
        nodes += [helper.make_node("Relu", [f"h{i}"], [f"x{i + 1}"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 4]) for name in ("x0", "x200")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    file = path / f"{batch}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), file)
    return str(file)


def hooked(net: nn.Module, x: torch.Tensor) -> None:
    """Run a network once under the hook."""
    with torch.no_grad(), ComputationalCostHook():
        net(x)


def cases(folder: Path) -> dict[str, Callable[[], object]]:
    """Return what is counted, by name."""
    cnn, attention, x = image().eval(), encoder().eval(), torch.zeros(1, 3, 32, 32)
    report, step = estimate(cnn, (1, 3, 32, 32)), estimate(cnn, (1, 3, 32, 32), backward=True, memory=True)
    sizes = estimate(cnn, ("batch", 3, 32, 32))
    fixed, symbolic = chain(folder, 1), chain(folder, "batch")
    fresh = type(report)
    return {
        "estimate, convolutions": lambda: estimate(cnn, (1, 3, 32, 32)),
        "estimate, encoder": lambda: estimate(attention, (2, 16, 64)),
        "estimate, training step with memory": lambda: estimate(cnn, (1, 3, 32, 32), backward=True, memory=True),
        "estimate, symbolic batch": lambda: estimate(cnn, ("batch", 3, 32, 32)),
        "hook": lambda: hooked(cnn, x),
        "ONNX file": lambda: estimate(fixed),
        "ONNX file, symbolic batch": lambda: estimate(symbolic),
        "show_report": lambda: fresh(report.trace).show_report(StringIO(), "table"),
        "show_summary_report": lambda: fresh(report.trace).show_summary_report(StringIO(), "md"),
        "show_tree": lambda: fresh(report.trace).show_tree(StringIO(), "csv", columns=TreeColumns.DETAILED),
        "overview": lambda: str(fresh(report.trace)),
        "to_json": lambda: fresh(step.trace).to_json(),
        "from_json": lambda: fresh.from_json(step.to_json()),
        "to_html": lambda: fresh(step.trace).to_html(),
        "memory": lambda: fresh(step.trace).memory.peak,
        "fused": lambda: fresh(report.trace).fused("compiler").total_report,
        "time": lambda: fresh(report.trace).time("l4").bound_seconds,
        "under": lambda: fresh(report.trace).under("fvcore").total,
        "receptive_field": lambda: fresh(report.trace).receptive_field(),
        "subs": lambda: sizes.subs(batch=8).total_report,
    }


def versions() -> dict[str, str]:
    """Return the versions on which the counts depend."""
    return {"python": platform.python_version(), "torch": version("torch").split("+")[0], "onnx": version("onnx")}


def measured(chosen: list[str]) -> dict[str, int]:
    """Return the instructions of every chosen case; of all, if none is chosen."""
    with tempfile.TemporaryDirectory() as folder:
        counts = {}
        for name, run in cases(Path(folder)).items():
            if not chosen or name in chosen:
                run()
                counts[name] = executed(run)
    return counts


def main() -> int:
    """Print the table; return 1 if a case grew by more than is accepted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"store the counts in {LAST_RELEASE.name}")
    parser.add_argument("--against", type=Path, default=LAST_RELEASE, help="the file to compare with")
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    asked = parser.parse_args()
    counts = measured(asked.only)
    if asked.write:
        stored = {"costcore": costcore.__version__, "versions": versions(), "instructions": counts}
        asked.against.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    before = json.loads(asked.against.read_text(encoding="utf-8"))
    is_same = before["versions"] == versions()
    if not is_same:
        print(f"not compared: the last counts are of {before['versions']}, these of {versions()}\n")
    print(f"| case | costcore {before['costcore']} | now | change |\n|:--|--:|--:|--:|")
    grown = []
    for name, count in counts.items():
        old = before["instructions"].get(name) if is_same else None
        change = f"{100 * (count / old - 1):+.1f} %" if old else ""
        print(f"| {name} | {f'{old:,}' if old else ''} | {count:,} | {change} |")
        if old and count > old * (1 + MOST_GROWTH):
            grown.append(name)
    if grown:
        print(f"\nmore than {MOST_GROWTH:.0%} above the last release: {', '.join(grown)}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
