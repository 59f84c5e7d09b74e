"""Faults of chainer-computational-cost 0.1.2, by number: each with the right cost worked out by hand."""

from __future__ import annotations

import csv
import io

import chainer
import chainer.functions as F  # noqa: N812 - as Chainer's manual has it
import numpy as np
import pytest

from costcore import ComputationalCostHook


def x(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def v(*shape):
    return chainer.Variable(x(*shape))


def pooled_and_back(values):
    y, indexes = F.max_pooling_2d(values, 2, return_indices=True)
    return F.upsampling_2d(y, indexes, 2, outsize=(4, 4))


FORMULAS = {
    # name: (what runs, [type, FLOPs with FMA 1 and 2, bytes read and written])
    # 5 outputs of 3 products accumulated onto the bias, which is not a separate operation
    "1 bias of linear": (
        lambda: F.linear(x(1, 3), x(5, 3), x(5)),
        [("LinearFunction", 15, 30, 4 * (3 + 15 + 5), 4 * 5)],
    ),
    # 4 rows of them
    "2, 3 bias and output of a batch": (
        lambda: F.linear(x(4, 3), x(5, 3), x(5)),
        [("LinearFunction", 60, 120, 4 * (12 + 15 + 5), 4 * 20)],
    ),
    # 8 -> 8 channels, 3 x 3, 6 x 6 results, no bias: 288 dot products of length 72
    "4 convolution without bias": (
        lambda: F.convolution_2d(x(1, 8, 8, 8), x(8, 8, 3, 3)),
        [("Convolution2DFunction", 288 * 72, 41184, 4 * (512 + 576), 4 * 288)],
    ),
    "4 in 2 groups": (
        lambda: F.convolution_2d(x(1, 8, 8, 8), x(8, 4, 3, 3), groups=2),
        [("Convolution2DFunction", 288 * 36, 20448, 4 * (512 + 288), 4 * 288)],
    ),
    # each channel separately: 288 dot products of length 9
    "5 depthwise": (
        lambda: F.convolution_2d(x(1, 8, 8, 8), x(8, 1, 3, 3), groups=8),
        [("Convolution2DFunction", 288 * 9, 4896, 4 * (512 + 72), 4 * 288)],
    ),
    # 27 elements times 3 * 9 products, added onto an output of the given size, which starts at the bias or at zero
    "6 deconvolution": (
        lambda: F.deconvolution_2d(x(1, 3, 3, 3), x(3, 3, 3, 3), stride=3, outsize=(10, 10)),
        [("Deconvolution2DFunction", 27 * 27, 2 * 27 * 27, 4 * (27 + 81), 1200)],
    ),
    "6 with a bias": (
        lambda: F.deconvolution_2d(x(1, 3, 3, 3), x(3, 3, 3, 3), x(3), stride=3),
        [("Deconvolution2DFunction", 27 * 27, 2 * 27 * 27, 4 * (27 + 81 + 3), 972)],
    ),
    # window 3: 6 FLOPs, or 7, for each of 5 * 4 * 2 elements
    "7 local response normalization of a batch": (
        lambda: F.local_response_normalization(x(5, 4, 2, 1), n=3, k=1.5),
        [("LocalResponseNormalization", 40 * 6, 40 * 7, 160, 160)],
    ),
    # 2 rows of 6: 6 exp, 5 add, 6 div
    "8 softmax along a negative axis": (lambda: F.softmax(x(2, 6), axis=-1), [("Softmax", 34, 34, 48, 48)]),
    "8 softmax of a vector": (lambda: F.softmax(x(6), axis=0), [("Softmax", 17, 17, 24, 24)]),
    "9 constants": (
        lambda: (v(3, 4) + 2.5) * 2,
        [("AddConstant", 12, 12, 48, 48), ("MulConstant", 12, 12, 48, 48)],
    ),
    "10 broadcast both ways": (
        lambda: (v(3, 1) + v(1, 4), v(3, 1) * v(1, 4)),
        [("Add", 12, 12, 4 * (3 + 4), 48), ("Mul", 12, 12, 4 * (3 + 4), 48)],
    ),
    # int32 indices for any dtype of the values
    "11 argmax of float16": (
        lambda: F.argmax(x(4, 8, dtype="float16"), axis=1),
        [("ArgMax", 4 * 7, 4 * 7, 64, 4 * 4)],
    ),
    "11 float16 values, float32 parameters": (
        lambda: F.fixed_batch_normalization(x(2, 3, dtype="float16"), x(3), x(3), x(3), x(3)),
        [("FixedBatchNormalization", 6, 12, 2 * 6 + 4 * 2 * 3, 2 * 6)],
    ),
    # 2 x 2 windows of [1, 1, 4, 4]; on a CPU the indexes of the maxima are int64
    "11 upsampling with indexes": (
        lambda: pooled_and_back(x(1, 1, 4, 4)),
        [("MaxPoolingND", 4 * 3, 4 * 3, 64, 16 + 4 * 8), ("Upsampling2D", 0, 0, 16 + 4 * 8, 64)],
    ),
    # parameters of shape (3, 4, 4): 48 of them, twice
    "12 batch normalization with one parameter per element": (
        lambda: F.fixed_batch_normalization(*[x(2, 3, 4, 4), *[x(3, 4, 4)] * 4]),
        [("FixedBatchNormalization", 96, 192, 4 * (96 + 2 * 48), 4 * 96)],
    ),
    # training, 3 channels of m = 4 elements, each 2m + 2 fma, 5 mul, 2m add, 3 div, 1 special (DETAILS.md, batch_norm);
    # x, two parameters and two running statistics are read; y and the statistics written
    "12 batch normalization in training": (
        lambda: F.batch_normalization(x(4, 3), x(3), x(3), running_mean=x(3), running_var=x(3)),
        [("BatchNormalization", 3 * (10 + 5 + 8 + 3 + 1), 3 * (20 + 17), 4 * (12 + 4 * 3), 4 * (12 + 2 * 3))],
    ),
    # 2 rows of 3 * 4: per row 12 products, a root, +eps, 12 divisions
    "13 L2 normalization along two axes": (
        lambda: F.normalize(x(2, 3, 4), axis=(1, 2)),
        [("NormalizeL2", 2 * (12 + 2 + 12), 2 * (2 * 12 - 1 + 2 + 12), 96, 96)],
    ),
    "14 sum of nothing": (lambda: F.sum(x(0, 3)), [("Sum", 0, 0, 0, 4)]),
    "14 maximum of one": (lambda: F.max(x(1)), [("Max", 0, 0, 4, 4)]),
    # 9 FLOPs per element; each of 16 or 64 elements of y needs 4 of x, which has 16 or 64
    "15 resize to few": (lambda: F.resize_images(x(1, 1, 8, 8), (2, 2)), [("ResizeImages", 36, 36, 4 * 16, 16)]),
    "15 resize to many": (lambda: F.resize_images(x(1, 1, 8, 8), (9, 9)), [("ResizeImages", 729, 729, 4 * 64, 324)]),
    "15 output of a batch": (
        lambda: F.convolution_2d(x(2, 1, 3, 3), x(1, 1, 3, 3), x(1)),
        [("Convolution2DFunction", 18, 36, 4 * (18 + 9 + 1), 4 * 2)],
    ),
    # 3 x 3 windows at stride 2 over 4 + 2: 3 x 3 of them if the last one is partial, which counts as a whole one
    "15 windows on padding and beyond the edge": (
        lambda: F.max_pooling_2d(x(1, 1, 4, 4), 3, stride=2, pad=1),
        [("MaxPoolingND", 9 * 8, 9 * 8, 64, 36)],
    ),
    "15 average on padding": (
        lambda: F.average_pooling_2d(x(1, 1, 4, 4), 2, stride=2, pad=1),
        [("AveragePooling2D", 9 * 4, 9 * 4, 64, 36)],
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    run, expected = FORMULAS[name]
    hooks = [ComputationalCostHook(fma_1flop=fma, frontends=["chainer"]) for fma in (True, False)]

    with hooks[0], hooks[1]:
        run()

    for hook, flops in zip(hooks, (1, 2), strict=True):
        entries = hook.layer_report.values()
        assert [(e["type"], e["flops"], e["mread"], e["mwrite"]) for e in entries] == [
            (row[0], row[flops], row[3], row[4]) for row in expected
        ]


def test_18_documented_columns_have_a_total():
    with ComputationalCostHook() as cch:
        F.relu(x(2, 3))
    stream = io.StringIO()
    cch.show_report(stream, columns=["name", "input_shapes", "output_shapes", "params", "flops"])
    assert stream.getvalue().splitlines()[-1] == "total,,,,6"


def test_20_texts_are_quoted():
    class Odd(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0].copy(),)

    Odd.__name__ = 'a,b|"c"'
    cch = ComputationalCostHook()
    cch.add_custom_cost_calculator(Odd, lambda func, in_data, **kwargs: (1, 2, 3, {"text": "x,y|z"}))
    with cch:
        Odd().apply((x(3),))

    comma, bar = io.StringIO(), io.StringIO()
    cch.show_report(comma, columns=["name", "params"])
    cch.show_report(bar, columns=["name", "params"], mode="md")
    assert list(csv.reader(io.StringIO(comma.getvalue())))[1] == ['a,b|"c"-1', "text=x,y|z"]
    assert r"a,b\|" in bar.getvalue() and r"x,y\|z" in bar.getvalue()


def test_22_old_style_functions_and_arguments_by_both_names():
    with ComputationalCostHook() as cch:
        F.hinge(x(2, 3), np.zeros(2, "int32"))
        F.r2_score(x(4, 3), x(4, 3))
    assert list(cch.layer_report) == ["Hinge-1", "R2_score-1"]

    stream = io.StringIO()
    with pytest.raises(TypeError, match="ost and dst"):
        cch.show_report(ost=stream, dst=stream)
    cch.show_report(dst=stream)
    assert stream.getvalue().startswith("Layer name,FLOPs,MemRead B")
