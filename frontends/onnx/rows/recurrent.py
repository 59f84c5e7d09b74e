"""Rows of recurrent layers and of layers that carry a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.numbers.dims import minimum
from costcore.translate import Arguments, Row, Source

from ..values.value import Value
from .arguments import flag, node_of

ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}


def _is_standard(a: Arguments) -> bool:
    """Return whether a recurrent layer has its default activations, and neither clips nor ties its gates."""
    if a.get("clip") is not None or a.get("input_forget"):
        return False
    names = tuple(a.get("activations") or ())
    usual = ACTIVATIONS.get(node_of(a).op)
    if usual is None:
        return len({name.lower() for name in names} or {"tanh"}) == 1 and _activation(a) in ("tanh", "relu")
    return not names or names in (usual, usual * 2)


def _activation(a: Arguments) -> str:
    """Return the name of the first activation."""
    return str((a.get("activations") or ("tanh",))[0]).lower()


RECURRENT: Mapping[str, Any] = {
    "hidden": lambda a: a.get("hidden_size") or a["R"].known_shape[-1],
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
}


def _steps(a: Arguments) -> Any:
    """Return the sequences; if their lengths are known, all their steps in one sequence."""
    x, lengths = a["X"], a.get("sequence_lens")
    if not isinstance(lengths, Value) or lengths.data is None or not all(map(_is_length, lengths.data.flat)):
        return x
    longest = x.known_shape[1 if a.get("layout") else 0]
    return x.viewed((sum(minimum(length, longest) for length in lengths.data.flat), x.known_shape[-1]))


def _is_length(number: Any) -> bool:
    """Return whether a number is a known length."""
    return isinstance(number, int) and number >= 0


GATES: dict[str, Source] = {"x": _steps, "w0": "W", "w1": "R", "b0": "B", "lengths": "sequence_lens", "h0": "initial_h"}


def packed_heads(name: str, count: str) -> Any:
    """Return a source for packed heads ``[B, T, H * D]`` as ``[B, H, T, D]``."""

    def read(a: Arguments) -> Value:
        value, heads = a[name], a[count]
        batch, steps, width = value.known_shape
        view: Value = value.viewed((batch, heads, steps, width // heads))
        return view

    return read


def causal_activation(a: Arguments) -> Any:
    """Return the activation of a causal convolution; None if there is none."""
    return {"none": None, "swish": "silu"}.get(a.get("activation", "none"), a.get("activation"))


RECURRENCE = {
    "q": packed_heads("query", "q_num_heads"),
    "k": packed_heads("key", "kv_num_heads"),
    "v": packed_heads("value", "kv_num_heads"),
    "decay": "decay",
    "beta": "beta",
    "state": "past_state",
}
"""Operands of ``linear_attention``."""


ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::LSTM",
        "lstm",
        {**GATES, "c0": "initial_c", "w2": "P"},
        {**RECURRENT, "peephole": lambda a: True if a.get("P") is not None else None},
        when=_is_standard,
    ),
    Row("ai.onnx::GRU", "gru", GATES, {**RECURRENT, "reset_after": flag("linear_before_reset")}, when=_is_standard),
    Row("ai.onnx::RNN", "rnn", GATES, {**RECURRENT, "activation": _activation}, when=_is_standard),
    Row(
        "ai.onnx::LinearAttention",
        "linear_attention",
        RECURRENCE,
        {"rule": "update_rule"},
    ),
    Row(
        "ai.onnx::CausalConvWithState",
        "causal_conv",
        {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
        {"activation": causal_activation},
    ),
)
