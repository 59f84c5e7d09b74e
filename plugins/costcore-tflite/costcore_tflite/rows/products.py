"""Rows of matrix products and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.graphs.graph import XS, given, operand
from costcore.ir import prod
from costcore.translate import Arguments, Row

from .arguments import activation, has_activation, is_hybrid, is_quantized, quantization, row


def _features(a: Arguments) -> Any:
    """Return the input of a linear layer as rows of features."""
    x, weight = a["inputs"][0], a["inputs"][1]
    width = weight.shape[-1]
    return x if x.ndim and x.shape[-1] == width else x.viewed(x.size // width if width else 0, width)


def _units(a: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the output of a linear layer as rows of units."""
    y, count = outputs[0], a["inputs"][1].shape[0]
    return [y if y.ndim and y.shape[-1] == count else y.viewed(y.size // count if count else 0, count)]


LINEAR = {"x": _features, "w": operand(1), "b": operand(2)}
SCALES = quantization({"x": 0, "w": 1})
OF_WEIGHT = {name: source for name, source in SCALES.items() if name.startswith("w_")}
ACTIVATION = {"activation": activation}
FULLY_CONNECTED = "tflite::FULLY_CONNECTED"


def _side(position: int, adjoint: str) -> Any:
    """Return a source for one side of a matrix product, which may be stored transposed."""

    def read(a: Arguments) -> Any:
        value = a["inputs"][position]
        return value.permuted(*range(value.ndim - 2), -1, -2) if a.get(adjoint) else value

    return read


SIDES = {"x0": _side(0, "AdjX"), "x1": _side(1, "AdjY")}


def _lstm_part(first: int, count: int) -> Any:
    """Return a source for the weights of all gates as a list; the input gate may be tied to the forget gate."""
    return lambda a: [value for value in a["inputs"][first : first + count] if value is not None]


LSTM = {
    "x": operand(0),
    "w*": _lstm_part(1, 8),
    "w_peephole*": _lstm_part(9, 3),
    "b*": _lstm_part(12, 4),
    "w_projection": operand(16),
    "b_projection": operand(17),
    "h": operand(18),
    "c": operand(19),
    "w_norm*": _lstm_part(20, 4),
}
"""Operands of an LSTM of TensorFlow Lite. Gates have weights of their own."""

BOTH = {
    "x": operand(0),
    "w*": lambda a: [*_lstm_part(1, 8)(a), *_lstm_part(18, 8)(a)],
    "w_peephole*": lambda a: [*_lstm_part(9, 3)(a), *_lstm_part(26, 3)(a)],
    "b*": lambda a: [*_lstm_part(12, 4)(a), *_lstm_part(29, 4)(a)],
}
"""Operands of an LSTM of two directions."""

RNN = {"x": operand(0), "w0": operand(1), "w1": operand(2), "b0": operand(3), "h0": operand(4)}


def _steps(a: Arguments) -> Any:
    """Return the input of a recurrent layer with its steps first."""
    x = a["inputs"][0]
    return x if a.get("TimeMajor") or x.ndim < 3 else x.permuted(1, 0, 2)


def _letters(a: Arguments) -> str:
    """Return the equation of a product of any axes: batches, the axes of each side, and what is summed up."""
    left, right = (given(a, i) for i in (0, 1))
    names = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" * 3)
    of_left = {i: next(names) for i in range(left.ndim)}
    pairs = zip(
        (*a.get("LhsBatchingDimensions", ()), *a.get("LhsContractingDimensions", ())),
        (*a.get("RhsBatchingDimensions", ()), *a.get("RhsContractingDimensions", ())),
        strict=False,
    )
    shared = {int(second): of_left.get(int(first), "") for first, second in pairs}
    of_right = {i: shared.get(i) or next(names) for i in range(right.ndim)}
    summed = {of_left.get(int(i)) for i in a.get("LhsContractingDimensions", ())}
    batch = [of_left.get(int(i), "") for i in a.get("LhsBatchingDimensions", ())]
    free = [name for name in (*of_left.values(), *of_right.values()) if name not in (*summed, *batch)]
    return f"{''.join(of_left.values())},{''.join(of_right.values())}->{''.join((*batch, *dict.fromkeys(free)))}"


ROWS: tuple[Row, ...] = (
    Row(FULLY_CONNECTED, "dynamic_quantized_linear", {**LINEAR, **OF_WEIGHT}, ACTIVATION, is_hybrid, _units),
    Row(FULLY_CONNECTED, "quantized_linear", {**LINEAR, **SCALES}, ACTIVATION, is_quantized, _units),
    Row(FULLY_CONNECTED, "fused_linear", LINEAR, ACTIVATION, has_activation, _units),
    Row(FULLY_CONNECTED, "linear", LINEAR, outputs=_units),
    Row(
        "tflite::BATCH_MATMUL",
        "quantized_matmul",
        {**SIDES, **quantization({"x0": 0, "x1": 1})},
        when=lambda a: is_quantized(a) and is_quantized(a, 1),
    ),
    Row("tflite::BATCH_MATMUL", "matmul", SIDES),
    *(
        Row(
            f"tflite::{native}",
            "gated_lstm",
            LSTM,
            {"steps": lambda a: prod(a["inputs"][0].shape[:-1])},
            outputs=lambda a, values: values[:1],
        )
        for native in ("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
    ),
    *(
        Row(
            f"tflite::{native}",
            "rnn",
            {**RNN, "x": _steps},
            {
                "hidden": lambda a: a["inputs"][1].shape[0],
                "activation": lambda a: "relu" if a.get("FusedActivationFunction") == 1 else "tanh",
            },
            outputs=lambda a, values: values[-1:],
        )
        for native in ("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")
    ),
    row("STABLEHLO_DOT_GENERAL", "einsum", XS, equation=_letters),
    Row(
        "tflite::BIDIRECTIONAL_SEQUENCE_LSTM",
        "gated_lstm",
        BOTH,
        {"steps": lambda a: prod(a["inputs"][0].shape[:-1]), "directions": lambda a: 2},
        when=lambda a: given(a, 16) is None and given(a, 33) is None,
    ),
    Row(
        "tflite::BIDIRECTIONAL_SEQUENCE_RNN",
        "rnn",
        {**RNN, "x": _steps, "w2": operand(5), "w3": operand(6), "b1": operand(7)},
        {
            "hidden": lambda a: a["inputs"][1].shape[0],
            "bidirectional": lambda a: True,
            "activation": lambda a: "relu" if a.get("FusedActivationFunction") == 1 else "tanh",
        },
    ),
    row(
        "SVDF",
        "svdf",
        {"x": operand(0), "w0": operand(1), "w1": operand(2), "b": operand(3), "state": operand(4)},
        rank=lambda a: max(a.get("Rank", 1), 1),
    ),
    row(
        "EMBEDDING_LOOKUP",
        "embedding",
        {"x": operand(0), "w": operand(1)},
    ),
)


def is_learned_table(a: Arguments) -> bool:
    """Return whether a gather looks rows up in a learned matrix."""
    table, indices = given(a, 0), given(a, 1)
    is_matrix = table is not None and table.is_stored and table.ndim == 2
    return bool(is_matrix and indices is not None and not indices.is_stored and a.get("Axis", 0) == 0)
