"""``import costcore`` does not import modules that are slow to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "chainer",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "numpy",
    "onnx",
    "pluggy",
    "sympy",
    "torch",
    "typing",
}


def loaded_by(code: str) -> set[str]:
    """Return the modules of HEAVY that ``code`` loads; -S, because installed packages may load modules at startup."""
    program = f"import sys; sys.path.append({str(ROOT)!r})\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    return HEAVY & set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_import_costcore_loads_nothing_heavy():
    assert loaded_by("import costcore") == set()


def test_reading_public_names_loads_nothing_heavy():
    assert loaded_by("import costcore; dir(costcore); costcore.__version__; costcore.__all__") == set()


def test_the_command_line_imports_its_commands_when_an_interrupt_has_no_traceback():
    loads = "import costcore.cli.main; print('costcore.cli.running' in sys.modules, 'argparse' in sys.modules)"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(ROOT)!r}); {loads}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False False\n"


@pytest.mark.parametrize("heavy", ["typing", "inspect", "importlib.metadata"])
def test_the_measurement_detects_loaded_modules(heavy):
    assert heavy in loaded_by(f"import {heavy}")


NETWORKS = """
import torch
from torch import nn
before = set(sys.modules)
from costcore import Tensor, estimate

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.project = nn.Embedding(10, 16), nn.LayerNorm(16), nn.Linear(16, 48)
    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = (t.view(2, 6, 2, 8).transpose(1, 2) for t in self.project(self.norm(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 6, 16)
        return nn.functional.gelu(x + y * 0.5).mean(1)

layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
image, attention, ids = nn.Sequential(*layers, nn.Linear(8, 4)), Attention(), Tensor((2, 6), "int64")
"""

NEW_MODULES = "\nsys.modules = {name: sys.modules[name] for name in sys.modules if name not in before}"

FIRST_ESTIMATE = f"""{NETWORKS}
estimate(image.eval(), (2, 3, 20, 20))
estimate(attention.eval(), ids)
{NEW_MODULES}"""

FIRST_STEP = f"""{NETWORKS}
estimate(image, (2, 3, 20, 20), backward=True)
estimate(attention, ids, backward=True)
estimate(nn.LSTM(4, 8), (5, 2, 4))
{NEW_MODULES}"""

FIRST_STEP_IN_LOWER_PRECISION = f"""{NETWORKS}
image, attention = image.to(torch.bfloat16), attention.to(torch.float16)
estimate(image, Tensor((2, 3, 20, 20), "bfloat16"), backward=True)
estimate(attention, ids)
{NEW_MODULES}"""


TEXT = """
import torch
from torch import nn
from costcore import estimate

class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(9, 8), nn.Embedding(5, 8)
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, batch_first=True), nn.Linear(8, 9, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.layer(x, torch.triu(torch.full((5, 5), float("-inf")), 1))
        x = torch.where(ids[..., None] == 0, 0.0, x.clamp(min=0))
        return self.head(x / x.norm(dim=-1, keepdim=True)).argmax(-1)
"""
"""A program that counts a model with the operators of language models."""

FIRST_OF_TEXT = f"""{TEXT}
before = set(sys.modules)
estimate(Text(), torch.zeros(1, 5, dtype=torch.long))
{NEW_MODULES}"""

WITHOUT_COMPILER = """
import gc, sys, types
import torch
from torch import nn
from costcore import estimate

def others(x, mask):
    x = x.std(0) + x.gather(1, mask.long()) + x.cumprod(-1) + nn.functional.softsign(x)
    return nn.functional.cosine_similarity(x, x ** x), nn.functional.smooth_l1_loss(x, x % 2), x.max(-1), mask.any()

class Others(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x, mask):
        return others(x * self.scale, mask)

inputs = torch.ones(4, 8), torch.ones(4, 8, dtype=torch.bool)
first = estimate(Others(), inputs, backward=True)
assert "torch._dynamo" not in sys.modules
functions = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
assert not any("__dynamo_disable" in vars(function) for function in functions)
counted = torch.compile(Others(), backend="eager")
assert counted(*inputs)[1] == Others()(*inputs)[1]
assert estimate(Others(), inputs, backward=True).total_report == first.total_report
"""
"""A program with operators whose kernels PyTorch writes in Python; it compiles afterwards."""


SLOW = {
    "numpy.random",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.fx.experimental.symbolic_shapes",
}
"""Modules that nothing but numbers in a table, the compiler and symbolic sizes need."""

FEW_RUNS = {
    "costcore.analyses.conventions",
    "costcore.analyses.memory",
    "costcore.calculators.loss",
    "costcore.frontends.pytorch.parallel.plan",
    "costcore.reports.json",
    "costcore.studies",
}
"""Modules of costcore that a plain estimate does not need."""

BY_PYTORCH = """
import torch
from torch.utils import checkpoint
"""
"""What an estimate imports of PyTorch; before 2.5 it imports sympy."""


def new_modules(program: str) -> set[str]:
    """Return the modules that a program imports; after it set ``before``, if it does."""
    code = f"import sys\n{program}\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout.split()
    )


def test_a_first_estimate_imports_neither_the_compiler_nor_sympy():
    pytest.importorskip("torch")
    assert not ((SLOW - new_modules(BY_PYTORCH)) | FEW_RUNS) & new_modules(FIRST_ESTIMATE)


def test_a_first_estimate_of_a_language_model_imports_neither_the_compiler_nor_sympy():
    pytest.importorskip("torch")
    assert not (SLOW - new_modules(BY_PYTORCH)) & new_modules(FIRST_OF_TEXT)


def test_kernels_in_python_run_without_the_compiler_which_works_afterwards():
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", WITHOUT_COMPILER], check=True, cwd=ROOT)


@pytest.mark.parametrize("program", [FIRST_STEP, FIRST_STEP_IN_LOWER_PRECISION], ids=["float32", "lower"])
def test_a_first_training_step_imports_neither_the_compiler_nor_sympy(program):
    pytest.importorskip("torch")
    assert not (SLOW - new_modules(BY_PYTORCH)) & new_modules(program)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_options_of_the_command_import_no_framework(option):
    program = f"from costcore.__main__ import run\nsys.argv[1:] = ['{option}']\ntry: run()\nexcept SystemExit: pass"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}\nprint(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    frameworks = {"chainer", "onnx", "torch"}
    assert {*frameworks, "email", "importlib.metadata", "numpy", "sympy", "costcore.calculators.conv"}.isdisjoint(
        loaded
    )


@pytest.mark.parametrize("batch", [2, "batch"])
def test_a_report_of_an_onnx_file_imports_what_it_needs(batch, tmp_path):
    onnx = pytest.importorskip("onnx")
    float_type = onnx.TensorProto.FLOAT
    x = onnx.helper.make_tensor_value_info("x", float_type, [batch, 8])
    y = onnx.helper.make_tensor_value_info("y", float_type, [batch, 8])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    report = f"from costcore.cli.main import main; main([{str(tmp_path / 'net.onnx')!r}, '--summary'])"
    command = [sys.executable, "-c", f"import sys\n{report}\nprint(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    others = {
        "costcore.calculators.conv",
        "costcore.analyses.conventions.counting",
        "costcore.frontends.onnx.contrib",
        "costcore.frontends.onnx.regroup",
        "costcore.frontends.pytorch",
        "costcore.analyses.fusion.groups",
        "costcore.analyses.memory.arena",
        "costcore.analyses.memory.live_memory",
        "costcore.reports.html",
        "costcore.analyses.timing.times",
        "secrets",
        "tomllib",
        "torch",
    }
    assert not (others - new_modules("import onnx")) & {*loaded}
    assert ("sympy" in loaded) == (batch == "batch")


FULL_COLLECTIONS = """
import gc
import torch
from torch import nn
gc.collect()
before = gc.get_stats()[2]["collections"]
from costcore import estimate
estimate(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), (2, 8))
print(gc.get_stats()[2]["collections"] - before, gc.isenabled())
"""


def test_a_first_estimate_never_scans_all_objects_of_the_framework():
    pytest.importorskip("torch")
    command = [sys.executable, "-c", FULL_COLLECTIONS]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == "0 True\n"
