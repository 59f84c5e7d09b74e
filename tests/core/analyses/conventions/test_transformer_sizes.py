"""The sizes of attention, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore import CostError, Report, Trace
from costcore.ir import Layer, Tensor
from tests.core.analyses.conventions.written import convention, view
from tests.core.studies.training.toy_transformer import toy_step
from tests.core.traces import Call, CallCost, Run

NAMES = (
    *("n_params", "n_embedding", "n_all", "n_frozen", "n_tables", "n_positions"),
    *("tokens", "seq", "layers", "heads", "head_dim", "hidden", "vocab"),
)


def sizes_of(report, *names):
    """Return what a convention of closed forms sees of a report."""
    found = {}
    for name in names or NAMES:
        found |= view(convention("whole", {name: name}), report).by_term
    return found


def transformer(*calls, names=("layers",), **run):
    named = (CallCost(call.named(str(i)), None) for i, call in enumerate(calls))
    return SimpleNamespace(**sizes_of(Report(Trace(tuple(named), Run().recording(**run))), *names))


def call(op, inputs, output, ids, **more):
    layer = Layer(op, {name: Tensor(shape) for name, shape in inputs.items()}, [Tensor(output)])
    return Call(layer, op, inputs=ids[:-1], outputs=ids[-1:], **more)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((6, 8), (6, 6, 1, 8)),  # tokens in all and of a sequence, heads, features
        ((4, 6, 8), (6, 6, 4, 8)),
        ((3, 4, 6, 8), (18, 6, 4, 8)),
        ((2, 3, 4, 6, 8), (36, 6, 4, 8)),
    ],
)
def test_sizes_are_those_of_queries(shape, expected):
    names = ("tokens", "seq", "heads", "head_dim", "layers")
    fused = transformer(call("attention", dict.fromkeys("qkv", shape), shape, (1, 2, 3, 4)), names=names)
    scores, turned = (*shape[:-1], shape[-2]), (*shape[:-2], shape[-1], shape[-2])
    spelled = transformer(
        call("matmul", {"x0": shape, "x1": turned}, scores, (1, 2, 3)),
        call("softmax", {"x": scores}, scores, (3, 4)),
        names=names,
    )
    for found in (fused, spelled):
        assert (found.tokens, found.seq, found.heads, found.head_dim) == expected
        assert found.layers == 1


def test_only_the_forward_pass_has_layers():
    shape = (2, 4, 6, 8)
    ids = (1, 2, 3, 4)
    calls = [
        call("attention", dict.fromkeys("qkv", shape), shape, ids, phase=phase) for phase in ("forward", "recompute")
    ]
    assert transformer(*calls).layers == 1
    with pytest.raises(CostError, match="need a model with attention"):
        transformer(names=("heads",))


@pytest.mark.parametrize(("is_tied", "n_all", "n_embedding"), [(False, 702, 66 + 42 + 66), (True, 636, 66 + 42)])
def test_sizes_of_a_small_transformer(is_tied, n_all, n_embedding):
    """11 words and 7 positions, which are frozen, of 6 features; see :mod:`toy_transformer` for all parameters."""
    assert sizes_of(toy_step(is_tied)) == {
        "n_params": n_all - n_embedding,
        "n_embedding": n_embedding,
        "n_all": n_all,
        "n_frozen": 42,
        "n_tables": 66 + 42,
        "n_positions": 42,
        "tokens": 10,
        "seq": 5,
        "layers": 2,
        "heads": 2,
        "head_dim": 3,
        "hidden": 6,
        "vocab": 11,
    }


def test_tokens_are_the_ids_that_the_model_is_given():
    """Ids of 3 x 4 are given, cast, and looked up after 5 positions; a scalar is no sequence."""
    weight = {"w": (9, 2)}
    calls = [
        call("embedding", {"x": (5,), "w": (7, 2)}, (5, 2), (8, 30, 9)),
        call("cast", {"x": (3, 4)}, (3, 4), (1, 2)),
        call("embedding", {"x": (3, 4), **weight}, (3, 4, 2), (2, 31, 10)),
    ]
    names = ("tokens", "seq", "vocab")
    found = transformer(*calls, names=names, inputs=(1,))
    assert (found.tokens, found.seq, found.vocab) == (12, 4, 9)
    other = call("copy", {"x": (3, 4), "y": (3, 4)}, (3, 4), (90, 1, 8))  # a copy of 90, whatever else it is given
    assert transformer(other, *calls, names=names, inputs=(1,)).tokens == 12
    assert transformer(call("embedding", {"x": (), **weight}, (2,), (1, 30, 9)), *calls[:1], names=names).tokens == 5


@pytest.mark.parametrize("op", ["add", "mul", "div", "masked_fill", "where", "view", "copy", "cast"])
def test_scores_may_be_changed_before_their_softmax(op):
    shape = (2, 4, 6, 8)
    calls = [
        call("matmul", {"x0": shape, "x1": (2, 4, 8, 5)}, (2, 4, 6, 5), (1, 2, 3)),
        call(op, {"x": (2, 4, 6, 5)}, (2, 4, 6, 5), (3, 4)),
        call("softmax", {"x": (2, 4, 6, 5)}, (2, 4, 6, 5), (4, 5)),
        call("softmax", {"x": (2, 4, 6, 5)}, (2, 4, 6, 5), (5, 6)),  # of another thing
    ]
    found = transformer(*calls, names=("layers", "heads", "head_dim", "vocab", "n_embedding"))
    assert (found.layers, found.heads, found.head_dim, found.vocab, found.n_embedding) == (1, 4, 8, 0, 0)
    assert transformer(calls[0], call("relu", {"x": (2,)}, (2,), (3, 4)), calls[2]).layers == 0


def test_a_softmax_without_operands_is_no_attention():
    made = call("matmul", {"x0": (4, 6), "x1": (6, 4)}, (4, 4), (7, 8, 1))
    softmax = call("softmax", {"x": (4, 4)}, (4, 4), (9,))
    assert transformer(made, softmax).layers == 0
