"""Rows of recurrent layers and of layers that carry a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.numbers.dims import minimum
from costcore.translate import Arguments, Row, Source

from ..values.value import Value
from .arguments import flag, node_of

USUAL: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM", "AttnLSTM"), ("sigmoid", "tanh", "tanh")),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
"""The usual activation functions of one direction."""

FUNCTIONS: Mapping[str, str] = {
    **{name: name for name in ("affine", "elu", "relu", "sigmoid", "softplus", "softsign", "tanh")},
    "hardsigmoid": "hard_sigmoid",
    "leakyrelu": "leaky_relu",
    "scaledtanh": "scaled_tanh",
    "thresholdedrelu": "threshold",
}
"""Canonical names of activation functions, by those of ONNX, which may be written in any case of letters."""


def _functions(a: Arguments) -> tuple[str, ...]:
    """Return the activation functions of all directions, or of one if all have the same; "" for an unknown one."""
    usual = USUAL[node_of(a).op]
    names = tuple(FUNCTIONS.get(name.lower(), "") for name in a.get("activations") or ()) or usual
    half = names[: len(usual)]
    return half if names == half * (len(names) // len(usual)) else names


def has_known_functions(a: Arguments) -> bool:
    """Return whether all activation functions are known, and as many as the directions need."""
    names, directions = _functions(a), 2 if a.get("direction") == "bidirectional" else 1
    return "" not in names and len(names) in (count := len(USUAL[node_of(a).op]), count * directions)


def _unusual_functions(a: Arguments) -> tuple[str, ...] | None:
    """Return the activation functions unless they are the usual ones; of an RNN, those of two directions."""
    names, usual = _functions(a), USUAL[node_of(a).op]
    return None if names == usual or (usual == ("tanh",) and len(names) == 1) else names


def _function(a: Arguments) -> str | None:
    """Return the activation function of an RNN; None if its directions have different ones."""
    names = _functions(a)
    return names[0] if len(names) == 1 else None


CELL: Mapping[str, Any] = {
    "activations": _unusual_functions,
    "clip": lambda a: True if a.get("clip") else None,
    "tied_gates": lambda a: True if a.get("input_forget") else None,
}
"""Attributes of the cells of recurrent layers."""

RECURRENT: Mapping[str, Any] = {
    "hidden": lambda a: a.get("hidden_size") or a["R"].known_shape[-1],
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
    **CELL,
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
        when=has_known_functions,
    ),
    Row(
        "ai.onnx::GRU",
        "gru",
        GATES,
        {**RECURRENT, "reset_after": flag("linear_before_reset")},
        when=has_known_functions,
    ),
    Row("ai.onnx::RNN", "rnn", GATES, {**RECURRENT, "activation": _function}, when=has_known_functions),
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
