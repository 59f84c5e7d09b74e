"""Recurrent layers of ONNX Runtime, and layers with a state: linear attention, delta rules, causal convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers import Dim
from costcore.translate import Arguments

from ..graph.node import Inferred, Node
from ..operators.arguments import check_ranks, fact, like, node_of, nonzero
from ..operators.sequences import (
    CELL,
    RECURRENCE,
    causal_activation,
    causal_conv,
    has_known_functions,
    linear_attention,
    note_misfits,
    recurrent,
    states,
)
from ..values import Value
from .spec import OperatorSpec, row


def gated_linear_attention(node: Node) -> Sequence[Value]:
    """Infer linear attention as the standard's operator, with its default update rule."""
    node.args.setdefault("update_rule", "gated_delta")
    return linear_attention(node)


@dataclass(frozen=True, slots=True)
class DeltaHeads:
    """Heads of keys and of values, and the features of each."""

    heads: tuple[Dim, Dim]
    features: tuple[Dim, Dim]


UPDATES = ("linear", "gated", "delta", "gated_delta")


def delta_net(node: Node) -> Inferred:
    """Infer joined sequences updated by gated delta rules, with separate or packed queries, keys and values.

    The state is ``[N, H_v, D_v, D]``.
    """
    query, key, value, state = node.value("query"), node.get("key"), node.get("value"), node.get("initial_state")
    rule = node.args.get("update_rule", "gated_delta")
    if rule not in UPDATES:
        raise node.error(f"has the update_rule {rule!r} (expected one of {', '.join(UPDATES)})")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in rule and node.get(name) is None:
            raise node.error(f"lacks the input {name!r}, which the update_rule {rule!r} needs")
    if key is None or value is None:
        if state is None:
            raise node.error("has no keys and values, and no state that gives their heads")
        lead, (_, heads_v, width_v, width) = query.known_shape[:-1], state.known_shape
        heads_k = (query.known_shape[-1] - heads_v * width_v) // (2 * width)
    else:
        (*lead_axes, heads_v, width_v), (heads_k, width) = value.known_shape, key.known_shape[-2:]
        lead = tuple(lead_axes)
    cuts = node.get("cu_seqlens")
    count: Dim = lead[0] if len(lead) == 2 else 1
    if state is not None:
        count = state.known_shape[0]
    elif cuts is not None:
        count = cuts.known_shape[0] - 1
    facts = DeltaHeads((heads_k, heads_v), (width, width_v))
    kept = node.args.get("state_update_capacity", 0) * (heads_v + heads_k * width + heads_v * width_v)
    return Inferred(
        [
            node.result((*lead, heads_v, width_v), query.dtype),
            node.result((count, heads_v, width_v, width), "float32"),
            node.result((count, kept), "float32"),
        ],
        facts,
    )


def quantized_recurrent(node: Node) -> Sequence[Value]:
    """Infer all steps and the last states; weights are ``[1, I, 4 H]`` and ``[1, H, 4 H]``."""
    x, r = node.value("X"), node.value("R")
    if len(x.known_shape) != 3 or len(r.known_shape) != 3:
        raise node.error(
            f"needs inputs and weights of 3 dimensions (got the shapes {x.known_shape} and {r.known_shape})"
        )
    (steps, batch, _), (directions, hidden, _) = x.known_shape, r.known_shape
    last = (directions, batch, hidden)
    note_misfits(
        node, {"W": (directions, x.known_shape[-1], 4 * hidden), "R": (directions, hidden, 4 * hidden), **states(last)}
    )
    return [node.result(shape, x.dtype) for shape in ((steps, directions, batch, hidden), last, last)]


def recurrent_with_memory(node: Node) -> Sequence[Value]:
    """Infer all steps and the last states."""
    check_ranks(node, X=3, W=3, R=3, QW=3, MW=3, V=2, M=3)
    node.args["hidden_size"] = node.value("R").known_shape[-1]
    return recurrent(node)


def joined_causal_conv(node: Node) -> Sequence[Value]:
    """Infer joined sequences ``[T, C]``, their last inputs, and captured states."""
    x, state = node.value("input"), node.value("initial_state")
    if len(x.known_shape) != 2:
        raise node.error(f"needs joined sequences [T, C] (got the shape {x.known_shape})")
    update = (state.known_shape[0], node.args.get("state_update_capacity", 0), x.known_shape[1])
    return [
        node.result(x.known_shape, x.dtype),
        node.result(state.known_shape, state.dtype),
        node.result(update, x.dtype),
    ]


