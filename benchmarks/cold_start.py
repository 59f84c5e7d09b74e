"""What the first report of a process costs, as a multiple of importing the framework alone.

``python benchmarks/cold_start.py [--repeat N]`` prints a Markdown table of CPU seconds, medians of N processes each.
The first process of each kind writes bytecode and is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
LINEAR = "nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))"
IMAGES = "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()).eval()"

CASES = {
    "PyTorch, linear layers": ("import torch", f"from torch import nn; estimate({LINEAR}, (2, 8))"),
    "PyTorch, an image": ("import torch", f"from torch import nn; estimate({IMAGES}, (2, 3, 32, 32))"),
    "ONNX, integer sizes": ("import onnx", "main(['static.onnx', '--summary'])"),
    "ONNX, symbolic sizes": ("import onnx, sympy", "main(['symbolic.onnx', '--summary'])"),
}
"""By name: the imports that are not ours, and the report."""

PREPARE = "from costcore import estimate; from costcore.cli.main import main; "

MODELS = """
from onnx import TensorProto, helper, save

for name, batch in (("static", 2), ("symbolic", "batch")):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, size]) for n, size in (("x", 8), ("y", 4)))
    w = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [0.0] * 32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), f"{name}.onnx")
"""


def seconds(code: str, folder: str) -> float:
    """Return the CPU seconds of a process that runs ``code``."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-c", code]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="processes per figure; default: 5")
    repeat = parser.parse_args().repeat
    print("| case | imports alone | with the report | report alone | ratio |\n|:--|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        seconds(MODELS, folder)
        for name, (imports, report) in CASES.items():
            programs = imports, f"{imports}; {PREPARE}{report}"
            for program in programs:
                seconds(program, folder)
            turns = [[seconds(program, folder) for program in programs] for _ in range(repeat)]
            bare, whole = (median(times) for times in zip(*turns, strict=True))
            print(f"| {name} | {bare:.2f} s | {whole:.2f} s | {whole - bare:.2f} s | {whole / bare:.2f} |")


if __name__ == "__main__":
    main()
