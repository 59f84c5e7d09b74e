"""Replay rules: what a repeated call on meta tensors may return without running."""

from __future__ import annotations

import torch

from costcore.frontends.pytorch.operators.replay import replay_rule

X = torch.empty(3, 4, device="meta")


def replay(func, result):
    return replay_rule(func)((X,), [X], result)


def test_a_new_tensor_is_made_again():
    made = replay(torch.ops.aten.relu.default, torch.empty(3, 4, device="meta"))((X,))
    assert made.shape == (3, 4)
    assert made.untyped_storage()._cdata != X.untyped_storage()._cdata


def test_a_result_that_is_the_input_under_another_object_is_not_made_anew():
    """The schema of dropout says that it returns a new tensor; in inference that has the storage of the input."""
    assert replay(torch.ops.aten.dropout.default, X.view(3, 4)) is None
    assert replay(torch.ops.aten.dropout.default, X) is None
    assert replay(torch.ops.aten.dropout.default, torch.empty(3, 4, device="meta")) is not None


def test_one_of_several_results_that_is_an_alias_decides():
    new = torch.empty(3, 4, device="meta")
    assert replay(torch.ops.aten.native_dropout.default, (new, X[:])) is None
    assert replay(torch.ops.aten.native_dropout.default, (new, new)) is not None


def test_a_view_elsewhere_is_not_replayed():
    """A result of a view operator that has a storage of its own was copied."""
    view = replay(torch.ops.aten.view.default, X.view(12))
    assert view((X,)).untyped_storage()._cdata == X.untyped_storage()._cdata
    assert replay(torch.ops.aten.view.default, torch.empty(12, device="meta")) is None
