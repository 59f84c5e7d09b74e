from __future__ import annotations

from fractions import Fraction

import pytest

from costcore.studies.serving.report import FORMATS, dtype_of, format_of


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("int4", 4.125),  # a float16 for 128 weights
        ("int4:32", 4.5),
        ("fp8:32", 8.5),  # of a format without scales, a float16 too
        ("nf4:32", 5),
        ("nf4", 4.5),  # a float32 for 64
        ("q4_0", 4.5),  # 18 bytes for 32 weights
        ("q8_0", 8.5),  # 34 bytes for 32
        ("mxfp4", 4.25),  # 17 bytes for 32
        ("mxfp6", 6.25),
        ("mxfp8", 8.25),
        ("int3", 3.125),
        ("int2", 2.125),
        ("q5_0", 5.5),
        ("int8", 8),
        ("fp16", 16),
        ("bf16", 16),
        ("fp32", 32),
        ("nvfp4", 4.5),  # 9 bytes for 16
        ("fp8", 8),
        ("bfloat16", 16),
        ("float32", 32),
    ],
)
def test_bits_of_a_number_with_its_part_of_a_scale(name, bits):
    assert format_of(name, "weights").bits_with_scales == Fraction(bits)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_dtype(name):
    assert dtype_of(name, "dtype")


@pytest.mark.parametrize("name", ["int4:0", "int4:-1", "int4:x", "in4", "", "string"])
def test_names_that_are_refused(name):
    with pytest.raises(ValueError, match="weights"):
        format_of(name, "weights")
