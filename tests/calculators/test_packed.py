"""Weights and values of few bits, against their executed definitions."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.calculators.quantization.conversions import BLOCKS
from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, exp, measure, sqrt, total
from tests.calculators.layers import cost, operations
from tests.calculators.test_attention_sparse import normal


def test_gated_projections_of_a_normalised_sum() -> None:
    """2 rows of 4 features to 3: the second projection times the SiLU of the first."""

    def definition(x, skip, w, w0, w1, b0):
        w0, w1 = (np.array([value * 0.5 for value in part.flat], dtype=object).reshape(3, 4) for part in (w0, w1))
        for row, more in zip(x, skip, strict=True):
            row = normal(row + more, w)
            for i in range(3):
                gate = dot(row, w0[i], b0[i])
                _ = gate * (1 / (1 + exp(-gate))) * dot(row, w1[i])

    packed = Tensor((3, 4), "uint4", "param")
    given = {"x": (2, 4), "skip": (2, 4), "w": (4,), "w0": packed, "w1": packed, "b0": (3,), "w0_scale": (3, 1)}
    result = cost("packed_projections", given, (2, 3), activation="silu")
    assert result.flops == count(definition, (2, 4), (2, 4), (4,), (3, 4), (3, 4), (3,))
    assert result.macs == 2 * (2 * 3 * 4)
    # two weights of 12 elements of half a byte
    assert (result.mread, result.mwrite) == (4 * (8 + 8 + 4 + 3 + 3) + 2 * 6, 4 * 6)


def test_plain_projections_and_their_zero_points() -> None:
    packed, zeros = Tensor((3, 4), "uint4"), Tensor((3,), "uint8")
    given = {"x": (2, 4), "w0": packed, "w1": packed, "w2": Tensor((5, 4), "uint4"), "w2_zero_point": zeros}
    result = cost("packed_projections", given, (2, 3), (2, 3), (2, 5))
    outputs, weights = 2 * (3 + 3 + 5), (3 + 3 + 5) * 4
    assert result.flops == Operations(mul=outputs + weights, fma=outputs * 3, add=5 * 4)
    assert result.macs == outputs * 4


@pytest.mark.parametrize("segments", [True, False])
def test_embeddings_of_quantised_tables(segments: bool) -> None:
    """2 sentences of 3 words of 4 features."""

    def definition(words, places, w, b, *kinds):
        places, w, b = ([(v - 3) * 0.5 for v in part.flat] for part in (places, w, b))
        for sentence in range(2):
            for t in range(3):
                row = [(v - 3) * 0.5 + p for v, p in zip(words[sentence, t], places[4 * t : 4 * t + 4], strict=True)]
                if segments:
                    row = [v + (k - 3) * 0.5 for v, k in zip(row, kinds[0][sentence, t], strict=True)]
                mean = total(row) / 4
                deviations = [v - mean for v in row]
                scale = 1 / sqrt(dot(deviations, deviations) / 4 + 1e-5)
                for v, weight, start in zip(deviations, w, b, strict=True):
                    dot([v * scale], [weight], start)

    tables = {"w0": (50, 4), "w1": (9, 4), "w": (4,), "b": (4,)} | ({"w2": (2, 4)} if segments else {})
    given = {name: Tensor(shape, "uint8") for name, shape in tables.items()}
    for name in tables:
        given |= {f"{name}_scale": Tensor((1,)), f"{name}_zero_point": Tensor((1,), "uint8")}
    result = cost("quantized_embed_norm", {"x": Tensor((2, 3), "int32"), **given}, (2, 3, 4))
    shapes = [(2, 3, 4), (3, 4), (4,), (4,)] + [(2, 3, 4)] * segments
    assert result.flops == count(definition, *shapes)
    # words of 4 bytes; rows of bytes, the positions once; and a scale and a zero point each
    assert result.mread == 4 * 6 + 24 + 12 + 8 + 24 * segments + 5 * (4 + segments)


@pytest.mark.parametrize("op", BLOCKS)
def test_blocks_of_one_exponent(op: str) -> None:
    _, once = measure(BLOCKS[op].definition, "x", largest=1.0, power=8, least=-128, most=127)
    real, bytes_ = Tensor((2, 3)), Tensor((9,), "uint8")
    x, y = (bytes_, real) if op == "dequantize_blocks" else (real, bytes_)
    assert operations(op, {"x": x}, y) == 6 * once
