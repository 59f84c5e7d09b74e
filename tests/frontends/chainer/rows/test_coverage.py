"""Every function of Chainer is covered: the classes of the installed packages, and a run of each public function."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chainer
import chainermn  # noqa: F401 - defines functions
import numpy
import pytest
from chainer import functions
from chainer.functions.theano.theano_function import TheanoFunction
from chainer.graph_optimizations.static_graph import static_graph

from costcore import ComputationalCostHook, CostWarning
from costcore.frontends.chainer.arrays import tensor
from costcore.frontends.chainer.capture import CONTAINERS
from costcore.ir import Layer, Operations
from costcore.registry import calculators, load, rows
from costcore.translate import Native, Translator
from tests.frontends.chainer.function_calls import CALLS, i, x
from tests.frontends.chainer.run_function import counted, outcome

CLASSES = json.loads((Path(__file__).parents[3] / "data" / "chainer_functions.json").read_text())
CLASSES = {kind: {name.rpartition(".")[2] for name in CLASSES[kind]} for kind in ("forward", "backward")}

BASES = {"BaseNStepRNN", "IndexSelectorBase", "Pooling2D", "SelectorBase", "_PoolingND"}
UNSUPPORTED = {"TheanoFunction"}
"""Runs a function that Theano compiled, inside which Chainer does not call hooks: it is reported as unsupported."""

NEEDS_SCIPY = (
    *("digamma", "erfcinv", "erfcx", "erfinv", "lgamma", "log_ndtr", "ndtri", "polygamma", "zeta"),
    *("sparse_matmul", "sparse_matmul, dense first"),
)
SCIPY_CLASSES = {
    *("CooMatMul", "CooMatMulGradSP", "DiGamma", "ErfInv", "ErfcInv", "Erfcx", "LGamma", "LogNdtr", "Ndtri"),
    *("PolyGamma", "Zeta"),
}
GPU_CLASSES = {
    *("ClippedReLUGrad3", "CudnnRNNWeightConcat", "DropoutGradCuDNN", "ReLUGradCudnn", "RsqrtGPU"),
    *("NStepBiGRU", "NStepBiLSTM", "NStepBiRNNReLU", "NStepBiRNNTanh"),
    *("NStepGRU", "NStepLSTM", "NStepRNNReLU", "NStepRNNTanh"),
}


def test_theano_function_is_reported_as_unsupported():
    compiled = type("Compiled", (), {"indices": [], "__call__": lambda self: [numpy.ones(3, "float32")]})()

    with pytest.warns(CostWarning, match="TheanoFunction"), ComputationalCostHook(frontends=["chainer"]) as hook:
        TheanoFunction(compiled, None)()

    assert list(hook.ignored_layers) == ["TheanoFunction-1"]
    assert hook.total_report["flops"] == 0


def test_every_public_function_is_called():
    public = {name for name, f in vars(functions).items() if not name.startswith("_") and inspect.isroutine(f)}
    assert {name.partition(",")[0] for name in CALLS} == public
    assert len(public) == 216


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_are_those_without_the_hook_and_every_call_has_a_cost(name):
    try:
        expected, left = outcome(name)
    except (ImportError, RuntimeError) as error:
        assert name in NEEDS_SCIPY
        with pytest.raises(type(error), match=r"(?i)scipy"), ComputationalCostHook(frontends=["chainer"]):
            outcome(name)
        assert not chainer.get_function_hooks()
        return

    hook, results, state = counted(name)

    assert hook.ignored_layers == {}
    assert state == left
    assert hook.layer_report or name in ("ceil", "fix", "floor", "sign")  # Chainer computes these without a function
    for result, wanted in zip(results, expected, strict=True):
        numpy.testing.assert_array_equal(result, wanted)


TWICE = (
    *("lstm", "slstm", "group_normalization", "clipped_relu", "max_pooling_2d", "elu", "bilinear", "batch_matmul"),
    *("normalize", "einsum, a trace", "einsum, three", "softmax_cross_entropy, twice"),
)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", TWICE)
def test_gradients_of_gradients_have_a_cost(name):
    hook, results, _ = counted(name, twice=True)

    assert hook.ignored_layers == {}
    for result, wanted in zip(results, outcome(name, twice=True)[0], strict=True):
        numpy.testing.assert_array_equal(result, wanted)
    assert {entry["phase"] for entry in hook.layer_report.values()} == {"forward", "backward"}


@pytest.mark.usefixtures("quiet")
def test_classes_that_no_call_of_the_table_runs():
    runs = [(name, False) for name in CALLS if name not in NEEDS_SCIPY] + [(name, True) for name in TWICE]
    types = {entry["type"] for run in runs for entry in counted(*run)[0].layer_report.values()}
    classes = CLASSES["forward"] | CLASSES["backward"]
    containers = {"Forget"}
    assert classes - types - SCIPY_CLASSES == GPU_CLASSES | UNSUPPORTED | containers | (BASES & classes)


def translated(name: str, inputs: list[Any], outputs: list[Any], gradients: list[Any] = (), **attributes: Any) -> Layer:
    function = SimpleNamespace(**attributes)
    arguments = {"function": function, "origin": None, "inputs": inputs, "gradients": gradients}
    translation = Translator(rows("chainer"), tensor)(Native(f"chainer::{name}", arguments, outputs))
    assert translation.has_row
    return translation.layer


def cost_of(layer: Layer) -> Any:
    return calculators()[layer.op](layer)


# 2 layers of 3 units over 4 features, 2 sequences with 5 steps in total; for each layer its inputs and its state
LENGTHS = {1: (4 + 3) + (3 + 3), 2: (4 + 3) + (6 + 3)}


@pytest.mark.parametrize(
    ("name", "op", "gates", "directions"),
    [
        ("NStepLSTM", "lstm", 4, 1),
        ("NStepBiLSTM", "lstm", 4, 2),
        ("NStepGRU", "gru", 3, 1),
        ("NStepBiGRU", "gru", 3, 2),
        ("NStepRNNTanh", "rnn", 1, 1),
        ("NStepBiRNNTanh", "rnn", 1, 2),
        ("NStepRNNReLU", "rnn", 1, 1),
        ("NStepBiRNNReLU", "rnn", 1, 2),
    ],
)
def test_recurrent_layers_of_cudnn(name, op, gates, directions):
    products = 5 * 3 * directions * LENGTHS[directions] * gates
    weights, biases = 3 * directions * LENGTHS[directions] * gates, 2 * 2 * directions * gates * 3
    states = [x(2 * directions, 2, 3)] * (2 if op == "lstm" else 1)
    inputs = [*states, x(weights + biases, 1, 1), x(5, 4)]
    y = x(5, 3 * directions)

    forward = translated(name, inputs, [*states, y], n_layers=2)
    cost = cost_of(forward)
    assert (forward.op, cost.macs) == (op, products)
    n_states = 2 * directions * 2 * 3 * len(states)
    assert cost.mread == 4 * (5 * 4 + n_states + weights + biases)
    assert cost.mwrite == 4 * (5 * 3 * directions + n_states)
    assert cost.flops.fma >= products  # all products, accumulated onto biases

    backward = translated(f"{name}Backward", inputs, [*states, *inputs[-2:]], [*states, y], n_layers=2)
    assert (backward.op, cost_of(backward).macs) == (f"{op}_backward", 2 * products)


def test_functions_that_run_on_a_gpu_only():
    weights = [x(3, 4), x(3, 3), x(3), x(3)]
    joined = translated("CudnnRNNWeightConcat", weights, [x(27, 1, 1)])
    assert (joined.op, cost_of(joined).mread, cost_of(joined).mwrite) == ("concat", 4 * 27, 4 * 27)
    split = translated("CudnnRNNWeightConcatBackward", weights, weights, [x(27, 1, 1)])
    assert (split.op, cost_of(split).mread, cost_of(split).mwrite) == ("split", 4 * 27, 4 * 27)

    # dy at the positions that the states of cuDNN's dropout, a bit mask of 3 bytes, keep
    dropped = translated("DropoutGradCuDNN", [x(4, 6)], [x(4, 6)], states=numpy.zeros(3, "uint8"))
    assert cost_of(dropped)[:3] == (Operations(mul=24), 4 * 24 + 3, 4 * 24)

    clipped = translated("ClippedReLUGrad3", [x(6)], [x(6)], x=x(6), y=x(6), cap=2)
    assert cost_of(clipped)[:3] == (Operations(cmp=12), 4 * 12, 4 * 6)
    rectified = translated("ReLUGradCudnn", [x(6)], [x(6)], x=x(6), y=x(6))
    assert cost_of(rectified)[:3] == (Operations(cmp=6), 4 * 12, 4 * 6)
    assert cost_of(translated("RsqrtGPU", [x(6)], [x(6)])).flops == Operations(div=6, special=6)


def test_sparse_products():
    """[2, 3] with 3 nonzero elements, times [3, 4]: 3 * 4 products; the gradient has 3 dot products of length 4."""
    places = {"sp_row": i(0, 1, 1), "sp_col": i(0, 0, 2), "transa": False}
    product = cost_of(translated("CooMatMul", [x(3), x(4, 3)], [x(2, 4)], **places, transb=True))
    assert product[:3] == (Operations(fma=12), 4 * (3 + 12 + 3 + 3), 4 * 8) and product.macs == 12
    gradient = cost_of(translated("CooMatMulGradSP", [x(2, 4), x(3, 4)], [x(3)], **places, transb=True))
    assert gradient[:3] == (Operations(mul=3, fma=9), 4 * (8 + 12 + 3 + 3), 4 * 3) and gradient.macs == 12


def test_inverse_of_a_triangle_by_scipy():
    """3 x 3: 3 reciprocals; 3 elements of 1, 1 and 2 products, negated and divided; the zeros are not read."""
    cost = cost_of(translated("TriangularInv", [x(3, 3)], [x(3, 3)], _lower=True))
    assert cost[:3] == (Operations(fma=1, mul=3, add=3, div=3 + 3), 4 * 6, 4 * 9)


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


class Mine(chainer.FunctionNode):
    """A function of a user."""


class ReLU(functions.activation.relu.ReLU):
    """A function of a user with the name of a function of Chainer."""


@pytest.mark.parametrize(
    ("op", "names"),
    [
        (functions.math.basic_math.Add, ("chainer::Add",)),
        ("Add", ("chainer::Add",)),
        ("chainer::Add", ("chainer::Add",)),
        ("MaxPooling2D", ("chainer::MaxPoolingND",)),
        ("NStepLSTM", ("chainer::NStepLSTM",)),  # an old-style function
        (functions.rnn.n_step_lstm.NStepLSTM, ("chainer::NStepLSTM",)),
        (Mine, ("tests::Mine",)),
        ("tests::Mine", ("tests::Mine",)),
        (ReLU, ("tests::ReLU",)),
        ("ReLU", ("chainer::ReLU",)),
        ("conv", ()),
        ("Conv", ()),
        ("ai.onnx::Add", ()),
        (functions.relu, ()),
        (int, ()),
        (None, ()),
    ],
)
def test_native_names(op, names):
    assert load("chainer").native_names(op) == names
