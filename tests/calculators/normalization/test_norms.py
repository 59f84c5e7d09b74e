"""Normalization layers against executed definitions and counts worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, fma, maximum, minimum, power, sqrt, total
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import mean

N, C, M = 3, 2, 4

EPS = 1e-5


def moments(row):
    """Return the differences from the mean, the mean, the variance, and 1 / sqrt(variance + eps)."""
    mean = total(row) / len(row)
    differences = [value - mean for value in row]
    variance = dot(differences, differences) / len(row)
    return differences, mean, variance, 1 / sqrt(variance + EPS)


def scaled(values, w=None, b=None):
    """Apply the weight and the bias, if given."""
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


def subtract_mean(rows):
    for row in rows:
        mean = total(row) / len(row)
        for value in row:
            value - mean


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
    cost = layer_cost(op, operands, (3, 5), axis=(1,))
    assert cost.flops == done
    assert (cost.mread, cost.mwrite, cost.macs) == (4 * (15 + 5 * len(given)), 4 * 15, 0)


@pytest.mark.parametrize(
    ("op", "definition"),
    [
        *(("l2_normalize", l2_normalize), ("l1_normalize", l1_normalize), ("mean_variance_norm", mean_variance_norm)),
        ("subtract_mean", subtract_mean),
    ],
)
def test_normalizations_without_weight_are_their_definitions(op, definition):
    cost = layer_cost(op, {"x": (2, 3, 4)}, (2, 3, 4), axis=(0, 2))
    assert cost.flops == count(lambda x: definition(x.transpose(1, 0, 2).reshape(3, 8)), (2, 3, 4))
    assert (cost.mread, cost.mwrite) == (4 * 24, 4 * 24)


def test_layer_norm_by_hand():
    """Two rows of c = 4 elements in two axes: 2c-1 fma, c+1 mul, 2c add, 3 div, 1 special."""
    cost = layer_cost("layer_norm", {"x": (2, 2, 2), "w": (2, 2), "b": (2, 2)}, (2, 2, 2), axis=(1, 2))
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

    cost = layer_cost(op, operands, (2, 4, 3), **settings)
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
    cost = layer_cost("batch_norm", operands, (3, 2, 4), training=True)
    assert cost.flops == done
    assert cost.mread == 4 * (24 + 2 * len(given) + 2 * len(statistics))
    assert cost.mwrite == 4 * (24 + 2 * len(statistics))


def test_batch_norm_in_training_by_hand():
    """Per channel of m = 12 elements: 2m+2 fma, 5 mul, 2m add, 3 div, 1 special."""
    operands = {"x": (3, 2, 4)} | dict.fromkeys(("w", "b", "mean", "var"), (2,))
    cost = layer_cost("batch_norm", operands, (3, 2, 4), training=True)
    assert cost.flops == Operations(fma=2 * 26, mul=2 * 5, add=2 * 24, div=2 * 3, special=2)


def test_batch_norm_at_inference_reads_two_vectors():
    """chainer-computational-cost, tests/test_cost_calculators: x[1, 3, 10, 10] reads 306 elements and writes 300."""
    operands = {"x": (1, 3, 10, 10)} | dict.fromkeys(("w", "b", "mean", "var"), (3,))
    cost = layer_cost("batch_norm", operands, (1, 3, 10, 10), training=False)
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(fma=300), 4 * 306, 4 * 300)
    half = {"x": Tensor((1, 3, 10, 10), "float16"), "mean": (3,), "var": (3,)}
    assert layer_cost("batch_norm", half, Tensor((1, 3, 10, 10), "float16")).mread == 2 * 300 + 4 * 6


def test_local_response_norm_is_its_definition():
    size, channels = 3, 5

    def local_response_norm(x, zeros):
        squares = [zeros[0], *(value * value for value in x), zeros[1]]
        for c, value in enumerate(x):
            value * power(fma(1e-4, total(squares[c : c + size]), 2.0), -0.75)

    cost = layer_cost("local_response_norm", {"x": (1, channels)}, (1, channels), size=size)
    assert cost.flops == count(local_response_norm, (channels,), (2,))
    assert cost.flops.flops(True) == (size + 3) * channels
    assert cost.flops.flops(False) == (size + 4) * channels


def test_weight_norm_is_its_definition():
    def weight_norm(w, g):
        for row, length in zip(w, g, strict=True):
            scale = length / sqrt(dot(row, row))
            for value in row:
                value * scale

    assert layer_cost("weight_norm", {"w0": (3, 4), "w1": (3,)}, (3, 4), axis=0).flops == count(
        weight_norm, (3, 4), (3,)
    )


def test_normalize_rows():
    def definition(x, center, scale):
        for row, c, k in zip(x, center, scale, strict=True):
            for value in row:
                (value - c) * k

    result = layer_cost("normalize_rows", {"x": (N, M), "mean": (N,), "scale": (N,)}, (N, M))
    assert result.flops == count(definition, (N, M), (N,), (N,))
    assert result.mread == 4 * (N * M + 2 * N)

    def gradient(dy, y, scale):
        for g, n, k in zip(dy, y, scale, strict=True):
            average, slope = mean(g), dot(g, n) / len(g)
            for a, b in zip(g, n, strict=True):
                fma(slope, b, a - average) * k

    result = layer_cost("normalize_rows_backward", {"dy": (N, M), "y": (N, M), "scale": (N,)}, (N, M))
    assert result.flops == count(gradient, (N, M), (N, M), (N,))


def test_batch_renorm():
    def definition(x, w, b, center, spread):
        for c in range(C):
            row = x[:, c].ravel()
            mu = mean(row)
            off = [value - mu for value in row]
            var = dot(off, off) / len(row)
            std = sqrt(var + 1e-5)
            inverse = 1 / std
            running = sqrt(spread[c] + 1e-5)
            r = minimum(maximum(std / running, 0.5), 2)
            d = minimum(maximum((mu - center[c]) / running, -1), 1)
            for value in off:
                fma(fma(value * inverse, r, d), w[c], b[c])
            fma(mu, 0.1, center[c] * 0.9)
            fma(var * (len(row) / (len(row) - 1)), 0.1, spread[c] * 0.9)

    shape = (N, C, M)
    result = layer_cost("batch_renorm", {"x": shape, "w": (C,), "b": (C,), "mean": (C,), "var": (C,)}, shape)
    assert result.flops == count(definition, shape, *[(C,)] * 4)
    assert (result.mread, result.mwrite) == (4 * (N * C * M + 4 * C), 4 * (N * C * M + 2 * C))
