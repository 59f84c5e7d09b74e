"""Replay rules: what a repeated call on meta tensors may return without running."""

from __future__ import annotations

import torch

from costcore.frontends.pytorch.operators.plan import replay_rule

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
    assert replay(torch.ops.aten.native_dropout.default, (new, torch.empty(3, 4, device="meta"))) is not None


def test_results_that_share_memory_or_do_not_fill_it_are_not_replayed():
    """A replay makes one tensor after another, so that a memory ledger would count other blocks."""
    new = torch.empty(3, 4, device="meta")
    assert replay(torch.ops.aten.native_dropout.default, (new, new)) is None
    assert replay(torch.ops.aten.relu.default, new[:2]) is None
    assert replay(torch.ops.aten.relu.default, new.t()) is not None


def test_a_view_elsewhere_is_not_replayed():
    """A result of a view operator that has a storage of its own was copied."""
    view = replay(torch.ops.aten.view.default, X.view(12))
    assert view((X,)).untyped_storage()._cdata == X.untyped_storage()._cdata
    assert replay(torch.ops.aten.view.default, torch.empty(12, device="meta")) is None


def test_which_operators_are_replayed_follows_from_their_schema():
    aten, meta = torch.ops.aten, torch.empty(3, 4, device="meta")
    assert replay(aten.relu_.default, X)((meta,)) is meta
    assert replay(aten.relu_.default, torch.empty(3, 4, device="meta")) is None, "it returns another tensor"
    assert replay(aten.t_.default, X) is None, "the shape of its input changes"
    assert replay(aten.as_strided.default, X[:1]) is None, "its offset is not relative to the view"
    assert replay(aten.relu.out, X) is None, "it writes to another argument"
    assert replay(aten.split.Tensor, list(X.split(2))) is not None
    assert replay(aten.unbind.int, []) is None


def test_several_new_results_are_made_again_one_by_one():
    made = replay(
        torch.ops.aten.native_dropout.default, (torch.empty(3, 4, device="meta"), torch.empty(2, device="meta"))
    )
    first, second = made((X,))
    assert (first.shape, second.shape) == ((3, 4), (2,))
    assert made((X,))[0] is not first


def test_tensors_with_data_are_not_replayed():
    data, meta = torch.ones(3, 4), torch.empty(3, 4, device="meta")
    for func, inputs, result in (
        (torch.ops.aten.relu.default, [data], data.clone()),
        (torch.ops.aten.relu.default, [data], meta),
        (torch.ops.aten.relu.default, [X], data),
        (torch.ops.aten.relu.default, [], meta),
        (torch.ops.aten.relu_.default, [data], data),
        (torch.ops.aten.view.default, [data], data.view(12)),
    ):
        assert replay_rule(func)(tuple(inputs) or (2,), inputs, result) is None


def test_a_view_of_another_offset_begins_as_far_behind_its_base():
    """The view begins 4 elements behind its base, which begins 8 behind the memory of the repeated call."""
    select, split = (replay(torch.ops.aten.select.int, X[1]), replay(torch.ops.aten.split.Tensor, X.split(2)))
    base = torch.empty(20, device="meta")[8:].view(3, 4)
    assert (select((base,)).storage_offset(), select((base,)).shape) == (8 + 4, (4,))
    assert [(y.storage_offset(), y.shape) for y in split((base,))] == [(8, (2, 4)), (8 + 2 * 4, (1, 4))]


def test_a_view_of_another_dtype_or_argument_is_not_replayed():
    view = torch.ops.aten.view.dtype
    assert replay(view, X.view(torch.int32)) is None
    other = torch.empty(3, 4, device="meta")
    rule = replay_rule(torch.ops.aten.view.default)
    assert rule((X,), [X, other], X.view(12)) is None, "it has two tensors"
    assert rule((X,), [other], other.view(12)) is None, "the view is of another tensor than the first argument"
