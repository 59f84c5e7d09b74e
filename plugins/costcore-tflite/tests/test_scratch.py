"""Buffers that kernels take while they run: what the runtime for microcontrollers plans for files of one operator."""

from __future__ import annotations

import pytest
from build import G, Op, T, model

from costcore import estimate

REDUCED = {
    ("MEAN", "float32"): 4_192,
    ("MEAN", "int8"): 1_136,
    ("MEAN", "int16"): 2_176,
    ("SUM", "float32"): 4_192,
    ("SUM", "int8"): 1_136,
    ("SUM", "int16"): 2_176,
    ("REDUCE_MAX", "float32"): 4_192,
    ("REDUCE_MAX", "int8"): 1_072,
    ("REDUCE_MAX", "int16"): 2_112,
    ("REDUCE_MIN", "int8"): 1_072,
}
"""The head by ``print_allocations`` of tflite_micro 20261023, for [1, 8, 8, 16] reduced over two axes."""


@pytest.mark.parametrize(("name", "dtype"), REDUCED)
def test_reductions(name, dtype):
    scales = 0 if dtype == "float32" else 1
    x, y = (T(shape, dtype, scales=scales) for shape in ((1, 8, 8, 16), (1, 16)))
    axes = T((2,), "int32", data=(1, 2))
    path = model(G([x, axes, y], [Op(name, [0, 1], [2], "ReducerOptions", {"KeepDims": False})], [0], [2]))
    assert estimate(path).arena(16).size == REDUCED[name, dtype]


def test_what_kernels_take_is_a_value_of_the_arena():
    """An int8 result of 2 * 2 * 3 numbers is added up in 32 bits: 48 bytes beside 3 of x and 12 of y."""
    tensors = [
        T((4,), "int32", data=(1, 2, 2, 3)),
        T((3, 2, 2, 3), "int8", stored=True, scales=1),
        T((1, 1, 1, 3), "int8", scales=1),
        T((1, 2, 2, 3), "int8", scales=1),
    ]
    options = {"StrideH": 2, "StrideW": 2, "Padding": 1}
    path = model(G(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2], [3], "TransposeConvOptions", options)], [2], [3]))
    arena = estimate(path).arena(1)
    assert arena.size == arena.peak == 3 + 12 + 48
    assert [row["nbytes"] for row in arena.entries() if row["name"].startswith("scratch of TRANSPOSE_CONV")] == [48]


def test_a_spectrum_takes_the_numbers_of_its_frame():
    """18 numbers are 9 bins of a frame of 16: 64 bytes beside 64 of x and 72 of y."""
    path = model(G([T((1, 16)), T((1, 18))], [Op("SignalRfft", [0], [1])], [0], [1]))
    assert estimate(path).arena(1).size == 64 + 64 + 72
