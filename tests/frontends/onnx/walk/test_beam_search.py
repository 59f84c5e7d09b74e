"""Text generation: how often the encoder and the decoder of a search run, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from costcore.ir import Operations
from tests.frontends.onnx.read_model import read
from tests.registered import cost

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
V, E = 11, 4


def info(name: str, kind: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int) -> Any:
    tensor = TensorProto(name=name, dims=shape, data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="absent")
    return tensor


def decoder(source: bool = False) -> Any:
    """Embeddings, scores of every new token with the keys there are, and the scores of V tokens."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Transpose", ["past_key_self_0"], ["keys"], perm=[0, 1, 3, 2]),
        helper.make_node("Unsqueeze", ["x", "one"], ["q"]),
        helper.make_node("MatMul", ["q", "keys"], ["pairs"]),
        helper.make_node("MatMul", ["x", "head"], ["logits"]),
    ]
    given = [info("input_ids", INT32, "rows", "new"), info("mask", INT32, "rows", "total")]
    given.append(info("past_key_self_0", FLOAT, "rows", 1, "past", E))
    made = [info("logits", FLOAT, "rows", "new", V), info("pairs", FLOAT, "rows", 1, "new", "past")]
    if source:
        given.append(info("past_key_cross_0", FLOAT, "rows", 1, "source", E))
        nodes += [
            helper.make_node("Transpose", ["past_key_cross_0"], ["others"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "others"], ["met"]),
        ]
        made.append(info("met", FLOAT, "rows", 1, "new", "source"))
    one = helper.make_tensor("one", TensorProto.INT64, (1,), [1])
    return helper.make_graph(nodes, "decoder", given, made, [weight("table", V, E), weight("head", E, V), one])


def model(op: str, *numbers: int | None, outputs: int = 1, shape: Any = (2, 3), kind: int = INT32, **attrs: Any) -> Any:
    """One search of texts that go on from 2 prompts of 3 tokens; ``numbers`` are its other inputs."""
    names = [f"n{i}" if n is not None else "" for i, n in enumerate(numbers)]
    stored = [
        helper.make_tensor(name, INT32, (1,), [number]) for name, number in zip(names, numbers, strict=True) if number
    ]
    given = [info("ids", kind, *shape)] + [
        info(name, INT32, 1) for name, number in zip(names, numbers, strict=True) if number == 0
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["ids", *names], made, "search", domain="com.microsoft", **attrs)
    graph = helper.make_graph([node], "graph", given, [info(name, FLOAT) for name in made], stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


ENDS = {"eos_token_id": 1, "pad_token_id": 0}


def priced(proto: Any) -> Any:
    recorder = read(proto)
    return recorder, [(call, cost(call)) for call in recorder.calls]


def macs(calls: Any, part: str) -> Any:
    return sum(cost.macs * call.times for call, cost in calls if part in call.region)


def test_greedy_search_runs_the_prompt_once_and_its_decoder_for_every_further_token():
    recorder, calls = priced(model("GreedySearch", 8, decoder=decoder(), **ENDS))
    steps = [call.times for call, _ in calls if call.type == "Gather"]
    # 8 - 3 = 5 tokens: the prompt gives the first, four runs the others
    assert steps == [1, 4]
    prompt = 2 * 3 * E * V  # with no key before it
    # in the middle of 3, 4, 5, 6 tokens before: 5
    assert macs(calls, "search.decoder") == prompt + 4 * 2 * (E * V + 5 * E)
    call, cost = calls[-1]
    assert (call.layer.op, call.layer.out.shape) == ("token_search", (2, 8))
    assert cost.flops == 5 * Operations(cmp=2 * (V - 1))
    assert cost.mread == 4 * (6 + 5 * 2 * V)
    assert recorder.n_params_model == 2 * V * E
    assert "the length of the generated text depends on data: assumed 8 tokens" in recorder.assumptions[-1].what


def test_sampling_takes_a_softmax_and_a_sort():
    _, calls = priced(model("Sampling", 8, decoder=decoder(), outputs=2, **ENDS))
    call, cost = calls[-1]
    assert [y.shape for y in call.layer.outputs] == [(2, 8), (2, V)]
    assert cost.flops == 5 * 2 * Operations(add=20, div=11, special=11, cmp=11 * 4 + 11)


def test_beam_search_decodes_all_beams():
    numbers = (8, None, 4, 2)  # longest, least, beams, returned
    _, calls = priced(model("BeamSearch", *numbers, decoder=decoder(), outputs=3, **ENDS))
    assert macs(calls, "search.decoder") == 4 * (2 * 3 * E * V + 4 * 2 * (E * V + 5 * E))
    call, cost = calls[-1]
    assert [y.shape for y in call.layer.outputs] == [(2, 2, 8), (2, 2), (5, 2, 4, V)]
    # 8 rows of log softmax and beam scores; of 44 scores of each sample the best 4: ceil(log2(4 + 1)) = 3 cmp each
    assert cost.flops == 5 * (8 * Operations(add=32, special=12) + Operations(cmp=2 * 44 * 3))


def encoder() -> Any:
    nodes = [
        helper.make_node("MatMul", ["features", "w"], ["encoder_hidden_states"]),
        helper.make_node("Gather", ["table", "decoder_input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "head"], ["logits"]),
    ]
    given = [info("features", FLOAT, "batch", "frames", 6), info("decoder_input_ids", INT32, "batch", "begun")]
    made = [info("logits", FLOAT, "batch", "begun", V), info("encoder_hidden_states", FLOAT, "batch", "frames", E)]
    return helper.make_graph(
        nodes, "encoder", given, made, [weight("w", 6, E), weight("table", V, E), weight("head", E, V)]
    )


def test_an_encoder_runs_once_and_is_attended_to_by_every_token():
    numbers = (5, None, 2, 1)
    proto = model(
        *("WhisperBeamSearch", *numbers),
        shape=(1, 9, 6),
        kind=FLOAT,
        encoder=encoder(),
        decoder=decoder(source=True),
        **{"model_type": 2, **ENDS},
    )
    _, calls = priced(proto)
    assert macs(calls, "search.encoder") == 9 * 6 * E + E * V
    # begun with one token: 4 steps, of which the decoder runs 3, with 1 + 1 tokens before in the middle; 9 places
    assert macs(calls, "search.decoder") == 3 * 2 * (E * V + 2 * E + 9 * E)
    assert calls[-1][0].layer.out.shape == (1, 1, 5)


def test_a_length_that_is_computed_is_a_symbol():
    recorder, calls = priced(model("GreedySearch", 0, decoder=decoder(), **ENDS))
    assert str(calls[-1][0].layer.out.shape) == "(2, search_max_length)"
    assert any("max_length depends on data" in a.what for a in recorder.assumptions)


def test_a_text_that_is_complete_runs_no_decoder():
    _, calls = priced(model("GreedySearch", 3, decoder=decoder(), **ENDS))
    assert [call.type for call, _ in calls].count("Gather") == 1
    assert calls[-1][1].flops == Operations()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({**ENDS, "encoder": encoder(), "shape": (1, 9, 6), "kind": FLOAT}, "has no graph 'decoder' with inputs"),
        ({**ENDS, "decoder": helper.make_graph([], "empty", [], [])}, "has no graph 'decoder' with inputs"),
    ],
)
def test_what_is_wrong_is_said(attrs, message):
    with pytest.raises(ValueError, match=f"node 'search' .GreedySearch. {message}"):
        read(model("GreedySearch", 8, **attrs))
