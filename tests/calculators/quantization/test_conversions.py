from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, maximum, measure, minimum
from tests.calculators.layer_costs import bytes_moved, declared, operations

BLOCKS = declared("quantization", "BLOCKS")

SCALES = {"scale": (), "zero_point": Tensor((), "int8")}


def quantize(x, scale, zero_point):
    return [minimum(maximum(round(v / scale) + zero_point, -128), 127) for v in x]


def dequantize(x, scale, zero_point):
    return [(v - zero_point) * scale for v in x]


def test_quantization_and_back() -> None:
    operands = {"x": (6,), **SCALES}
    assert operations("quantize", operands, Tensor((6,), "int8")) == count(quantize, (6,), (), ())
    assert operations("dequantize", operands, (6,)) == count(dequantize, (6,), (), ())
    both = count(lambda x, s, z: dequantize(quantize(x, s, z), s, z), (6,), (), ())
    assert operations("fake_quantize", operands, (6,)) == both
    assert bytes_moved("quantize", operands, Tensor((6,), "int8")) == (6 * 4 + 4 + 1, 6)


def test_without_a_zero_point_nothing_is_shifted() -> None:
    assert operations("quantize", {"x": (6,), "scale": ()}, Tensor((6,), "int8")) == Operations(div=6, cmp=18)
    assert operations("dequantize", {"x": (6,), "scale": ()}, (6,)) == Operations(mul=6)


def test_quantization_by_the_range() -> None:
    def dynamic(x):
        top, least = maximum(x[0], 0), minimum(x[0], 0)
        for v in x[1:]:
            top, least = maximum(top, v), minimum(least, v)
        scale = (top - least) / 255
        zero_point = minimum(maximum(round(0 - least / scale), 0), 255)
        return quantize(x, scale, zero_point)

    operands = Tensor((6,), "uint8"), (), Tensor((), "uint8")
    assert operations("dynamic_quantize", {"x": (6,)}, *operands) == count(dynamic, (6,))


@pytest.mark.parametrize("op", BLOCKS)
def test_blocks_of_one_exponent(op: str) -> None:
    _, once = measure(BLOCKS[op].definition, "x", largest=1.0, power=8, least=-128, most=127)
    real, bytes_ = Tensor((2, 3)), Tensor((9,), "uint8")
    x, y = (bytes_, real) if op == "dequantize_blocks" else (real, bytes_)
    assert operations(op, {"x": x}, y) == 6 * once
