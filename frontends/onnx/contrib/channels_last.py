"""Operators with channels last: the standard's, as ONNX Runtime's layout transformer writes them, and its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costcore.translate import Arguments, Row

from ..graph.node import Inferred, Node, Rule
from ..rows.arguments import node_of
from ..schema.signature import NEWEST_VERSION, ONNX, schema_signature
from ..shapes.windows import Windows
from ..values.value import Shape, Value
from .spec import NHWC, OperatorSpec

ALWAYS_LAST = frozenset(("NhwcConv", "NhwcFusedConv", "NhwcMaxPool", "MaxPoolNHWC"))
"""Operators whose channels are always last; others have an attribute ``channels_last``, or none."""


def has_channels_last(node: Node) -> bool:
    """Return whether the channels of a node's input and output are their last axis."""
    return node.op in ALWAYS_LAST or bool(node.args.get("channels_last"))


def channels_first(node: Node, shape: Shape) -> Shape:
    """Return the shape of an input as ``[N, C, ...]``."""
    return first(shape) if has_channels_last(node) else shape


def channels_back(node: Node, shape: Shape) -> Shape:
    """Return the shape ``[N, C, ...]`` of an output in the layout of the node."""
    return last(shape) if has_channels_last(node) else shape


def channel_view(name: str) -> Any:
    """Return a source for the input with its channels as the second axis."""

    def read(a: Arguments) -> Value:
        view: Value = a[name].viewed(channels_first(node_of(a), a[name].known_shape))
        return view

    return read


def weight_view(name: str) -> Any:
    """Return a source for the weight of a convolution as ``[Cout, Cin/G, ...]``."""

    def read(a: Arguments) -> Value:
        w: Value = a[name]
        kernel = node_of(a).facts(Windows).kernel
        return (
            w if w.known_shape[2:] == kernel else w.viewed((w.known_shape[0], w.known_shape[-1], *w.known_shape[1:-1]))
        )

    return read


def first(shape: Shape) -> Shape:
    """Return ``[N, ..., C]`` as ``[N, C, ...]``."""
    return (shape[0], shape[-1], *shape[1:-1])


def last(shape: Shape) -> Shape:
    """Return ``[N, C, ...]`` as ``[N, ..., C]``."""
    return (shape[0], *shape[2:], shape[1])


def rule_with_channels_last(rule: Rule) -> Rule:
    """Return the shape rule of an operator with channels first, for channels last.

    Rows see the input with its channels first, too.
    """

    def read(node: Node) -> Sequence[Value] | Inferred:
        known = schema_signature(ONNX, node.op, NEWEST_VERSION)
        node.args = {**(known.defaults if known else {}), **node.args}
        node.args.pop("channels_last", None)
        name = next((name for name in ("X", "x", "input") if isinstance(node.args.get(name), Value)), "X")
        x = node.value(name)
        rank = len(x.known_shape)
        if rank < 3:
            raise node.error(f"needs an input of 3 or more dimensions (got the shape {x.known_shape})")
        view = x.viewed(first(x.known_shape))
        node.args[name] = view
        node.inputs = [view if value is x else value for value in node.inputs]
        found = rule(node)
        for value in found.outputs if isinstance(found, Inferred) else found:
            if value.shape is not None and len(value.shape) == rank:
                value.shape = last(value.shape)
        return found

    return read


def has_no_activation(a: Arguments) -> bool:
    """Return whether no activation is fused to the operator."""
    return not a.get("activation")


def _without_activation(row: Row) -> Callable[[Arguments], bool]:
    """Return the condition of a row, and that no activation is fused to the operator."""
    when = row.when
    return has_no_activation if when is None else lambda a: has_no_activation(a) and when(a)


def channels_last(
    op: str,
    inputs: str,
    rules: Mapping[str, Rule],
    rows: Iterable[Row],
    *,
    required: int = 1,
    attributes: str = "",
    infer: Rule | None = None,
    fused: Iterable[Row] = (),
) -> OperatorSpec:
    """Return the spec of an operator of the standard with channels last.

    Args:
        op: operator type, the same as in the standard.
        inputs: names of its inputs, as in :class:`OperatorSpec`.
        rules: shape rules of the standard, by full name.
        rows: rows of the standard.
        required: number of leading inputs that must be given.
        attributes: names of the attributes that hold one integer.
        infer: its own shape rule, if the standard's does not fit.
        fused: rows for an operator that an activation is fused to.
    """
    key = f"{ONNX}::{op}"
    plain = [replace(row, when=_without_activation(row)) for row in rows if row.native == key]
    rule = infer or rule_with_channels_last(rules[key])
    return OperatorSpec(op, inputs, required, attributes, None, rule, (*plain, *fused), NHWC)
