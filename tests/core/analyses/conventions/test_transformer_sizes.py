"""The sizes of attention, by hand."""

from __future__ import annotations

import pytest

from costcore import CostError
from costcore.analyses.conventions.whole import Transformer
from costcore.ir import Layer, Tensor
from costcore.trace.call import Call
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace


def transformer(*calls):
    return Transformer(Trace(tuple(CallCost(call, None) for call in calls), Run()))


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
    fused = transformer(call("attention", dict.fromkeys("qkv", shape), shape, (1, 2, 3, 4)))
    scores, turned = (*shape[:-1], shape[-2]), (*shape[:-2], shape[-1], shape[-2])
    spelled = transformer(
        call("matmul", {"x0": shape, "x1": turned}, scores, (1, 2, 3)), call("softmax", {"x": scores}, scores, (3, 4))
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
        _ = transformer().heads
