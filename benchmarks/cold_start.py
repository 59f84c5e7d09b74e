"""Measures the first report of a process beyond the import of the framework and the making of the model.

``python benchmarks/cold_start.py [--repeat N]`` prints a Markdown table of CPU seconds, the minimum of N processes. The
goal is for the report alone (PyTorch, on an idle machine) or for the ratio (ONNX), which depends less on the machine.
The first process of each kind writes bytecode and is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

PYTORCH_GOAL, STATIC_GOAL, SYMBOLIC_GOAL = 0.15, 1.3, 1.25
"""Seconds of the report alone, and multiples of the imports alone."""

NETWORKS = """
import torch
from torch import nn

def image(act):
    blocks = [(nn.Conv2d(8 if i else 3, 8, 3, padding=1), nn.BatchNorm2d(8), act()) for i in range(20)]
    layers = [layer for block in blocks for layer in block]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))

def encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

linear = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
"""

MODELS = """
from onnx import TensorProto, helper, save

for name, batch in (("static", 2), ("symbolic", "batch")):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, size]) for n, size in (("x", 8), ("y", 4)))
    w = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [0.0] * 32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), f"{name}.onnx")
"""


class Case(NamedTuple):
    """Arguments of the interpreter without and with a report, and the goal."""

    bare: Sequence[str]
    whole: Sequence[str]
    goal: str


def estimated(network: str, inputs: str, options: str = "") -> Case:
    """Return the case of an estimate of one of NETWORKS."""
    bare = f"{NETWORKS}\nnet = {network}"
    report = f"from costcore import estimate; estimate(net, {inputs}{options})"
    return Case(("-c", bare), ("-c", f"{bare}\n{report}"), f"report {PYTORCH_GOAL:.2f} s")


CASES = {
    "PyTorch, linear layers": estimated("linear.eval()", "(2, 8)"),
    "PyTorch, 20 convolutions": estimated("image(nn.ReLU).eval()", "(2, 3, 32, 32)"),
    "PyTorch, with ReLU6": estimated("image(nn.ReLU6).eval()", "(2, 3, 32, 32)"),
    "PyTorch, 6 encoder layers": estimated("encoder().eval()", "(1, 16, 64)"),
    "PyTorch, LSTM": estimated("Last().eval()", "(2, 5, 16)"),
    "PyTorch, memory": estimated("image(nn.ReLU).eval()", "(2, 3, 32, 32)", ", memory=True"),
    "PyTorch, training step": estimated("image(nn.ReLU)", "(2, 3, 32, 32)", ", backward=True"),
    "ONNX, integer sizes": Case(
        ("-c", "import onnx"), ("-m", "costcore", "static.onnx", "--summary"), f"ratio {STATIC_GOAL:.2f}"
    ),
    "ONNX, symbolic sizes": Case(
        ("-c", "import onnx, sympy"), ("-m", "costcore", "symbolic.onnx", "--summary"), f"ratio {SYMBOLIC_GOAL:.2f}"
    ),
    "import costcore": Case(("-c", "pass"), ("-c", "import costcore"), "—"),
    "costcore --version": Case(("-c", "pass"), ("-m", "costcore", "--version"), "—"),
}
"""The processes by name."""


def seconds(arguments: Sequence[str], folder: str) -> float:
    """Return the CPU seconds of a Python process."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="processes per figure; default: 5")
    repeat = parser.parse_args().repeat
    print("| case | without | with the report | report alone | ratio | goal |\n|:--|--:|--:|--:|--:|:--|")
    with tempfile.TemporaryDirectory() as folder:
        seconds(("-c", MODELS), folder)
        for name, case in CASES.items():
            programs = case.bare, case.whole
            for program in programs:
                seconds(program, folder)
            turns = [[seconds(program, folder) for program in programs] for _ in range(repeat)]
            bare, whole = (min(times) for times in zip(*turns, strict=True))
            ratio = f"{whole / bare:.2f}"
            print(
                f"| {name} | {bare:.2f} s | {whole:.2f} s | {whole - bare:.2f} s | {ratio} | {case.goal} |", flush=True
            )


if __name__ == "__main__":
    main()
