"""Shapes of recurrent layers and of layers that carry a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.numbers.dims import is_symbolic

from ..graph.node import Node, Rule
from ..values.value import Shape, Value
from .rules import positive

GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Number of gates, by operator."""


def recurrent(node: Node) -> Sequence[Value]:
    """Infer all steps, the last hidden state, and the last cell state (LSTM)."""
    x, r = node.value("X"), node.value("R")
    directions, hidden = r.known_shape[0], node.args.get("hidden_size") or r.known_shape[-1]
    if len(x.known_shape) != 3:
        raise node.error(f"needs an input of 3 dimensions (got the shape {x.known_shape})")
    is_batch_first = bool(node.args.get("layout"))
    batch, steps = x.known_shape[:2] if is_batch_first else x.known_shape[1::-1]
    state = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    every = (batch, steps, directions, hidden) if is_batch_first else (steps, directions, batch, hidden)
    if node.op in GATES:
        rows, both = GATES[node.op] * hidden, 2 if node.args.get("direction") == "bidirectional" else 1
        weights = {"W": (both, rows, x.known_shape[-1]), "R": (both, rows, hidden), "B": (both, 2 * rows)}
        note_misfits(node, {**weights, "P": (both, 3 * hidden), "sequence_lens": (batch,), **states(state)})
    return [node.result(every, x.dtype), node.result(state, x.dtype), node.result(state, x.dtype)]


def states(shape: Shape) -> Mapping[str, Shape]:
    """Return the shapes of the initial states by name."""
    return {"initial_h": shape, "initial_c": shape}


def note_misfits(node: Node, expected: Mapping[str, Shape]) -> None:
    """Note the operands of a recurrent layer whose sizes contradict each other or ``hidden_size``."""
    given = {name: value.shape for name in expected if isinstance(value := node.args.get(name), Value)}
    wrong = [name for name, shape in given.items() if shape is not None and not _fits(shape, expected[name])]
    if not wrong:
        return
    found = ", ".join(f"{name} of shape {given[name]} (expected {expected[name]})" for name in wrong)
    hint = ""
    if wrong == ["initial_c"]:
        hint = ". The exporter of PyTorch writes an LSTM with proj_size so, and leaves out the projection"
    node.noted.append(f"has the inputs {found}; it is counted with the sizes of R and hidden_size{hint}")


def _fits(shape: Shape, expected: Shape) -> bool:
    """Return False if a shape has another rank, or a number where another one is expected."""
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(a == b or is_symbolic(a) or is_symbolic(b) for a, b in pairs)


def linear_attention(node: Node) -> Sequence[Value]:
    """Infer the output and the state, whose matrices have the features of keys by those of values."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    count, shared = positive(node, "q_num_heads"), positive(node, "kv_num_heads")
    for value in (q, k, v):
        if len(value.known_shape) != 3:
            raise node.error(f"needs inputs of 3 dimensions (got the shape {value.known_shape})")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in node.args["update_rule"] and node.get(name) is None:
            raise node.error(f"lacks the input {name!r}, which the update_rule {node.args['update_rule']!r} needs")
    batch, steps, _ = q.known_shape
    width, features = k.known_shape[-1] // shared, v.known_shape[-1] // shared
    state = node.get("past_state")
    return [
        node.result((batch, steps, count * features), q.dtype),
        node.result((batch, shared, width, features), state.dtype if state is not None else q.dtype),
    ]


def causal_conv(node: Node) -> Sequence[Value]:
    """Infer the output and the state: the last inputs, one less than the kernel size."""
    x, w = node.value("input"), node.value("weight")
    last = node.args.get("channels_last")
    batch, channels = (x.known_shape[0], x.known_shape[-1]) if last else x.known_shape[:2]
    kept = (w.known_shape[-1] - 1) * node.args.get("dilation", 1)
    return [node.result(x.known_shape, x.dtype), node.result((batch, channels, kept), x.dtype)]


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx::{op}": recurrent for op in ("LSTM", "GRU", "RNN")},
    "ai.onnx::LinearAttention": linear_attention,
    "ai.onnx::CausalConvWithState": causal_conv,
}
"""Rules by full operator name."""
