from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, maximum, measure, sqrt, total
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

FUSED_ACTIVATIONS = declared("fused", "FUSED_ACTIVATIONS")


def test_a_linear_layer_with_a_sum_and_an_activation() -> None:
    def definition(x, w, b, z):
        for i, row in enumerate(x):
            for j, column in enumerate(w):
                maximum(dot(row, column, b[j]) + z[i, j], 0)

    given = {"x": (2, 3), "w": (4, 3), "b": (4,), "z": (2, 4)}
    result = layer_cost("fused_linear", given, (2, 4), activation="relu")
    assert result.flops == count(definition, *given.values())
    assert (result.macs, result.mread) == (24, 4 * (6 + 12 + 4 + 8))


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("none", "x"),
        ("gelu", "x * 0.5 * (1 + erf(x * 0.5**0.5))"),
        ("fast_gelu", "x * 0.5 * (1 + tanh((x * x * x * 0.044715 + x) * (2 / pi) ** 0.5))"),
        ("clip", "min(max(x, 0), 6)"),
        ("softplus", "log(1 + exp(x))"),
        ("swiglu", "x * (1 / (1 + exp(-(1.702 * x)))) * (x + 1)"),
    ],
)
def test_activations_are_their_definitions(name: str, definition: str) -> None:
    assert measure(definition, "x")[1] == FUSED_ACTIVATIONS[name]
    assert operations("biased_activation", {"x": (2, 3)}, (2, 3), activation=name) == 6 * FUSED_ACTIVATIONS[name]


def test_norms_of_sums() -> None:
    def definition(x, skip, bias, w, b):
        for one, two in zip(x, skip, strict=True):
            row = [a + c + d for a, c, d in zip(one, two, bias, strict=True)]
            mean = total(row) / 4
            deviations = [value - mean for value in row]
            scale = 1 / sqrt(dot(deviations, deviations) / 4 + 1e-5)
            [dot([value * scale], [weight], start) for value, weight, start in zip(deviations, w, b, strict=True)]

    given = {"x": (2, 4), "skip": (2, 4), "bias": (4,), "w": (4,), "b": (4,)}
    assert operations("fused_layer_norm", given, (2, 4), axis=(1,)) == count(definition, *given.values())
    assert bytes_moved("fused_layer_norm", given, (2, 4), (2, 4), axis=(1,)) == (4 * (16 + 12), 4 * 16)


def test_gated_norm() -> None:
    def definition(x, w, gate):
        for row, gates in zip(x, gate, strict=True):
            scale = 1 / sqrt(dot(row, row) / 4 + 1e-6)
            for value, weight, g in zip(row, w, gates, strict=True):
                value * scale * weight * (g * (1 / (1 + exp(-g))))

    given = {"x": (2, 4), "w": (4,), "gate": (2, 4)}
    assert operations("fused_rms_norm", given, (2, 4), axis=(1,), activation="silu") == count(
        definition, *given.values()
    )


def test_embeddings_and_norm() -> None:
    ids = Tensor((2, 3), "int64")
    given = {"x": ids, "w0": (50, 4), "w1": (9, 4), "w": (4,), "b": (4,)}
    result = layer_cost("embed_norm", given, (2, 3, 4))
    normed = operations("layer_norm", {"x": (2, 3, 4), "w": (4,), "b": (4,)}, (2, 3, 4), axis=(2,))
    assert result.flops == normed + Operations(add=24)
    assert result.mread == 8 * 6 + 4 * (24 + 12 + 8)


def test_biased_functions() -> None:
    given = {"x": (2, 4), "b": (4,)}
    assert operations("biased_activation", given, (2, 4), activation="relu") == 8 * Operations(add=1, cmp=1)
    assert operations("biased_gated_activation", given, (2, 2), activation="sigmoid") == Operations(
        add=8
    ) + 4 * Operations(mul=1, add=2, div=1, special=1)
    softmax = operations("softmax", {"x": (2, 4)}, (2, 4), axis=1)
    assert operations("biased_softmax", given, (2, 4), axis=1) == softmax + Operations(add=8)
    dropped = {**given, "z": (2, 4)}
    assert operations("biased_dropout", dropped, (2, 4), (2, 4), training=True) == 8 * Operations(add=2, mul=1, cmp=1)
    assert operations("biased_dropout", given, (2, 4)) == Operations(add=8)


def test_convolutions_and_matrix_products_with_a_sum_and_an_activation() -> None:
    # 12 outputs of 2 * 9 products onto the bias, then the sum, then max(y, 0)
    given = {"x": (1, 2, 4, 4), "w": (3, 2, 3, 3), "b": (3,), "z": (1, 3, 2, 2)}
    result = layer_cost("fused_conv", given, (1, 3, 2, 2), kernel=(3, 3), activation="relu")
    assert result.flops == Operations(fma=12 * 18, add=12, cmp=12)
    assert (result.macs, result.mread, result.mwrite) == (12 * 18, 4 * (32 + 54 + 3 + 12), 4 * 12)
    # 8 dot products of length 3, then tanh
    result = layer_cost("fused_matmul", {"x0": (2, 3), "x1": (3, 4)}, (2, 4), activation="tanh")
    assert result.flops == Operations(mul=8, fma=8 * 2, special=8)
    assert (result.macs, result.mread) == (8 * 3, 4 * (6 + 12))


def test_a_group_norm_of_a_sum() -> None:
    def definition(x, skip, bias, w, b):
        for group in range(2):
            both = slice(2 * group, 2 * group + 2)
            channels = [x[c] + skip[c] + bias[c] for c in range(4)[both]]
            values = [value for channel in channels for value in channel]
            mean = total(values) / 6
            deviations = [value - mean for value in values]
            scale = 1 / sqrt(dot(deviations, deviations) / 6 + 1e-5)
            for i, value in enumerate(deviations):
                y = dot([value * scale], [w[both][i // 3]], b[both][i // 3])
                _ = y * (1 / (1 + exp(-y)))

    given = {"x": (1, 4, 3), "skip": (1, 4, 3), "bias": (4,), "w": (4,), "b": (4,)}
    found = operations("fused_group_norm", given, (1, 4, 3), groups=2, activation="silu")
    assert found == count(definition, (4, 3), (4, 3), (4,), (4,), (4,))


def test_an_activation_without_a_bias_adds_nothing() -> None:
    given = {"x": (2, 4)}
    assert operations("biased_activation", given, (2, 4), activation="relu") == 8 * Operations(cmp=1)
    assert operations("biased_gated_activation", given, (2, 2), activation="relu") == 4 * Operations(mul=1, cmp=1)
