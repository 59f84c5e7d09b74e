"""Inputs with names in their shapes."""

from __future__ import annotations

import pytest

from costcore import CostError, Dim, Tensor
from costcore.analyses.sizes.capture import NamedInputs
from costcore.numbers import symbol_of
from costcore.trace.trace import has_names


@pytest.mark.parametrize(
    ("inputs", "symbols", "expected"),
    [
        (("batch", 3, "height", "width"), ("batch", "height", "width"), (2, 3, 5, 7)),
        (("batch", 3, "16*height", 224), ("batch", "height"), (2, 3, 80, 224)),
        (["batch", 3], ("batch",), (2, 3)),
        ({"ids": Tensor(("batch", "seq+1"), "int64")}, ("batch", "seq"), {"ids": Tensor((2, 12), "int64")}),
        ({"ids": Tensor(("batch", 4), "int64")}, ("batch",), {"ids": Tensor((2, 4), "int64")}),
        ([("batch", 4), (1, 2)], ("batch",), [(2, 4), (1, 2)]),
        (("batch", Dim("height", 64, 512)), ("batch", "height"), (2, 5)),
        (("batch", symbol_of("seq") * 2), ("batch", "seq"), (2, 22)),
        ((("batch", 4), {"mode": "train"}), ("batch",), ((2, 4), {"mode": "train"})),
    ],
)
def test_inputs_at_sizes(inputs, symbols, expected):
    named = NamedInputs(inputs)
    assert has_names(inputs)
    assert named.symbols == symbols
    assert named.at({"batch": 2, "height": 5, "width": 7, "seq": 11}) == expected


@pytest.mark.parametrize("inputs", [(1, 3), {"x": (1, 2)}, ["a photo of a cat", "a dog"], None, {"mode": "train"}, 3])
def test_inputs_without_names(inputs):
    assert not has_names(inputs)


def test_the_ranges_of_dimensions():
    assert NamedInputs((Dim("batch"), Dim("16*height", 4, 32))).ranges == {"height": (4, 32)}
    with pytest.raises(ValueError, match="a range needs one symbol"):
        NamedInputs((Dim("height*width", 4, 32),))
    assert NamedInputs((Dim("seq", 4, 32), Dim("seq", 4, 32), "seq")).ranges == {"seq": (4, 32)}
    with pytest.raises(ValueError, match=r"'seq' has two ranges, \(4, 32\) and \(4, 33\)"):
        NamedInputs((Dim("seq", 4, 32), Dim("seq", 4, 33)))


def test_a_dtype_is_no_size():
    with pytest.raises(ValueError, match="'int64' in a shape is the name of a dtype"):
        NamedInputs(("batch", "int64"))
    with pytest.raises(TypeError, match="sum or product of names"):
        NamedInputs(("batch", "two words"))


def test_a_negative_size():
    with pytest.raises(CostError, match="the size seq-4 is -2 at seq=2"):
        NamedInputs(("seq-4",)).at({"seq": 2})
