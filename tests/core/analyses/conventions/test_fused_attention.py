"""Which attention PyTorch runs as one operator, of calls by hand."""

from __future__ import annotations

from typing import Any

import pytest

from costcore.ir import Cost, Layer, Tensor
from tests.core.analyses.conventions.written import convention, counted
from tests.core.traces import Call, CallCost, Module, Run

LAYER = "nn.TransformerEncoderLayer"


def module(kind: str, **more: Any) -> Module:
    return Module(kind, bases=(f"torch.nn.modules.part.{kind}",), **more)


def call(op: str, inputs: dict[str, tuple[int, ...]], ids: tuple[int, ...], path: str = "layer.attention", **more: Any):
    role: dict[str, Any] = {"w": "param", "b": "param"} if op == "linear" else {}
    tensors = {name: Tensor(shape, role=role.get(name, "data")) for name, shape in inputs.items()}
    attrs = more.pop("attrs", {})
    return Call(
        Layer(op, tensors, [Tensor((5, 7, 6))], attrs), op, module=path, inputs=ids[:-1], outputs=ids[-1:], **more
    )


def calls(
    x: tuple[int, ...] = (5, 7, 6),
    w: tuple[int, ...] = (18, 6),
    b: bool = True,
    keys: int = 5,
    heads: int = 2,
    op: str = "attention",
    transposed: bool = True,
    mask: int = 0,
    masks: bool = False,
    path: str = "layer.attention",
    **attrs: Any,
) -> list[Call]:
    """Queries, keys and values of 7 sequences of 5 tokens are one product; they have two heads of 3 features."""
    operands = {"x": x, "w": w, **({"b": (18,)} if b else {})}
    if op == "attention":
        scores = {"q": (7 * heads, 5, 3), "k": (7 * heads, keys, 3), "v": (7 * heads, keys, 3)}
        scores |= {"mask": (5, keys)} if mask else {}
    else:
        scores = {"x0": (7 * heads, 5, 3), "x1": (7 * heads, 3, keys)} | ({"b": (5, keys)} if mask else {})
    ids = (*([4, 4, 4] if op == "attention" else [4, 4]), *([mask] if mask else []), 5)
    found = [call("view", {"x": (7, 5, 6)}, (1, 2), path, native="aten::transpose")] if transposed else []
    found += [call("linear", operands, (2, 20, *([21] if b else []), 4), path, parameters=(20, 21))]
    if masks:
        found += [call("where", {"x": (5, keys)}, (30, 31), path, native="aten::masked_fill_")]
        found += [call("view", {"x": (5, keys)}, (31, 32), path)]
    return [
        *found,
        call(op, scores, ids, path, attrs=attrs),
        call("linear", {"x": x, "w": w}, (5, 20, 6), path, parameters=(20,)),
    ]


def fused(
    found: list[Call], only_frozen: bool = False, frozen: tuple[int, ...] = (), around: str = "Block"
) -> set[str]:
    modules = {
        "": module("Net"),
        "layer": module(around, parameters=(22,), frozen=frozen),
        "layer.attention": module("MultiheadAttention", parameters=(20, 21), frozen=frozen),
        "layer.other": module("Linear"),
    }
    option = "skip_frozen_attention" if only_frozen else "skip_self_attention"
    records = [CallCost(each, Cost(1, 0, 0, {})) for each in found]
    rules = convention("op", {}, "1", **{option: True})
    lines = counted(rules, records, Run(modules=modules, frameworks={"torch": "2"})).lines
    counts = {line.position for line in lines}
    skipped = {each.module for i, each in enumerate(found) if i not in counts}
    return {"layer" if path == "layer.other" else path for path in skipped}  # what is inside is skipped with it


