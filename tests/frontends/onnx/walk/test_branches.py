"""``If``: the branch that is counted."""

from __future__ import annotations

import pytest

from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.small_models import branches


def test_a_constant_condition_chooses_its_branch():
    recorder = read(branches(1, 3, "yes"))
    assert total(recorder.calls, "flops") == 4
    assert not recorder.assumptions


@pytest.mark.parametrize(("then", "other", "region"), [(1, 3, "choose.else"), (3, 1, "choose.then")])
def test_an_open_condition_counts_the_more_expensive_branch(then, other, region):
    recorder = read(branches(then, other, "c"))
    assert total(recorder.calls, "flops") == 3 * 4
    assert {call.region for call in recorder.calls if call.type == "Relu"} == {region}
    assert [assumption.where for assumption in recorder.assumptions] == ["node 'choose' (If)"]


def test_a_condition_given_as_a_value_chooses():
    assert total(read(branches(1, 3, "c"), {"c": True}).calls, "flops") == 4