RECURRENT = {
    "x": "X",
    "w0": "W",
    "w1": "R",
    "b0": "B",
    "lengths": "sequence_lens",
    "h0": "initial_h",
    "c0": "initial_c",
}


def _hidden_size(a: Arguments) -> Any:
    # The recurrent weight has four gates on its other axis.
    r = a["R"].known_shape
    return r[1] if node_of(a).op == "DynamicQuantizeLSTM" else r[-1]


DIRECTED = {
    "hidden": lambda a: a["initial_h"].known_shape[-1] if isinstance(a.get("initial_h"), Value) else _hidden_size(a),
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
    **CELL,
}


def _as_one_sequence(a: Arguments) -> Value:
    x: Value = a["input"]
    return x.viewed((1, *x.known_shape[::-1]))


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "LinearAttention",
        "query key value past_state decay beta",
        required=3,
        attributes="kv_num_heads q_num_heads",
        infer=gated_linear_attention,
        rows=[row("linear_attention", RECURRENCE, {"rule": lambda a: a.get("update_rule", "gated_delta")})],
    ),
    OperatorSpec(
        "CausalConvWithState",
        "input weight bias past_state",
        required=2,
        attributes="channels_last",
        infer=causal_conv,
        rows=[
            row(
                "causal_conv",
                {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
                {"activation": causal_activation},
                when=lambda a: causal_activation(a) in (None, "silu"),
            )
        ],
    ),
    OperatorSpec(
        "VarlenCausalConvWithState",
        "input weight cumulative_sequence_length bias initial_state capture_count",
        required=3,
        attributes="state_update_capacity",
        infer=joined_causal_conv,
        rows=[
            row(
                "causal_conv",
                {"x": _as_one_sequence, "w": "weight", "b": "bias", "state": "initial_state"},
                {"activation": causal_activation},
                when=lambda a: causal_activation(a) in (None, "silu"),
            )
        ],
    ),
    OperatorSpec(
        "GatedDeltaNet",
        "query key value cu_seqlens decay beta initial_state a_log dt_bias capture_count state_update_active",
        attributes="state_update_capacity",
        infer=delta_net,
        rows=[
            row(
                "gated_delta_net",
                {
                    "q": "query",
                    "k": "key",
                    "v": "value",
                    "decay": "decay",
                    "beta": "beta",
                    "state": "initial_state",
                    "decay_rate": lambda a: a.get("a_log") if a.get("gate_activation") == "qwen" else None,
                    "decay_bias": lambda a: a.get("dt_bias") if a.get("gate_activation") == "qwen" else None,
                },
                {
                    "heads": fact(DeltaHeads, lambda f: f.heads),
                    "features": fact(DeltaHeads, lambda f: f.features),
                    "rule": lambda a: a.get("update_rule", "gated_delta"),
                    "normalize": nonzero("qk_l2_norm"),
                    "squash": lambda a: (
                        True if a.get("beta_activation") == "sigmoid" and a.get("beta") is not None else None
                    ),
                },
            )
        ],
    ),
    OperatorSpec(
        "LinearAttentionGate",
        "a dt_bias decay_scale b",
        required=3,
        infer=like("a", "b"),
        rows=[row("decay_gate", {"x": "a", "b": "dt_bias", "rate": "decay_scale", "beta": "b"})],
    ),
    OperatorSpec(
        "DynamicQuantizeLSTM",
        "X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point",
        required=3,
        attributes="hidden_size clip",
        infer=quantized_recurrent,
        rows=[
            row(
                "dynamic_quantized_lstm",
                {
                    **RECURRENT,
                    "w2": "P",
                    "w0_scale": "W_scale",
                    "w0_zero_point": "W_zero_point",
                    "w1_scale": "R_scale",
                    "w1_zero_point": "R_zero_point",
                },
                {**DIRECTED, "peephole": lambda a: True if a.get("P") is not None else None},
                when=has_known_functions,
            )
        ],
    ),
    OperatorSpec(
        "AttnLSTM",
        "X W R B sequence_lens initial_h initial_c P QW MW V M memory_seq_lens AW",
        required=3,
        attributes="hidden_size clip",
        infer=recurrent_with_memory,
        rows=[
            row(
                "attention_lstm",
                {**RECURRENT, "w2": "P", "w3": "QW", "w4": "MW", "w5": "V", "memory": "M", "w6": "AW"},
                DIRECTED,
                when=has_known_functions,
            )
        ],
    ),
)
