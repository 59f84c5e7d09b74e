"""Normalisations and softmax against their executed definitions and figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, exp, fma, log, power, sqrt, total
from tests.calculators.layers import cost as priced

EPS = 1e-5


def moments(row):
    """The differences from the mean, the mean, the variance, and 1 / sqrt(variance + eps)."""
    mean = total(row) / len(row)
    differences = [value - mean for value in row]
    variance = dot(differences, differences) / len(row)
    return differences, mean, variance, 1 / sqrt(variance + EPS)


def scaled(values, w=None, b=None):
    """Weight and bias, as far as given."""
    if w is None:
        return values if b is None else [v + c for v, c in zip(values, b, strict=True)]
    if b is None:
        return [v * a for v, a in zip(values, w, strict=True)]
    return [fma(v, a, c) for v, a, c in zip(values, w, b, strict=True)]


def layer_norm(rows, **affine):
    for row in rows:
        differences, _, _, inverse = moments(row)
        scaled([d * inverse for d in differences], **affine)


def rms_norm(rows, **affine):
    for row in rows:
        inverse = 1 / sqrt(dot(row, row) / len(row) + EPS)
        scaled([value * inverse for value in row], **affine)


def l2_normalize(rows):
    for row in rows:
        length = sqrt(dot(row, row)) + EPS
        for value in row:
            value / length


def l1_normalize(rows):
    for row in rows:
        length = total([abs(value) for value in row])
        for value in row:
            value / length


def mean_variance_norm(rows):
    for row in rows:
        mean = total(row) / len(row)
        differences = [value - mean for value in row]
        deviation = sqrt(dot(differences, differences) / len(row)) + EPS
        for difference in differences:
            difference / deviation


def batch_norm(x, w=None, b=None, mean=None, var=None):
    """Training, over the channels of x[N, C, L]."""
    for c in range(x.shape[1]):
        _, average, variance, inverse = moments(list(x[:, c].flat))
        scale = inverse if w is None else w[c] * inverse
        shift = -(average * scale) if b is None else fma(average, scale, b[c])  # a fused operation has either sign
        for value in x[:, c].flat:
            fma(value, scale, shift)
        if mean is not None:
            unbiased = variance * 1.1
            for running, new in ((mean[c], average), (var[c], unbiased)):
                fma(0.1, new, 0.9 * running)


AFFINE = [(), ("w",), ("b",), ("w", "b")]


@pytest.mark.parametrize("given", AFFINE)
@pytest.mark.parametrize(("op", "definition"), [("layer_norm", layer_norm), ("rms_norm", rms_norm)])
def test_norms_of_rows_are_their_definitions(op, definition, given):
    operands = {"x": (3, 5)} | dict.fromkeys(given, (5,))
    done = count(lambda x, *affine: definition(x, **dict(zip(given, affine, strict=True))), *operands.values())
    cost = priced(op, operands, (3, 5), axis=(1,))
    assert cost.flops == done
    assert (cost.mread, cost.mwrite, cost.macs) == (4 * (15 + 5 * len(given)), 4 * 15, 0)


@pytest.mark.parametrize(
    ("op", "definition"),
    [("l2_normalize", l2_normalize), ("l1_normalize", l1_normalize), ("mean_variance_norm", mean_variance_norm)],
)
def test_normalisations_without_weight_are_their_definitions(op, definition):
    cost = priced(op, {"x": (2, 3, 4)}, (2, 3, 4), axis=(0, 2))
    assert cost.flops == count(lambda x: definition(x.transpose(1, 0, 2).reshape(3, 8)), (2, 3, 4))
    assert (cost.mread, cost.mwrite) == (4 * 24, 4 * 24)


def test_layer_norm_by_hand():
    """Two rows of c = 4 elements in two axes: 2c-1 fma, c+1 mul, 2c add, 3 div, 1 special."""
    cost = priced("layer_norm", {"x": (2, 2, 2), "w": (2, 2), "b": (2, 2)}, (2, 2, 2), axis=(1, 2))
    assert cost.flops == Operations(fma=2 * 7, mul=2 * 5, add=2 * 8, div=2 * 3, special=2)


@pytest.mark.parametrize("given", AFFINE)
@pytest.mark.parametrize(("op", "settings", "rows"), [("group_norm", {"groups": 2}, 4), ("instance_norm", {}, 8)])
def test_group_and_instance_norm_are_layer_norms(op, settings, rows, given):
    """x[2, 4, 3]: two groups a sample are 4 rows of 6, instances 8 rows of 3."""
    operands = {"x": (2, 4, 3)} | dict.fromkeys(given, (4,))
    per_row = 24 // rows

    def definition(x, *affine):
        vectors = {name: np.repeat(v, 3)[:per_row] for name, v in zip(given, affine, strict=True)}
        layer_norm(x.reshape(rows, per_row), **vectors)

    cost = priced(op, operands, (2, 4, 3), **settings)
    assert cost.flops == count(definition, *operands.values())
    assert cost.mread == 4 * (24 + 4 * len(given))


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("given", AFFINE)
def test_batch_norm_in_training_is_its_definition(given, running):
    statistics = ("mean", "var") if running else ()
    operands = {"x": (3, 2, 4)} | dict.fromkeys((*given, *statistics), (2,))
    done = count(
        lambda x, *rest: batch_norm(x, **dict(zip((*given, *statistics), rest, strict=True))), *operands.values()
    )
    cost = priced("batch_norm", operands, (3, 2, 4), training=True)
    assert cost.flops == done
    assert cost.mread == 4 * (24 + 2 * len(given) + 2 * len(statistics))
    assert cost.mwrite == 4 * (24 + 2 * len(statistics))


def test_batch_norm_in_training_by_hand():
    """Per channel of m = 12 elements: 2m+2 fma, 5 mul, 2m add, 3 div, 1 special."""
    operands = {"x": (3, 2, 4)} | dict.fromkeys(("w", "b", "mean", "var"), (2,))
    cost = priced("batch_norm", operands, (3, 2, 4), training=True)
    assert cost.flops == Operations(fma=2 * 26, mul=2 * 5, add=2 * 24, div=2 * 3, special=2)


def test_batch_norm_at_inference_reads_two_vectors():
    """chainer-computational-cost, tests/test_cost_calculators: x[1, 3, 10, 10] reads 306 elements and writes 300."""
    operands = {"x": (1, 3, 10, 10)} | dict.fromkeys(("w", "b", "mean", "var"), (3,))
    cost = priced("batch_norm", operands, (1, 3, 10, 10), training=False)
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(fma=300), 4 * 306, 4 * 300)
    half = {"x": Tensor((1, 3, 10, 10), "float16"), "mean": (3,), "var": (3,)}
    assert priced("batch_norm", half, Tensor((1, 3, 10, 10), "float16")).mread == 2 * 300 + 4 * 6


def test_local_response_norm_is_its_definition():
    size, channels = 3, 5

    def local_response_norm(x, zeros):
        squares = [zeros[0], *(value * value for value in x), zeros[1]]
        for c, value in enumerate(x):
            value * power(fma(1e-4, total(squares[c : c + size]), 2.0), -0.75)

    cost = priced("local_response_norm", {"x": (1, channels)}, (1, channels), size=size)
    assert cost.flops == count(local_response_norm, (channels,), (2,))
    assert cost.flops.flops(True) == (size + 3) * channels
    assert cost.flops.flops(False) == (size + 4) * channels


def test_weight_norm_is_its_definition():
    def weight_norm(w, g):
        for row, length in zip(w, g, strict=True):
            scale = length / sqrt(dot(row, row))
            for value in row:
                value * scale

    assert priced("weight_norm", {"w0": (3, 4), "w1": (3,)}, (3, 4), axis=0).flops == count(weight_norm, (3, 4), (3,))


def softmax(row):
    powers = [exp(value) for value in row]
    summed = total(powers)
    return [value / summed for value in powers]


def log_softmax(row):
    logarithm = log(total([exp(value) for value in row]))
    return [value - logarithm for value in row]


SOFTMAXES = {"softmax": softmax, "softmin": lambda row: softmax([-v for v in row]), "log_softmax": log_softmax}


@pytest.mark.parametrize(("op", "definition"), SOFTMAXES.items())
@pytest.mark.parametrize("axis", [0, 1, (1, 2)])
def test_softmax_is_its_definition(op, definition, axis):
    axes = axis if isinstance(axis, tuple) else (axis,)
    length = int(np.prod([(2, 3, 4)[a] for a in axes]))

    def rows(x):
        for row in np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, length):
            definition(row)

    cost = priced(op, {"x": (2, 3, 4)}, (2, 3, 4), axis=axis)
    assert cost.flops == count(rows, (2, 3, 4))
    assert (cost.mread, cost.mwrite, cost.macs) == (96, 96, 0)


def test_softmax_of_published_figures():
    vgg16 = priced("softmax", {"x": (1, 1000)}, (1, 1000), axis=1)
    assert vgg16.flops.flops() == 2_999  # chainer-computational-cost, README: VGG16
    middle = priced("softmax", {"x": (1, 32, 128)}, (1, 32, 128), axis=2)
    assert middle.flops.flops() == 12_256  # chainer-computational-cost, tests/test_cost_calculators/test_activation.py
