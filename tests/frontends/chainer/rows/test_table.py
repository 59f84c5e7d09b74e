"""The table maps functions that exist to operators that have a formula."""

from __future__ import annotations

import chainer
import chainermn  # noqa: F401 - defines functions
import pytest
from chainer import functions

from costcore.frontends.chainer.arrays import function_classes, native_name
from costcore.frontends.chainer.rows import ROWS
from costcore.registry import calculators, load

FUNCTIONS = {native_name(found) for found in function_classes()}

PREDECESSOR = (  # the functions that chainer-computational-cost 0.1.2 has formulas for, by their current names
    *("ReLU", "LeakyReLU", "PReLUFunction", "Sigmoid", "Softmax"),
    *("BroadcastTo", "Concat", "GetItem", "Reshape", "ResizeImages", "Transpose"),
    *("Convolution2DFunction", "Deconvolution2DFunction", "LinearFunction", "Shift"),
    *("Add", "AddConstant", "Div", "DivFromConstant", "Mul", "MulConstant", "Sub", "SubFromConstant"),
    *("ArgMax", "ArgMin", "Max", "Min", "Sum"),
    *("FixedBatchNormalization", "LocalResponseNormalization", "NormalizeL2"),
    *("AveragePooling2D", "MaxPoolingND", "Unpooling2D", "Upsampling2D"),
)


@pytest.mark.parametrize("native", sorted({row.native for row in ROWS}))
def test_every_key_is_a_function_of_the_installed_chainer_or_its_backward(native):
    assert native in FUNCTIONS or native.removesuffix("Backward") in FUNCTIONS


@pytest.mark.parametrize("op", sorted({op for row in ROWS for op in (row.ops or (row.op,))}))
def test_every_operator_has_a_formula(op):
    assert op in calculators()


def test_functions_of_the_predecessor_have_rows():
    assert {f"chainer::{name}" for name in PREDECESSOR} <= {row.native for row in ROWS}


def test_native_names_of_chainers_functions_are_unique():
    own = [found for found in function_classes() if found.__module__.startswith("chainer.")]
    assert len({native_name(found) for found in own}) == len(own) > 250


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
