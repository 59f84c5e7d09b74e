"""Layers that carry a state: one node each, by hand."""

from __future__ import annotations

import pytest
from onnx import defs

from costcore.ir import Layer, Operations
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.rows.single_node import INT64, priced
from tests.whole_networks.onnx_models import Graph


@pytest.mark.skipif(not defs.has("LinearAttention"), reason="the installed onnx has no such operators")
def test_layers_with_a_state():
    layer, cost = priced(
        "LinearAttention",
        *[(2, 5, 8), (2, 5, 4), (2, 5, 6)],
        outputs=2,
        opset=27,
        q_num_heads=4,
        kv_num_heads=2,
        update_rule="linear",
    )
    assert [y.shape for y in layer.outputs] == [(2, 5, 12), (2, 2, 2, 3)]
    assert cost.macs == 2 * 5 * (2 + 4) * 2 * 3
    layer, cost = priced("CausalConvWithState", (2, 3, 7), (3, 1, 4), (3,), outputs=2, opset=27, activation="swish")
    assert [y.shape for y in layer.outputs] == [(2, 3, 7), (2, 3, 3)]
    assert cost.macs == 42 * 4
    assert cost.flops == Operations(fma=168) + 42 * Operations(mul=1, add=2, div=1, special=1)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, BATCH, STEPS, WIDTH = 6, 2, 5, 4


def notes(op: str, layout: int = 0, **given: tuple[int, ...]) -> list[str]:
    """Notes on a layer of 6 units that gets 5 steps of 2 sequences of 4 features, with operands of other shapes."""
    rows, state = GATES[op] * HIDDEN, (BATCH, 1, HIDDEN) if layout else (1, BATCH, HIDDEN)
    operands = {
        "X": (BATCH, STEPS, WIDTH) if layout else (STEPS, BATCH, WIDTH),
        "W": (1, rows, WIDTH),
        "R": (1, rows, HIDDEN),
        "B": (1, 2 * rows),
        "sequence_lens": (BATCH,),
        "initial_h": state,
        **({"initial_c": state, "P": (1, 3 * HIDDEN)} if op == "LSTM" else {}),
        **given,
    }
    g = Graph()
    y = g(op, *operands, hidden_size=HIDDEN, layout=layout)
    inputs = {name: (INT64, shape) if name == "sequence_lens" else shape for name, shape in operands.items()}
    recorder = read(g.model(inputs, y))
    assert [call.layer.out.shape for call in recorder.calls][-1][-1] == HIDDEN
    return recorder.notes


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("op", GATES)
def test_a_recurrent_layer_that_fits_has_no_note(op, layout):
    assert notes(op, layout=layout) == []


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        ("LSTM", {"initial_h": (1, BATCH, 3)}, "initial_h of shape (1, 2, 3) (expected (1, 2, 6))"),
        ("LSTM", {"P": (1, 2 * HIDDEN)}, "P of shape (1, 12) (expected (1, 18))"),
        ("GRU", {"initial_h": (2, BATCH, HIDDEN)}, "initial_h of shape (2, 2, 6) (expected (1, 2, 6))"),
        ("GRU", {"B": (1, 3 * HIDDEN)}, "B of shape (1, 18) (expected (1, 36))"),
        ("GRU", {"sequence_lens": (STEPS,)}, "sequence_lens of shape (5,) (expected (2,))"),
        ("RNN", {"W": (1, HIDDEN, 5)}, "W of shape (1, 6, 5) (expected (1, 6, 4))"),
        ("RNN", {"R": (1, HIDDEN, 3)}, "R of shape (1, 6, 3) (expected (1, 6, 6))"),
    ],
)
def test_operands_of_a_recurrent_layer_that_contradict_each_other_are_noted(op, given, expected):
    (note,) = notes(op, **given)
    assert f"has the inputs {expected}; it is counted with the sizes of R and hidden_size" in note


def layer(op: str, directions: int = 1, peephole: bool = False, **attributes: object) -> Layer:
    """The layer of a node of 6 units."""
    g, rows = Graph(22), GATES[op] * HIDDEN
    inputs = [
        "x",
        g.weight(directions, rows, WIDTH),
        g.weight(directions, rows, HIDDEN),
        g.weight(directions, 2 * rows),
    ]
    if peephole:
        inputs += ["", "", "", g.weight(directions, 3 * HIDDEN)]
    direction = "bidirectional" if directions == 2 else "forward"
    y = g(op, *inputs, direction=direction, hidden_size=HIDDEN, **attributes)
    (call,) = read(g.model({"x": (STEPS, BATCH, WIDTH)}, y)).calls
    return call.layer
