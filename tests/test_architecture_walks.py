"""The walks of ARCHITECTURE.md name what runs: all files and names that they list are entered, functions in order.

Sentences that begin with *With* or *For* say what other options enter, and are not held to this.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from costcore import ComputationalCostHook, estimate
from costcore.plugins import clear_caches

ROOT = Path(__file__).parents[1]
WALKS = dict(part.split("\n", 1) for part in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("\n## ")[1:])
TO_A_TABLE = "From calls to a table"
STEP = re.compile(r"^(?:\d+\. |\n)", re.MULTILINE)
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
NAMED = re.compile(r"`([\w/]+\.py)`((?:(?:\s+|\s+and\s+)`\w+`)*)")


class Entered:
    """What of the repository runs: its functions, and the classes of what these take and return.

    What runs while a module is imported does not count: it says nothing of the call that imports it.
    """

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}
        self.values: dict[int, Any] = {}
        self._importing = 0

    def __enter__(self) -> Entered:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def __contains__(self, named: tuple[str, str]) -> bool:
        """Return whether a name of a file was entered; a file of rows, whether one of its rows was taken."""
        file, _ = named
        if "/rows/" not in file:
            return named in self.names
        return any(id(row) in self.values for row in import_module("costcore." + file[:-3].replace("/", ".")).ROWS)

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED:  # a module, or the body of a class
            self._importing += 1 if event == "call" else -1
        elif not self._importing and event == "call":
            self._note(code.co_filename, code.co_name)
            self._note(code.co_filename, "")
            for argument in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                self._take(frame.f_locals.get(argument))
        elif not self._importing:
            self._take(value)

    def _note(self, file: str, name: str) -> None:
        self.names.setdefault((Path(file).relative_to(ROOT).as_posix(), name), len(self.names))

    def _take(self, value: Any) -> None:
        of = value if isinstance(value, type) else type(value)
        for base in of.__mro__:
            file = getattr(sys.modules.get(base.__module__), "__file__", None) or ""
            if file.startswith(str(ROOT)):
                self._note(file, base.__name__)
                self.values[id(value)] = value


def listed(title: str) -> list[tuple[str, str]]:
    """The files of a walk with each name that it lists, empty for a file alone, in their order."""
    (walk,) = (text for heading, text in WALKS.items() if heading.startswith(title))
    sentences = [sentence for step in STEP.split(walk) for sentence in SENTENCE.split(step.strip())]
    held = [sentence for sentence in sentences if not sentence.startswith(("With ", "For "))]
    return [
        (file, name)
        for sentence in held
        for file, names in NAMED.findall(sentence)
        for name in re.findall(r"`(\w+)`", names) or [""]
    ]


def check(run: Callable[[], object], *titles: str) -> None:
    """Check that a run enters all that walks list, their functions in the same order."""
    clear_caches()  # earlier tests may have read the same files
    with Entered() as entered:
        run()
    for names in map(listed, titles):
        assert len(names) > 4
        assert [named for named in names if named not in entered] == []
        functions = [(file, name) for file, name in names if name.islower()]
        assert functions == sorted(functions, key=entered.names.__getitem__)


def network(features=4):
    import torch

    return torch.nn.Sequential(torch.nn.Linear(8, features), torch.nn.ReLU())


@pytest.mark.frontend("pytorch")
def test_the_walk_of_a_pytorch_operator():
    net = network(4093)  # a call that no other test has made in this process: equal ones are replayed
    check(lambda: estimate(net, (1, 8)).show_report(), "One PyTorch operator", TO_A_TABLE)


@pytest.mark.frontend("onnx")
def test_the_walk_of_an_onnx_node(tmp_path):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in (("w", (4, 8)), ("b", 4))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 8), ("y", 4)))
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    graph = helper.make_graph([gemm], "graph", [x], [y], weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for function in vars(import_module("costcore.frontends.onnx.operators")).values():
        if hasattr(function, "cache_clear"):  # other models may have had the same operators
            function.cache_clear()
    check(lambda: estimate(path).show_report(), "One ONNX node", TO_A_TABLE)


@pytest.mark.frontend("chainer")
def test_the_walk_of_a_chainer_function():
    import costcore.frontends.chainer.compat  # noqa: F401, I001
    import chainer
    import numpy as np

    link = chainer.links.Linear(8, 4)

    def run():
        with ComputationalCostHook() as hook:
            link(np.zeros((1, 8), np.float32))
        hook.report.show_report()

    check(run, "One Chainer function", TO_A_TABLE)


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize(
    ("title", "ask"),
    [
        ("Fused bytes", lambda report: report.fused("pointwise").show_report()),
        ("One convention", lambda report: report.under("fvcore").show_report()),
        ("One time", lambda report: report.time(device="l4").show_report()),
    ],
)
def test_the_walk_of_an_analysis(title, ask):
    report = estimate(network(), (1, 8))
    check(lambda: ask(report), title)


@pytest.mark.frontend("pytorch")
def test_a_name_that_does_not_run_is_found():
    net = network()
    with Entered() as entered:
        estimate(net, (1, 8))
    assert ("frontends/pytorch/estimate.py", "estimate") in entered
    assert ("costcore/ledger/ledger.py", "Ledger") not in entered
    assert ("frontends/pytorch/rows/conv.py", "") not in entered
