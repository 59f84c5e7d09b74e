"""Rows of recurrent cells, and of whole recurrent layers as cuDNN runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arrays import Seen
from .rows.arguments import ALL, at, gradient, named, row

MATRICES = {"lstm": 8, "gru": 6, "rnn": 2}
"""Weight matrices, and biases, of a layer in one direction."""

LAYERS: Mapping[str, tuple[str, bool, str | None]] = {  # operator, both directions, activation
    "NStepLSTM": ("lstm", False, None),
    "NStepBiLSTM": ("lstm", True, None),
    "NStepGRU": ("gru", False, None),
    "NStepBiGRU": ("gru", True, None),
    "NStepRNNTanh": ("rnn", False, "tanh"),
    "NStepBiRNNTanh": ("rnn", True, "tanh"),
    "NStepRNNReLU": ("rnn", False, "relu"),
    "NStepBiRNNReLU": ("rnn", True, "relu"),
}


def _biases(op: str, args: Arguments) -> int:
    states = args["inputs"][0]
    return MATRICES[op] * int(states.shape[0] * states.shape[2])


def weights(op: str) -> Source:
    """The weights in the one array that cuDNN keeps weights and biases in."""

    def part(args: Arguments) -> Seen:
        w = args["inputs"][-2]
        return Seen(w, (w.size - _biases(op, args),))

    return part


def biases(op: str) -> Source:
    """The biases in that array."""
    return lambda args: Seen(args["inputs"][-2], (_biases(op, args),))


def _layer(name: str) -> tuple[Row, Row]:
    op, bidirectional, activation = LAYERS[name]
    cells = {"c0": at(1)} if op == "lstm" else {}
    operands = {"x": lambda args: args["inputs"][-1], "h0": at(0), **cells, "w0": weights(op), "b0": biases(op)}
    settings: dict[str, Source] = {
        "hidden": lambda args: args["inputs"][0].shape[2],
        "layers": lambda args: args["function"].n_layers,
        "bidirectional": lambda args: bidirectional,
        "activation": lambda args: activation,
        "reset_after": lambda args: True if op == "gru" else None,
    }
    outputs = ("dhn", "dcn", "dy") if cells else ("dhn", "dy")
    gradients: dict[str, Any] = {outputs[i]: gradient(i) for i in reversed(range(len(outputs)))}
    return (
        row(name, op, operands, **settings),
        row(f"{name}Backward", f"{op}_backward", {**gradients, **operands}, **settings),
    )


PAIR = named("c0", "c1", "x0", "x1", "c", "dc", "dh")


def tree_cells(args: Arguments) -> list[Any]:
    """The cells of the children: all inputs but the last."""
    return list(args["inputs"][:-1])


def last(args: Arguments) -> Any:
    """The last input."""
    return args["inputs"][-1]


ROWS: tuple[Row, ...] = (
    row("LSTM", "lstm_gates", {"x": at(1), "c0": at(0)}),
    row("LSTMGrad", "lstm_gates_backward", named("c0", "x", "c", "dc", "dh")),
    row(
        "LSTMGradBackward",
        "lstm_gates_double_backward",
        {**named("c0", "x", "c", "dc", "dh"), "vc": gradient(0), "vx": gradient(1)},
    ),
    row("SLSTM", "slstm_gates", named("c0", "c1", "x0", "x1")),
    row("SLSTMGrad", "slstm_gates_backward", PAIR),
    row(
        "SLSTMGradBackward",
        "slstm_gates_double_backward",
        {**PAIR, "vc0": gradient(0), "vc1": gradient(1), "vx0": gradient(2), "vx1": gradient(3)},
    ),
    row("TreeLSTM", "tree_lstm_gates", {"c*": tree_cells, "x": last}),
    row(
        "TreeLSTMBackward",
        "tree_lstm_gates_backward",
        {"c*": tree_cells, "x": last, "dc": gradient(0), "dh": gradient(1)},
    ),
    row("CudnnRNNWeightConcat", "concat", ALL),
    row("CudnnRNNWeightConcatBackward", "split", {"x": gradient(0)}),
    *(each for name in LAYERS for each in _layer(name)),
)
