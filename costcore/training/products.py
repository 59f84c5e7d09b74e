"""The matrix products of a training step, by phase: with weights, with experts' weights, and of attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from costcore.ir import Layer, prod
from costcore.trace.call import Call
from costcore.trace.trace import Trace
from costcore.training.pairs import PAIRS, allowed_pairs, limits_of, within_documents

WEIGHTS, EXPERTS, ATTENTION = "weights", "experts", "attention"
"""Kinds of products: with learned weights, with the weights of experts, and of two activations."""

EXPERT_OPERATORS = ("grouped_matmul", "moe")
ATTENTION_OPERATORS = ("attention", "attention_backward")
MOVING = ("cast", "copy", "view", "transpose", "permute", "slice", "concat", "quantize", "dequantize")
"""Operators whose output is a weight if their input is one."""


class Product(NamedTuple):
    """The products of one call, in all its executions.

    Attributes:
        call: the call.
        kind: :data:`WEIGHTS`, :data:`EXPERTS` or :data:`ATTENTION`.
        macs: MACs over all pairs.
        shares: for each of :data:`PAIRS` the part of the pairs that is counted, as numerator and denominator; empty for
            a product with weights.
        is_masked: whether a mask whose content is unknown decides over pairs, so that all are counted.
    """

    call: Call
    kind: str
    macs: int
    shares: tuple[tuple[int, int], ...] = ()
    is_masked: bool = False

    def counted(self, pairs: str) -> int:
        """Return the MACs with pairs counted as one of :data:`PAIRS`."""
        if not self.shares:
            return self.macs
        part, whole = self.shares[PAIRS.index(pairs)]
        return self.macs * part // whole


@dataclass(frozen=True)
class Packing:
    """What the user states about masks.

    Attributes:
        documents: tokens of the documents that are packed; empty if every sequence is one document.
        masks_are_causal: whether masks that are tensors are causal, and attention that is written as products too.
    """

    documents: tuple[int, ...] = ()
    masks_are_causal: bool = False

    def shares(self, layer: Layer, queries: int, keys: int, is_masked: bool) -> tuple[tuple[int, int], ...]:
        """Return the shares of an attention, in the order of :data:`PAIRS`."""
        is_causal = is_masked and self.masks_are_causal and queries == keys
        limits = limits_of(layer, is_causal)
        causal = allowed_pairs(queries, keys, *limits), queries * keys
        packed = within_documents(self.documents, limits, queries, keys) if self.documents else causal
        return (1, 1), causal, packed


def products_of(trace: Trace, packing: Packing) -> Iterator[Product]:
    """Yield the products of every call that has MACs, in order of execution.

    A backward product is of attention if an attention of the same module multiplies matrices of the same sizes in the
    forward pass: PyTorch may write the gradient of attention as products.
    """
    weights = _weights(trace)
    softmaxes = _square_softmaxes(trace)
    forward: dict[Any, tuple[tuple[tuple[int, int], ...], bool]] = {}
    for call, cost, *_ in trace.records:
        if cost is None or cost.macs == 0:
            continue
        layer, macs = call.layer, cost.macs * call.times
        if layer.op in EXPERT_OPERATORS:
            yield Product(call, EXPERTS, macs)
        elif layer.op in ATTENTION_OPERATORS:
            queries, keys = layer["q"].shape[-2], layer["k"].shape[-2]
            is_masked = "mask" in layer and not layer.attrs.get("causal")
            found = packing.shares(layer, queries, keys, is_masked), is_masked and not packing.masks_are_causal
            if layer.op == "attention":
                forward.update(((call.module, *sizes), found) for sizes in _sizes_of_attention(layer))
            yield Product(call, ATTENTION, macs, *found)
        elif call.phase == "backward":
            found = next((forward[key] for key in _keys(call) if key in forward), ((), False))
            yield Product(call, ATTENTION if found[0] else WEIGHTS, macs, *found)
        elif layer.op == "matmul" and not _has_weight(call, weights):
            squares = softmaxes.get(call.module, set())
            side = next((n for n in _sides(layer) if n in squares), None)
            shares = ((1, 1),) * 3 if side is None else packing.shares(layer, side, side, is_masked=True)
            found = shares, side is not None and not packing.masks_are_causal
            forward.update((key, found) for key in _keys(call))
            yield Product(call, ATTENTION, macs, *found)
        else:
            yield Product(call, WEIGHTS, macs)


def _weights(trace: Trace) -> set[int]:
    """Return the ids of values that are weights in another dtype or layout."""
    weights: set[int] = set()
    for call in trace.calls:
        if call.layer.op in MOVING and call.inputs and _is_weight(call, 0, weights):
            weights.update(call.outputs)
    return weights


def _is_weight(call: Call, position: int, weights: set[int]) -> bool:
    tensors = [*call.layer.inputs.values()]
    return tensors[position].role == "param" or call.inputs[position : position + 1] in [(each,) for each in weights]


def _has_weight(call: Call, weights: set[int]) -> bool:
    roles = [tensor.role for name, tensor in call.layer.inputs.items() if not name.startswith("b")]
    return "param" in roles or not weights.isdisjoint(call.inputs)


def _square_softmaxes(trace: Trace) -> dict[str, set[int]]:
    """Return the sizes of the softmaxes over as many keys as queries, by module."""
    found: dict[str, set[int]] = {}
    for call in trace.calls:
        shape = call.layer.outputs[0].shape if call.layer.outputs else ()
        if call.layer.op == "softmax" and len(shape) >= 3 and shape[-1] == shape[-2]:
            found.setdefault(call.module, set()).add(shape[-1])
    return found


def _sides(layer: Layer) -> Iterator[int]:
    """Yield the number of queries if the product makes or reads a square of scores."""
    for shape in (layer.out.shape, layer["x0"].shape):
        if len(shape) >= 3 and shape[-1] == shape[-2]:
            yield shape[-1]


def _sizes_of_attention(layer: Layer) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield batch and sizes of the two products of an attention."""
    q, keys, values = layer["q"].shape, layer["k"].shape[-2], layer["v"].shape[-1]
    for width in (q[-1], values):
        yield prod(q[:-2]), tuple(sorted((q[-2], keys, width)))


def _keys(call: Call) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield module, batch and sizes of a product of two operands, by which its gradients are found."""
    shapes: Sequence[tuple[int, ...]] = [call.layer[name].shape for name in ("x0", "x1") if name in call.layer]
    if len(shapes) == 2 and min(map(len, shapes)) >= 2:
        batch = max(prod(shape[:-2]) for shape in shapes)
        rows, inner, columns = shapes[0][-2], shapes[0][-1], shapes[1][-1]
        if inner != shapes[1][-2]:  # the second operand is transposed
            columns = shapes[1][-2]
        yield call.module, batch, tuple(sorted((rows, inner, columns)))
