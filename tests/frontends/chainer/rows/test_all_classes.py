"""Every function class of Chainer, ChainerMN and onnx_chainer, wherever it is defined, is counted."""

from __future__ import annotations

import subprocess
import sys

import chainer
import numpy
import pytest
from chainer.graph_optimizations.static_graph import static_graph

from costcore import ComputationalCostHook, CostWarning
from costcore.frontends.chainer.capture import CONTAINERS
from costcore.registry import rows

BASE_CLASSES = {
    *("chainer::FunctionAdapter", "chainer::BaseNStepRNN", "chainer::IndexSelectorBase", "chainer::SelectorBase"),
    *("chainer::Pooling2D", "chainer::_PoolingND"),
}
WITHOUT_HOOKS = {"chainer::TheanoFunction", "chainer::StaticScheduleFunction"}
"""They run compiled code or a recorded schedule, inside which Chainer does not call hooks: reported as unsupported.

While a hook is open, static graphs run as ordinary code, so a schedule runs only backward, of a pass before the hook.
"""

SCAN = """
import importlib, pkgutil, warnings
import costcore.frontends.chainer
from costcore.frontends.chainer.arrays import function_classes, native_name

warnings.simplefilter("ignore")
for package in ("chainer", "chainermn", "onnx_chainer"):
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, f"{package}.", onerror=lambda name: None):
        try:
            importlib.import_module(found.name)
        except (ImportError, TypeError):  # it needs a package that is missing, such as mpi4py, or an older protobuf
            print("-", found.name)
for function in function_classes():
    print(native_name(function))
"""

UNIMPORTABLE = {
    *("chainer.exporters", "chainer.gradient_check", "chainer.links.caffe", "chainer.testing"),
    *("chainermn.communicators", "onnx_chainer"),
}
"""The packages whose modules may lack something to import; none of them defines a function, by reading them."""


@pytest.fixture(scope="module")
def scan() -> list[str]:
    run = subprocess.run([sys.executable, "-c", SCAN], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_every_class_has_a_row_or_is_a_container(scan):
    classes = {line for line in scan if not line.startswith("- ")}
    priced = classes & {row.native for row in rows("chainer")}
    assert classes - priced == BASE_CLASSES | WITHOUT_HOOKS | set(CONTAINERS)
    assert len(priced) == 278


def test_only_modules_without_functions_are_not_scanned(scan):
    missing = {line.removeprefix("- ") for line in scan if line.startswith("- ")}
    assert {name for name in missing if not name.startswith(tuple(UNIMPORTABLE))} == set()


class Static(chainer.Chain):
    """A link that Chainer runs as a static graph from its second iteration on."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.linear = chainer.links.Linear(3, 4)

    @static_graph
    def forward(self, x):
        return chainer.functions.relu(self.linear(x))


@pytest.mark.usefixtures("quiet")
def test_the_backward_pass_of_a_static_graph_run_before_the_hook_is_reported_as_unsupported():
    link = Static()
    with chainer.using_config("use_static_graph", True):
        for _ in range(2):
            y = link(chainer.Variable(numpy.ones((2, 3), "float32")))
            y.grad = numpy.ones_like(y.array)
            y.backward()
        y = link(chainer.Variable(numpy.ones((2, 3), "float32")))
        y.grad = numpy.ones_like(y.array)
        with pytest.warns(CostWarning, match="StaticSchedule"), ComputationalCostHook(frontends=["chainer"]) as hook:
            y.backward()
    assert list(hook.ignored_layers) == ["StaticScheduleFunction-1"]
