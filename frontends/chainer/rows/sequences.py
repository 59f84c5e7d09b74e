"""Rows of recurrent cells, and of multi-layer recurrent networks as cuDNN runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..arrays import Reshaped
from .arguments import input_at, operands, output_gradient, row

MATRICES = {"lstm": 8, "gru": 6, "rnn": 2}
"""The number of weight matrices, and of biases, of one layer in one direction."""

NETWORKS: Mapping[str, tuple[str, bool, str | None]] = {
    "NStepLSTM": ("lstm", False, None),
    "NStepBiLSTM": ("lstm", True, None),
    "NStepGRU": ("gru", False, None),
    "NStepBiGRU": ("gru", True, None),
    "NStepRNNTanh": ("rnn", False, "tanh"),
    "NStepBiRNNTanh": ("rnn", True, "tanh"),
    "NStepRNNReLU": ("rnn", False, "relu"),
    "NStepBiRNNReLU": ("rnn", True, "relu"),
}
"""Operator, whether it is bidirectional, activation."""


def bias_size(op: str, args: Arguments) -> int:
    """Return the number of elements of all biases."""
    states = args["inputs"][0]
    return MATRICES[op] * int(states.shape[0] * states.shape[2])


def weights(op: str) -> Source:
    """Read the weights from the single array in which cuDNN stores weights and biases."""

    def read(args: Arguments) -> Reshaped:
        w = args["inputs"][-2]
        return Reshaped(w, (w.size - bias_size(op, args),))

    return read


def biases(op: str) -> Source:
    """Read the biases from the single array in which cuDNN stores weights and biases."""
    return lambda args: Reshaped(args["inputs"][-2], (bias_size(op, args),))


def last_input(args: Arguments) -> Any:
    """Return the last input."""
    return args["inputs"][-1]


def network_rows(name: str) -> tuple[Row, Row]:
    """Return the rows of a multi-layer network and of its backward pass."""
    op, bidirectional, activation = NETWORKS[name]
    cells = {"c0": input_at(1)} if op == "lstm" else {}
    inputs = {"x": last_input, "h0": input_at(0), **cells, "w0": weights(op), "b0": biases(op)}
    attrs: dict[str, Source] = {
        "hidden": lambda args: args["inputs"][0].shape[2],
        "layers": lambda args: args["function"].n_layers,
        "bidirectional": lambda args: bidirectional,
        "activation": lambda args: activation,
        "reset_after": lambda args: True if op == "gru" else None,
    }
    outputs = ("dhn", "dcn", "dy") if cells else ("dhn", "dy")
    gradients: dict[str, Any] = {outputs[i]: output_gradient(i) for i in reversed(range(len(outputs)))}
    return row(name, op, inputs, **attrs), row(f"{name}Backward", f"{op}_backward", {**gradients, **inputs}, **attrs)


SLSTM_GRADIENT_INPUTS = operands("c0", "c1", "x0", "x1", "c", "dc", "dh")


def child_cells(args: Arguments) -> list[Any]:
    """Return the cell states of the children of a tree node: all inputs but the last."""
    return list(args["inputs"][:-1])


ROWS: tuple[Row, ...] = (
    row("LSTM", "lstm_gates", {"x": input_at(1), "c0": input_at(0)}),
    row("LSTMGrad", "lstm_gates_backward", operands("c0", "x", "c", "dc", "dh")),
    row(
        "LSTMGradBackward",
        "lstm_gates_double_backward",
        {**operands("c0", "x", "c", "dc", "dh"), "vc": output_gradient(0), "vx": output_gradient(1)},
    ),
    row("SLSTM", "slstm_gates", operands("c0", "c1", "x0", "x1")),
    row("SLSTMGrad", "slstm_gates_backward", SLSTM_GRADIENT_INPUTS),
    row(
        "SLSTMGradBackward",
        "slstm_gates_double_backward",
        {
            **SLSTM_GRADIENT_INPUTS,
            "vc0": output_gradient(0),
            "vc1": output_gradient(1),
            "vx0": output_gradient(2),
            "vx1": output_gradient(3),
        },
    ),
    row("TreeLSTM", "tree_lstm_gates", {"c*": child_cells, "x": last_input}),
    row(
        "TreeLSTMBackward",
        "tree_lstm_gates_backward",
        {"c*": child_cells, "x": last_input, "dc": output_gradient(0), "dh": output_gradient(1)},
    ),
    *(each for name in NETWORKS for each in network_rows(name)),
)
