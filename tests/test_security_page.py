"""SECURITY.md states the limits that the code has, and names tests that exist."""

from __future__ import annotations

import ast
import operator
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 5
}

OPERATORS = {ast.Pow: operator.pow, ast.Mult: operator.mul, ast.LShift: operator.lshift}
CHECKPOINTS, LIBRARIES = "frontends/pytorch/checkpoints", "frontends/pytorch/libraries"
DEVICE_FILES = "profiles of Nsight Systems and rocprofv3"
PROTOBUFS = "traces as protobufs (Perfetto, XSpace)"
CONFIG = "`config.json` (`hf:`)"
TOML = "conventions, devices, calibrations, topologies"

LIMITS = [
    ("ONNX", "frontends/onnx/walk/walker.py", "MOST_STORED", 100_000, "100,000 nodes"),
    ("ONNX", "frontends/onnx/walk/walker.py", "MOST_NODES", 100_000, "100,000 more"),
    ("ONNX", "frontends/onnx/inference.py", "SECONDS, BYTES", (60, 4 * 2**30), "60 s and 4 GiB"),
    ("TensorFlow Lite", "plugins/costcore-tflite/costcore_tflite/model.py", "MOST_OBJECTS", 10**6, "1,000,000 objects"),
    ("TensorFlow Lite", "plugins/costcore-tflite/costcore_tflite/model.py", "MOST_BYTES", 2**28, "256 MiB"),
    ("Core ML", "plugins/costcore-coreml/costcore_coreml/wire.py", "MOST_FIELDS", 2_000_000, "2,000,000 fields"),
    ("Core ML", "plugins/costcore-coreml/costcore_coreml/wire.py", "MOST_MESSAGES", 100_000, "100,000 operations"),
    ("OpenVINO", "plugins/costcore-openvino/costcore_openvino/model.py", "MOST_TAGS", 2_000_000, "2,000,000 tags"),
    ("OpenVINO", "plugins/costcore-openvino/costcore_openvino/model.py", "MOST_LAYERS", 100_000, "100,000 layers"),
    ("TensorFlow Lite", "costcore/graphs/graph.py", "MOST_NODES", 100_000, "100,000 operators"),
    ("StableHLO", "costcore/graphs/graph.py", "MOST_NODES", 100_000, "100,000 operations"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/model.py", "LARGEST", 2**31, "2 GiB"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/aliases.py", "DEEPEST_TEXT", 200, "200 deep"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/aliases.py", "LONGEST_ALIAS", 10**6, "1,000,000 char"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/to_text.py", "SECONDS", 4, "4 s"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/to_text.py", "MEMORY", 2**30, "1 GiB"),
    ("StableHLO", "plugins/costcore-stablehlo/costcore_stablehlo/to_text.py", "TIMES", 16, "16 times"),
    ("GGUF", f"{CHECKPOINTS}/files.py", "GGUF_MOST_HEADER", 2**28, "256 MiB"),
    ("GGUF", f"{CHECKPOINTS}/files.py", "MOST_TENSORS", 200_000, "200,000 tensors"),
    ("GGUF", f"{CHECKPOINTS}/files.py", "MOST_KEYS", 10_000, "10,000 keys"),
    ("GGUF", f"{CHECKPOINTS}/files.py", "MOST_PARTS", 3_000_000, "3,000,000 texts"),
    ("safetensors", f"{CHECKPOINTS}/files.py", "SAFETENSORS_MOST_HEADER", 2**25, "32 MiB"),
    ("safetensors", f"{CHECKPOINTS}/files.py", "MOST_TENSORS", 200_000, "200,000 tensors"),
    ("safetensors", f"{CHECKPOINTS}/files.py", "SAFETENSORS_MOST_FILES", 2000, "2,000 files"),
    (CONFIG, f"{LIBRARIES}.py", "MOST_CONFIG_BYTES", 2**25, "32 MiB"),
    (CONFIG, f"{LIBRARIES}.py", "MOST_PARTS", 200_000, "200,000 modules"),
    (CONFIG, f"{LIBRARIES}.py", "MOST_SECONDS", 5.0, "5 s"),
    ("traces", "frontends/pytorch/traces/json_stream.py", "MOST", 2**33, "8 GiB"),
    ("traces", "frontends/pytorch/traces/json_stream.py", "MOST_RATIO, UNPACKED", (64, 2**23), "64 times"),
    ("traces", "frontends/pytorch/traces/json_stream.py", "LONGEST_GAP", 2**22, "4 MiB of spaces"),
    ("traces", "frontends/pytorch/traces/json_stream.py", "LONGEST", 2**25, "32 MiB an event"),
    (DEVICE_FILES, "frontends/pytorch/traces/profiler_files.py", "MOST_FIELD", 2**16, "names of 65,536 characters"),
    (DEVICE_FILES, "frontends/pytorch/traces/profiler_files.py", "STEPS_PER_BYTE", 20, "20 times the bytes"),
    (PROTOBUFS, "frontends/pytorch/traces/profiler_files.py", "MOST_BYTES", 2**29, "512 MiB"),
    (PROTOBUFS, "frontends/pytorch/traces/profiler_files.py", "MOST_EVENTS", 4 * 10**6, "4,000,000 events"),
    (PROTOBUFS, "frontends/pytorch/traces/profiler_files.py", "MOST_RATIO, MOST_SMALL", (64, 2**23), "64 times"),
    (PROTOBUFS, "frontends/pytorch/traces/profiler_files.py", "MOST_OPEN", 100_000, "100,000 open"),
    ("profiles of runtimes", "costcore/analyses/measured/join.py", "MOST", 2**29, "512 MiB"),
    (
        "profiles of runtimes",
        "costcore/analyses/measured/join.py",
        "MOST_RATIO, UNPACKED",
        (64, 2**23),
        "64 t",
    ),
    ("profiles of runtimes", "costcore/files.py", "MOST_VALUES", 5_000_000, "5,000,000 values"),
    ("`.pt2` of `torch.export`", "frontends/pytorch/programs.py", "MAX_GRAPH", 2**26, "64 MiB of graph"),
    ("`.keras` of Keras 3", "frontends/keras_files.py", "MAX_BYTES", 2**25, "32 MiB"),
    ("`.keras` of Keras 3", "frontends/keras_files.py", "MAX_OBJECTS", 20_000, "20,000 objects"),
    ("`.keras` of Keras 3", "frontends/keras_files.py", "MAX_DEPTH", 100, "100 levels"),
    ("`.keras` of Keras 3", "frontends/keras_files.py", "MAX_STEPS", 4096, "4,096 steps"),
    (
        "TorchScript, checkpoints (`.pt`, `.pth`)",
        "frontends/pytorch/programs.py",
        "MAX_GRAPH",
        2**26,
        "64 MiB of pickle",
    ),
    ("saved reports", "costcore/files.py", "MOST_BYTES", 2**30, "1 GiB"),
    ("saved reports", "costcore/reports/json.py", "MOST_VALUES", 10**7, "10,000,000 values"),
    ("budgets", "costcore/files.py", "MOST_TOML_BYTES", 2**22, "4 MiB"),
    (TOML, "costcore/files.py", "MOST_PARTS", 100, "100 parts"),
    (TOML, "costcore/analyses/conventions/convention.py", "MAX_LENGTH", 500, "500 characters"),
    ("rows of a sweep (`resume=True`)", "costcore/studies/sweeps/rows.py", "MOST_BYTES", 2**32, "4 GiB"),
    ("rows of a sweep (`resume=True`)", "costcore/studies/sweeps/rows.py", "LONGEST", 10**5, "100,000 characters"),
]


def value_of(node: ast.expr) -> Any:
    """Return what a constant expression of numbers is."""
    if isinstance(node, ast.Tuple):
        return tuple(map(value_of, node.elts))
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    return ast.literal_eval(node)


@pytest.mark.parametrize(("row", "file", "name", "limit", "text"), LIMITS, ids=lambda value: str(value)[-40:])
def test_a_limit_is_that_of_the_code(row, file, name, limit, text):
    assert text in ROWS[row][3]
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).strip("()") == name:
            assert value_of(node.value) == limit
            return
    pytest.fail(f"{file} has no {name}")


def test_every_kind_of_file_has_a_limit_and_tests():
    rows = {name: cells for name, cells in ROWS.items() if name not in ("file", ":--")}
    assert {name for name, *_ in LIMITS} == rows.keys()
    for cells in rows.values():
        (test,) = re.findall(r"`([\w./-]+)`", cells[4])
        assert (ROOT / test).is_file(), test
        assert "def test_" in (ROOT / test).read_text(encoding="utf-8")
