"""Recurrent layers and cells as ``torch.export``-based exporters write them: unrolled, as PyTorch decomposes them.

Nodes without an origin are not matched unless the pattern is named: the products of two tensors, summed and squashed,
are also additive attention, and the TorchScript-based exporter writes the same nodes for a cell and for its parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from costcore.numbers.dims import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ...graph.node import Node
from ...reading.exporter_metadata import origin, source_line
from ...values.value import Value
from ...walk.history import RecordedNode
from ..exported_program import Operation, operation
from ..matcher import Decomposition, Extension, Group, Match, X
from .checks import is_shape, nodes_of_call

H0, C0 = Operand("h0"), Operand("c0")


def _is_linear(recorded: RecordedNode) -> bool:
    """Return True for a ``Gemm`` that is a linear layer with a bias."""
    return len(recorded.node.inputs) == 3 and _is_unscaled(recorded)


def _is_unbiased_linear(recorded: RecordedNode) -> bool:
    """Return True for a ``Gemm`` that is a linear layer without a bias."""
    return len(recorded.node.inputs) == 2 and _is_unscaled(recorded)


def _is_unscaled(recorded: RecordedNode) -> bool:
    args = recorded.node.args
    return (args.get("alpha"), args.get("beta"), args.get("transA"), args.get("transB")) == (1, 1, 0, 1)


def _is_swap(recorded: RecordedNode) -> bool:
    return bool(recorded.call.layer.attrs.get("axes") == (1, 0))


def _linear(x: Pattern, i: int) -> Pattern:
    """Return the pattern of the products with weight ``i``, on bias ``i`` if there is one."""
    w, b = Operand(f"w{i}"), Operand(f"b{i}")
    product = Op("MatMul", x, Either((Op("Transpose", w, check=_is_swap), Operand(f"transposed{i}"))))
    biased = Op("Gemm", x, w, b, check=_is_linear), Op("Add", product, b)
    return Either((*biased, Op("Gemm", x, w, check=_is_unbiased_linear), product))


def _part(name: str, whole: Pattern, i: int) -> Pattern:
    """Return the pattern of gate ``i`` of a product of all gates, whose value gets the name."""
    gates = Named(name, whole)
    sequence = Named(f"{name}_parts", Op("SplitToSequence", gates))
    return Either((Op("SequenceAt", sequence, Number(i)), Op("Split", gates, output=i)))


_PRODUCTS = Op("Add", _linear(H0, 1), _linear(X, 0))


def _cell_group(match: Match, op: str, gates: int, outputs: tuple[Value, ...] = (), **attrs: object) -> Group | None:
    """Return the group of a cell whose weights are those of so many gates."""
    out = match.nodes[0].call.layer.out.shape
    hidden = out[-1] if out else 0
    names = ("x", "h0", "c0", "w0", "w1", "b0", "b1")
    operands = {name: match.values[name] for name in names if name in match.values}
    for name, w in (("w0", match.values.get("transposed0")), ("w1", match.values.get("transposed1"))):
        if w is not None and w.stored is not None:  # a folding exporter stores it so
            operands[name] = w.viewed(w.known_shape[::-1])
    x, state, is_biased = operands["x"], operands["h0"], "b0" in operands
    if not x.shape or not state.shape or len(x.shape) != 2 or is_biased != ("b1" in operands):
        return None
    if not {"w0", "w1"} <= operands.keys():
        return None
    shapes: dict[str, tuple[Dim, ...]] = {"w0": (gates * hidden, x.shape[-1]), "w1": (gates * hidden, hidden)}
    if is_biased:
        shapes |= dict.fromkeys(("b0", "b1"), (gates * hidden,))
    if not all(is_shape(operands[name].shape, shape) for name, shape in shapes.items()):
        return None
    if not is_shape(state.shape, (x.shape[0], hidden)):
        return None
    return Group(op, op.upper(), operands, {"hidden": hidden, **attrs}, match.nodes, outputs)


def _rnn_cell(match: Match, _: Extension) -> Group | None:
    kind = match.nodes[0].node.op
    return _cell_group(match, "rnn", 1, activation=kind.lower())


RNN_CELL = Decomposition(
    ("Tanh", "Relu"),
    Either((Op("Tanh", _PRODUCTS), Op("Relu", _PRODUCTS))),
    _rnn_cell,
    r"\b_VF\.rnn_(tanh|relu)_cell\(",
    needs_origin=True,
)
"""``tanh(W x + b + U h + c)``."""

_I, _F, _G, _O = (_part("gates", _PRODUCTS, i) for i in range(4))
_C = Op("Add", Op("Mul", Op("Sigmoid", _F), C0), Op("Mul", Op("Sigmoid", _I), Op("Tanh", _G)))


def _lstm_cell(match: Match, _: Extension) -> Group | None:
    return _cell_group(match, "lstm", 4, (match.values["h"], match.values["c"]))


LSTM_CELL = Decomposition(
    ("Mul",),
    Named("h", Op("Mul", Op("Sigmoid", _O), Op("Tanh", Named("c", _C)))),
    _lstm_cell,
    r"\b_VF\.lstm_cell\(",
    ("c",),
    needs_origin=True,
)
"""``o tanh(c)`` with ``c = f c0 + i g``, which the next step reads."""

_OF_X, _OF_H = (
    [_part(name, products, i) for i in range(3)]
    for name, products in (
        ("of_x", _linear(X, 0)),
        ("of_h", _linear(H0, 1)),
    )
)
_R, _Z = (Op("Sigmoid", Op("Add", _OF_H[i], _OF_X[i])) for i in range(2))
_N = Named("candidate", Op("Tanh", Op("Add", _OF_X[2], Op("Mul", _OF_H[2], _R))))


def _gru_cell(match: Match, _: Extension) -> Group | None:
    return _cell_group(match, "gru", 3, reset_after=True)


GRU_CELL = Decomposition(
    ("Add",),
    Op("Add", Op("Mul", Op("Sub", H0, _N), _Z), _N),
    _gru_cell,
    r"\b_VF\.gru_cell\(",
    needs_origin=True,
)
"""``(h - n) z + n`` with the candidate ``n``."""

_LAYER_CALL = r"\b_VF\.rnn_(tanh|relu)\("
Y, FINAL = "y", "stack"
_STEPS = ("add", "cat", "flip", "linear", "relu", "squeeze", "stack", "tanh", "transpose", "unbind", "unsqueeze")
"""All operations into which PyTorch decomposes an Elman layer."""


class _Program(NamedTuple):
    """An Elman layer as PyTorch decomposes it.

    Attributes:
        weights: the weights, as text, in the order of PyTorch's parameters.
        is_biased: whether every product has a bias.
        is_bidirectional: whether steps run in both directions.
    """

    weights: tuple[str, ...]
    is_biased: bool
    is_bidirectional: bool


def _program(operations: Collection[Operation], activation: str) -> _Program | None:
    """Return the layer that consists of these operations; None if there is no such layer.

    Each layer and direction is one linear layer of the whole input, and for every step a linear layer of the state, a
    sum and the activation.
    """
    count = Counter(each.name for each in operations)
    products = [each.args[1:] for each in operations if each.name == "linear"]
    weights = Counter(weight for weight, *_ in products)
    once, often = set(list(weights.values())[0::2]), set(list(weights.values())[1::2])
    layers, flips = len(weights) // 2, count["flip"]
    if not layers or len(weights) % 2 or once != {1} or len(often) != 1 or set(count) - {*_STEPS}:
        return None
    if not count["add"] == count[activation] == layers * often.pop() == count["tanh"] + count["relu"]:
        return None
    if flips not in (0, layers // 2) or len({len(args) for args in products}) != 1:
        return None
    return _Program(tuple(weights), len(products[0]) == 2, flips > 0)


def _rnn(match: Match, extend: Extension) -> Group | None:
    """Build an Elman layer of all steps, layers and directions from all nodes that were written for its call."""
    root = match.nodes[0]
    call = re.search(_LAYER_CALL, source_line(root.node.proto))
    if call is None:
        return None
    nodes = nodes_of_call(root, extend)
    written = [operation(origin(recorded.node.proto)) for recorded in nodes]
    operations = [each for each in reversed(written) if each is not None]
    program = _program(list(dict.fromkeys(operations)), call[1])
    if nodes[0] is not root or program is None or len(operations) != len(nodes):
        return None
    operands = _operands(list(zip(reversed(nodes), operations, strict=True)), program)
    if operands is None:
        return None
    x, state = operands["x"], operands["h0"]
    width, inside = state.known_shape[-1], {recorded.node for recorded in nodes}
    made = {Y: Value((*x.known_shape[:-1], width * (1 + program.is_bidirectional)), x.dtype)}
    made[FINAL] = Value(state.shape, x.dtype)
    ends: list[tuple[str, Value]] = []
    for recorded, each in zip(nodes, reversed(operations), strict=True):
        kind = Y if each.name in ("cat", "transpose", call[1]) else each.name
        ends += [(kind, value) for value in recorded.node.outputs if value and _is_read_outside(value, inside, extend)]
    made.update(ends)
    if (
        made.keys() != {Y, FINAL}
        or len(dict(ends)) != len(ends)
        or not extend.is_separate(Match({}, tuple(nodes)), made.values())
    ):
        return None
    layers = len(program.weights) // (4 if program.is_bidirectional else 2)
    attrs = {"hidden": width, "layers": layers, "bidirectional": program.is_bidirectional, "activation": call[1]}
    return Group("rnn", "RNN", operands, attrs, tuple(nodes), tuple(made.values()))


def _is_read_outside(value: Value, inside: Collection[Node], extend: Extension) -> bool:
    return any(reader is None or reader.node not in inside for reader in extend.readers(value))


def _operands(nodes: Sequence[tuple[RecordedNode, Operation]], program: _Program) -> dict[str, Value] | None:
    """Return the operands of a layer by name; None if there is not one input and one initial state."""
    made = {value for recorded, _ in nodes for value in recorded.node.outputs}
    found: dict[str, dict[Value, str]] = {"x": {}, "h0": {}}
    for recorded, each in nodes:
        for value in recorded.node.inputs:
            if value is None or value in made or (value.data is not None and value.dtype == "int64"):
                continue  # an index
            if each.name == "linear" and (recorded.node.op != "MatMul" or value is not recorded.node.inputs[0]):
                kind, i = ("b" if recorded.node.op == "Add" else "w"), program.weights.index(each.args[1])
                found.setdefault(f"{kind}{i}", {})[value] = recorded.node.op
            else:
                found["h0" if each.name == "unbind" else "x"][value] = recorded.node.op
    count = len(program.weights) * (1 + program.is_biased)
    if len(found) != 2 + count or any(len(values) != 1 for values in found.values()):
        return None
    pairs = ((name, *next(iter(values.items()))) for name, values in found.items())
    return {
        # a folding exporter stores weights transposed
        name: value.viewed(value.known_shape[::-1]) if kind == "MatMul" and name[0] == "w" else value
        for name, value, kind in pairs
    }


_ENDS = ("Concat", "Transpose", "Identity", "Unsqueeze", "Tanh", "Relu")

RNN = Decomposition(_ENDS, Either(tuple(map(Op, _ENDS))), _rnn, _LAYER_CALL)
"""``nn.RNN``, all of whose steps are nodes."""
