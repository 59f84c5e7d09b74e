from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import bytes_moved, declared, operations

TEXT = declared("text", "TEXT")


@pytest.mark.parametrize("op", sorted(TEXT))
def test_texts_take_no_bytes_that_a_shape_could_tell(op: str) -> None:
    given, made = {"x": Tensor((3,), "string")}, Tensor((3,), "int64")
    assert operations(op, given, made) == Operations()
    assert bytes_moved(op, given, made) == (0, 24)


def test_ngrams() -> None:
    # 2 rows, 5 one-grams and 4 pairs each
    given = {"x": Tensor((2, 5), "int64")}
    assert operations("count_ngrams", given, (2, 7), grams=9) == Operations(add=18)
    assert operations("count_ngrams", given, (2, 7), grams=9, weighted=True) == Operations(add=18, mul=14)
