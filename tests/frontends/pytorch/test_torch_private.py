"""The register of private names of PyTorch is complete, and says what is true of the release that is installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from costcore.frontends.pytorch import torch_private
from costcore.frontends.pytorch.torch_private import REGISTER, described, is_there

ROOM = Path(torch_private.__file__).parent
HERE = Path(__file__).parent
OF_OTHERS = {
    *("_asdict", "_current_frames", "_fields", "_getframe", "_make", "_replace", "_target"),
    *("_layers", "_non_trainable_variables", "_trainable_variables"),
}
"""Names of Python and of Keras that begin with an underscore."""

BY_NAME = {"delattr", "getattr", "hasattr", "replace", "setattr"}
"""Functions that take the name of an attribute as their second or third argument."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_OTHERS and name != "_"


def private_names(source: str) -> Iterator[str]:
    """Yield every private name that a file reads of a library; operators, behind ``torch.ops``, are not names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls") and not owner.startswith("torch.ops.") and owner != "_aten":
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("torch"):
            module = node.module or ""
            yield from (part for part in (*module.split("."), *(a.name for a in node.names)) if is_private(part))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            texts = (x.value for x in node.args[1:3] if isinstance(x, ast.Constant) and isinstance(x.value, str))
            yield from filter(is_private, texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("torch."):
            parts = node.value.split(".")
            yield from filter(is_private, parts if all(map(str.isidentifier, parts)) else ())


USED = {
    name
    for file in ROOM.rglob("*.py")
    if file.name != "torch_private.py"
    for name in private_names(file.read_text(encoding="utf-8"))
}


def test_every_private_name_has_a_row():
    assert sorted(USED - {row.name for row in REGISTER}) == []


def test_every_row_is_used():
    assert sorted({row.name for row in REGISTER} - USED) == []


@pytest.mark.parametrize("row", REGISTER, ids=lambda row: f"{row.owner}.{row.name}")
def test_what_is_needed_is_there_and_has_a_test(row):
    if row.is_needed and not row.releases:
        assert is_there(row) in (True, None), f"{row.name} is missing in this PyTorch: {row.purpose}"
    assert (HERE / row.test).exists()


def test_the_register_is_printed():
    lines = [*described()]
    assert len(lines) == len(REGISTER)
    assert any("_current_autograd_node" in line and line.startswith("there") for line in lines)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("torch._C._get()", {"_C", "_get"}),
        ("from torch._ops import OpOverload", {"_ops"}),
        ("getattr(module, '_x', None)", {"_x"}),
        ("replace(stack, torch, '_x', f)", {"_x"}),
        ("import_module('torch.distributed._tensor')", {"_tensor"}),
        ("self._mine + cls._mine + x.__dict__ + torch.ops.aten._softmax", set()),
    ],
)
def test_the_walk_sees_private_names(source, names):
    assert set(private_names(source)) == names
