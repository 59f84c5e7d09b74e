"""Sequences, optionals and maps: what is known of them, and what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from costcore import CostError
from tests.frontends.onnx.read_model import read, total
from tests.whole_networks.onnx_models import Graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TENSOR = helper.make_tensor_type_proto


def sequence_of(shape: Any) -> Any:
    return helper.make_sequence_type_proto(TENSOR(FLOAT, shape))


def with_input(g: Graph, name: str, kind: Any, output: str, **inputs: Any) -> Any:
    """A model with an input that is no tensor."""
    model = g.model(inputs, output)
    model.graph.input.insert(0, helper.make_value_info(name, kind))
    return model


def test_a_sequence_knows_its_items():
    g = Graph()
    held = g("SequenceInsert", g("SequenceConstruct", "a", "b"), "c", g.number(1, scalar=True))
    first, last = (g("SequenceAt", held, g.number(i, scalar=True)) for i in (1, -1))
    y = g("Concat", g("Relu", first), g("Relu", last), axis=0)
    calls = read(g.model({"a": (2, 4), "b": (3, 4), "c": (5, 4)}, y)).calls
    assert calls[-1].layer.out.shape == (5 + 3, 4)
    assert [call.layer.op for call in calls[:4]] == ["container"] * 4
    assert (total(calls[:4], "mread"), total(calls[:4], "mwrite")) == (0, 0)


@pytest.mark.parametrize(
    ("split", "keep", "parts"),
    [
        (None, 1, [(2, 1)] * 5),
        (None, 0, [(2,)] * 5),
        (2, 1, [(2, 2), (2, 2), (2, 1)]),
        (5, 1, [(2, 5)]),
        ((1, 4), 1, [(2, 1), (2, 4)]),
    ],
)
def test_splitting_into_a_sequence(split, keep, parts):
    g = Graph()
    elements = split if isinstance(split, tuple) else (split,)
    where = [] if split is None else [g.number(*elements, scalar=not isinstance(split, tuple))]
    held = g("SplitToSequence", "x", *where, axis=-1, keepdims=keep)
    y = g("SequenceLength", held)
    (call, length) = read(g.model({"x": (2, 5)}, y)).calls
    assert [tensor.shape for tensor in call.layer.outputs] == parts
    assert length.layer.op == "constant"
    assert total([call], "mread") == total([call], "mwrite") == 40


def test_a_sequence_of_unknown_length_is_a_symbol():
    g = Graph()
    y = g("ConcatFromSequence", g("SplitToSequence", "x", axis=0), axis=0)
    call = read(g.model({"x": ("n", 5)}, y)).calls[-1]
    assert str(call.layer.out.shape) == "(n, 5)"
    g = Graph()
    model = with_input(g, "s", sequence_of((3, 4)), g("Relu", g("ConcatFromSequence", "s", axis=0, new_axis=1)))
    layer = read(model).calls[-1].layer
    assert str(layer.out.shape) == "(s_length, 3, 4)"
    assert read(model, dims={"s_length": 6}).calls[-1].layer.out.shape == (6, 3, 4)
    assert read(model, {"s": [(3, 4)] * 2}).calls[-1].layer.out.shape == (2, 3, 4)
    with pytest.raises(CostError, match="input 's' is a sequence"):
        read(model, {"s": np.zeros(3)})


def body(op: str, *more: str) -> Any:
    """The graph ``y = op(x, ...)``."""
    g = Graph()
    return g.graph(dict.fromkeys(("x", *more), (None,)), g(op, "x", *more))


def mapped(first: Any, *others: Any, op: str = "Relu", **options: Any) -> Any:
    g = Graph()
    names = [f"t{i}" for i in range(len(others))]
    y = g("SequenceMap", "s", *names, body=body(op, *names))
    model = g.model(dict(zip(names, others, strict=True)), y)
    model.graph.output[0].CopyFrom(helper.make_value_info(y, sequence_of(None)))
    model.graph.input.insert(0, helper.make_value_info("s", sequence_of((None,))))
    return read(model, {"s": first} if first is not None else None, **options)


def test_a_map_over_a_sequence_of_unknown_length_is_a_formula():
    recorder = mapped(None)
    (call,) = recorder.calls
    assert str(call.times) == "s_length"
    assert str(total(recorder.calls, "flops")) == "SequenceMap_0_0_item0_0*s_length"
    assert total(mapped(None, dims={"s_length": 0}).calls, "flops") == 0


def optional_of(kind: Any) -> Any:
    return helper.make_optional_type_proto(kind)


def test_optionals():
    g = Graph()
    y = g("Relu", g("OptionalGetElement", g("Optional", "x")))
    calls = read(g.model({"x": (3, 4)}, y)).calls
    assert calls[-1].layer.out.shape == (3, 4)
    g = Graph()
    has = g("OptionalHasElement", g("Optional", "x"))
    nothing = g("OptionalHasElement", g("Optional", type=TENSOR(FLOAT, (2,))))
    y = g("And", has, nothing)
    calls = read(g.model({"x": (3, 4)}, y)).calls
    assert calls[-1].layer.op == "constant", "both are known"
    g = Graph()
    model = with_input(g, "o", optional_of(TENSOR(FLOAT, (3, 4))), g("Relu", g("OptionalGetElement", "o")))
    assert read(model).calls[-1].layer.out.shape == (3, 4)
    g = Graph()
    model = with_input(g, "o", optional_of(sequence_of((2,))), g("SequenceLength", g("OptionalGetElement", "o")))
    assert read(model, {"o": [(2,), (2,)]}).calls[-1].layer.op == "constant"
    assert read(model).calls[-1].layer.op == "constant", "the length is a symbol, and follows from shapes"


def test_an_optional_input_may_be_missing_so_the_dearer_branch_counts():
    g = Graph()
    inner, empty = Graph(), Graph()
    then = inner.graph({}, inner("Exp", inner("OptionalGetElement", "o")))
    other = empty.graph({}, empty("Identity", "x"))
    y = g("If", g("OptionalHasElement", "o"), then_branch=then, else_branch=other)
    recorder = read(with_input(g, "o", optional_of(TENSOR(FLOAT, (3,))), y, x=(3,)))
    assert total(recorder.calls, "flops") == 3
    assert len(recorder.assumptions) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g: g("SequenceAt", g("SequenceConstruct", "x"), g.number(3, scalar=True)), "has position 3"),
        (
            lambda g: g("SequenceAt", g("SequenceConstruct", "x"), g.number(1, scalar=True)),
            "has position 1, but its sequence has 1 items",
        ),
        (lambda g: g("SequenceLength", "x"), r"needs a sequence as its input 'input_sequence' \(got a tensor"),
        (lambda g: g("SplitToSequence", "x", g.number(0, scalar=True)), "splits into parts of size 0"),
        (lambda g: g("OptionalGetElement", g("Optional", type=TENSOR(FLOAT, (2,)))), "the value of an empty optional"),
    ],
)
def test_what_is_wrong_is_said(build, message):
    g = Graph()
    y = build(g)
    with pytest.raises(CostError, match=message):
        read(g.model({"x": (3, 4)}, y))


def test_a_map_and_its_row():
    g = Graph()
    kind = helper.make_map_type_proto(TensorProto.STRING, TENSOR(FLOAT, ()))
    y = g("DictVectorizer", "m", domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])
    model = with_input(g, "m", kind, y)
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    (call,) = read(model).calls
    assert (call.layer.op, call.layer.out.shape) == ("lookup", (3,))
    g = Graph()
    model = g.model({"x": (4, 3)}, g("ZipMap", "x", domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"]))
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    assert [call.layer.op for call in read(model).calls] == ["container"]


@pytest.mark.parametrize(("op", "length"), [("SequenceInsert", 4), ("SequenceErase", 2)])
def test_a_place_that_is_data_leaves_open_which_item_it_is(op, length):
    g = Graph()
    tensor = ["c"] if op == "SequenceInsert" else []
    held = g(op, g("SequenceConstruct", "a", "b", "c"), *tensor, "place")
    y = g("ConcatFromSequence", held, axis=0)
    model = g.model({"a": (2, 4), "b": (2, 4), "c": (2, 4), "place": (INT64, ())}, y)
    assert read(model).calls[-1].layer.out.shape == (2 * length, 4)


@pytest.mark.parametrize(
    ("op", "place", "accepted"),
    [
        *(("SequenceInsert", place, True) for place in (-3, 0, 3)),
        *(("SequenceInsert", place, False) for place in (-4, 4)),
        *((op, place, True) for op in ("SequenceErase", "SequenceAt") for place in (-3, 0, 2)),
        *((op, place, False) for op in ("SequenceErase", "SequenceAt") for place in (-4, 3)),
    ],
)
def test_places_in_a_sequence_of_three(op, place, accepted):
    g = Graph()
    tensor = ["c"] if op == "SequenceInsert" else []
    made = g(op, g("SequenceConstruct", "a", "b", "c"), *tensor, g.number(place, scalar=True))
    model = g.model({"a": (2, 4), "b": (2, 4), "c": (2, 4)}, made)
    if accepted:
        read(model)
        return
    with pytest.raises(CostError, match=f"has position {place}, but its sequence has 3 items"):
        read(model)


def test_very_many_parts_are_counted_and_not_listed():
    g = Graph()
    held = g("SplitToSequence", "x", g.number(2, scalar=True), axis=0)
    one = g("Unsqueeze", g("SequenceLength", held), g.number(0))
    model = g.model({"x": ((1 << 40) + 1, 3)}, g("Expand", "one", one))
    model.graph.input.append(helper.make_tensor_value_info("one", FLOAT, (1,)))
    assert read(model).calls[-1].layer.out.shape == ((1 << 39) + 1,)
