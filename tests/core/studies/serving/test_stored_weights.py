"""Bytes of weights in formats, by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from costcore.studies.serving.cached_model import ALL, PackedWeight, Parameter, StoredFile, StoredPart
from costcore.studies.serving.report import StoredWeights, format_of


def stored(parameters, packed=(), weights=None, keep=(), file=None):
    model: Any = SimpleNamespace(parameters=parameters, packed=dict(packed), file=file)
    return StoredWeights(model, "float16", None if weights is None else format_of(weights, "weights"), None, keep)


MATRIX, VECTOR = Parameter("a", 7, 2, "float32"), Parameter("b", 2, 1, "float32")
PACKED = {"c": PackedWeight(size=32, nbytes=20, bits=4, kind="Packed")}


@pytest.mark.parametrize(
    ("weights", "keep", "nbytes"),
    [
        (None, (), 2 * (7 + 2)),
        ("int4", (), 8),  # 7 x 4.125 + 2 x 16 = 60.875 bits, 7.6 bytes
        ("int4", ("a",), 2 * (7 + 2)),
        ("q8_0", (), 12),  # 7 x 8.5 + 2 x 16 = 91.5 bits, 11.4 bytes
    ],
)
def test_bytes_are_rounded_up(weights, keep, nbytes):
    assert stored([MATRIX, VECTOR], weights=weights, keep=keep).nbytes == nbytes


def test_packed_weights_add_the_bytes_of_their_storage():
    both = stored([MATRIX, VECTOR], PACKED, "q8_0")
    assert both.nbytes == 12 + 20
    assert both.n_params == 7 + 2 + 32


def test_a_file_states_the_bytes_of_its_weights():
    parts = {("a", 7): StoredPart(Fraction(9, 2), 4), ("b", 2): StoredPart(Fraction(32), 32)}
    parts |= {("b", ALL): StoredPart(Fraction(20), 8)}
    file = StoredFile(parts, 130, ("Q4_K", "F32"), ["rope_freqs.weight", *"abc"])
    found = stored([MATRIX, VECTOR], file=file)
    assert (found.nbytes, found.format) == (130, "Q4_K, F32")
    assert found.width("a", MATRIX)[:2] == (Fraction(9, 2), 4)
    assert found.width("b", VECTOR)[:2] == (32, 32)
    assert found.width("b", MATRIX)[:2] == (20, 8)  # a slice: the mean of the module
    assert found.width("c", MATRIX)[:2] == (16, 16)  # no weight of the file: the dtype of the model
    assert "rope_freqs.weight, a, b and 1 more" in found.notes[0]


def test_another_format_replaces_that_of_a_file():
    file = StoredFile({("a", 7): StoredPart(Fraction(9, 2), 4)}, 130, ("Q4_K",), ())
    found = stored([MATRIX, VECTOR], weights="int4", file=file)
    assert (found.nbytes, found.format, found.notes) == (8, "int4", ())  # 7 x 4.125 + 2 x 16 = 60.875 bits


def test_vectors_beside_packed_weights_have_the_dtype_of_the_model():
    found = stored([MATRIX, VECTOR], PACKED, "q8_0")
    assert found.width("c", Parameter("c", 8, 1, "float32"))[:2] == (16, 16)
    assert found.width("c", Parameter("c", 32, 2, "float32"))[:2] == (5, 4)  # 20 bytes for 32 weights


@pytest.mark.parametrize(("others", "listed"), [("abc", "a, b, c too"), ("abcd", "a, b, c and 1 more too")])
def test_three_other_tensors_are_listed(others, listed):
    assert f"the file stores {listed}" in stored([], file=StoredFile({}, 1, (), [*others])).notes[0]