ATTENTION = {"layer.attention"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ATTENTION),
        ({"op": "matmul"}, ATTENTION),
        ({"transposed": False}, set()),
        ({"x": (5, 6)}, set()),
        ({"x": (5, 7, 2, 6)}, set()),
        ({"w": (12, 6)}, set()),
        ({"w": (24, 6)}, set()),
        ({"b": False}, set()),
        ({"keys": 6}, set()),  # one was added
        ({"keys": 6, "op": "matmul"}, set()),
        ({"heads": 3}, set()),
        ({"heads": 4}, ATTENTION),
        ({"causal": True}, set()),  # the mask is of floating-point numbers
        ({"mask": 40}, set()),
        ({"mask": 40, "masks": True}, set()),
        ({"mask": 31, "masks": True}, ATTENTION),
        ({"mask": 32, "masks": True}, ATTENTION),
        ({"mask": 32, "masks": True, "op": "matmul"}, ATTENTION),
        ({"mask": 40, "op": "matmul"}, set()),
        ({"path": "layer.other"}, set()),
    ],
)
def test_self_attention_without_a_mask_of_numbers(options, expected):
    assert fused(calls(**options)) == expected
    frozen = fused(calls(**options), only_frozen=True, frozen=(20, 21, 22))
    assert frozen == expected


@pytest.mark.parametrize("first", ["attention", "matmul"])
def test_scores_before_a_product_are_of_another_attention(first):
    early = call(first, {"q": (14, 5, 3), "k": (14, 9, 3)}, (1, 1, 9))
    assert fused([early, *calls()]) == ATTENTION
    assert fused([early]) == set()


def test_a_second_product_is_not_looked_at():
    """Neither what comes after the first one, nor a transposition behind it, which decides nothing."""
    first, product, *rest = calls()
    assert fused([first, product, call("linear", {"x": (5, 7, 6), "w": (6, 6)}, (4, 20, 7)), *rest]) == ATTENTION
    assert fused([product, first, *rest]) == set()
    assert fused([first, call("linear", {"x": (5, 7, 6)}, (4, 7)), product, *rest]) == set()


@pytest.mark.parametrize(
    ("activation", "path", "around", "expected"),
    [
        ("relu", "layer", "TransformerEncoderLayer", {"layer", "layer.attention"}),
        ("gelu", "layer.other", "TransformerEncoderLayer", {"layer", "layer.attention"}),
        ("silu", "layer", "TransformerEncoderLayer", ATTENTION),
        ("relu", "elsewhere", "TransformerEncoderLayer", ATTENTION),
        ("relu", "layer", "TransformerDecoderLayer", ATTENTION),
    ],
)
def test_a_layer_around_attention_is_fused_with_it(activation, path, around, expected):
    found = [*calls(), call(activation, {"x": (5,)}, (6, 7), path)]
    assert fused(found, around=around) == expected
    masked = [*calls(causal=True), *found[-1:]]
    assert fused(masked, around=around) == (expected if "layer" in expected else set())


@pytest.mark.parametrize(
    ("frozen", "training", "around", "expected"),
    [
        ((20, 21, 22), "", "TransformerEncoderLayer", {"layer", "layer.attention"}),
        ((21, 22), "", "TransformerEncoderLayer", set()),  # a weight of the attention is trained
        ((20, 21, 22), "layer.attention", "TransformerEncoderLayer", set()),
        ((20, 21, 22), "layer.other", "TransformerEncoderLayer", set()),
        ((20, 21, 22), "elsewhere", "TransformerEncoderLayer", {"layer", "layer.attention"}),
        ((20, 21), "", "TransformerEncoderLayer", ATTENTION),  # a weight beside it is trained
        ((20, 21), "", "Block", ATTENTION),
    ],
)
def test_only_what_needs_no_gradient(frozen, training, around, expected):
    found = [*calls(), call("relu", {"x": (5,)}, (6, 7), "layer")]
    found.append(call("linear", {"x": (5,), "w": (6, 6)}, (7, 22, 8), "layer.other", parameters=(22,)))
    if training:
        found.append(call("dropout", {"x": (5,)}, (60, 61), training, attrs={"training": True}))
    assert fused(found, only_frozen=True, frozen=frozen, around=around) == expected
