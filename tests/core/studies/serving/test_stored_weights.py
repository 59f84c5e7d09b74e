"""Bytes of weights in formats, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from costcore.studies.serving.cached_model import PackedWeight, Parameter
from costcore.studies.serving.formats import format_of
from costcore.studies.serving.stored_weights import StoredWeights


def stored(parameters, packed=(), weights=None, keep=()):
    model: Any = SimpleNamespace(parameters=parameters, packed=dict(packed))
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
