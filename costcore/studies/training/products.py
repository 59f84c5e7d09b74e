"""The matrix products of a training step, by phase: with weights, with experts' weights, and of attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from costcore.ir import Layer, prod
from costcore.studies.training.pairs import PAIRS, allowed_pairs, limits_of, within_documents
from costcore.trace.call import Call
from costcore.trace.trace import Trace

WEIGHTS, EXPERTS, ATTENTION, ACTIVATIONS = KINDS = ("weights", "experts", "attention", "activations")
"""Kinds of products: with learned weights, with the weights of experts, scores and values of attention, and of other
activations."""

EXPERT_OPERATORS = ("grouped_matmul", "grouped_matmul_backward", "moe")
ATTENTION_OPERATORS = ("attention", "attention_backward")
PRODUCT_OPERATORS = ("matmul", "einsum")
MOVING = ("cast", "copy", "view", "transpose", "permute", "slice", "concat", "quantize", "dequantize")
"""Operators whose output is a weight if their input is one."""


Shares: TypeAlias = "tuple[tuple[int, int], ...]"


class Product(NamedTuple):
    """The products of one call, in all its executions.

    Attributes:
        call: the call.
        kind: one of :data:`KINDS`.
        macs: MACs over all pairs.
        shares: for each of :data:`PAIRS` the part of the pairs that is counted, as numerator and denominator; empty if
            all are.
        is_masked: whether a mask whose content is unknown decides over pairs, so that all are counted.
    """

    call: Call
    kind: str
    macs: int
    shares: Shares
    is_masked: bool

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

    def shares(self, layer: Layer, queries: int, keys: int, is_masked: bool) -> Shares:
        """Return the shares of an attention, in the order of :data:`PAIRS`."""
        is_causal = is_masked and self.masks_are_causal and queries == keys
        limits = limits_of(layer, is_causal)
        causal = allowed_pairs(queries, keys, *limits), queries * keys
        packed = within_documents(self.documents, limits, queries, keys) if self.documents else causal
        return (1, 1), causal, packed


class Products:
    """The products of a run; iterating yields one for every call that has MACs, in order of execution.

    A backward product is of attention if an attention of the same module multiplies matrices of the same sizes in the
    forward pass: PyTorch may write the gradient of attention as products.

    Args:
        trace: the run.
        packing: what the user states about masks.
    """

    def __init__(self, trace: Trace, packing: Packing) -> None:
        self._trace = trace
        self._packing = packing
        self._weights = _weights(trace)
        self._with_softmax = {call.module for call in trace.calls if call.layer.op == "softmax"}
        self._forward: dict[Any, tuple[str, Shares, bool]] = {}

    def __iter__(self) -> Iterator[Product]:
        for call, cost, *_ in self._trace.records:
            if cost is not None and cost.macs != 0:
                macs = cost.macs * call.times
                yield Product(call, *self._kind(call, macs))

    def _kind(self, call: Call, macs: int) -> tuple[str, int, Shares, bool]:
        layer = call.layer
        if layer.op in EXPERT_OPERATORS:
            return EXPERTS, macs, (), False
        if layer.op in ATTENTION_OPERATORS:
            kind, shares, is_masked = self._attention(call)
        elif call.phase == "backward":
            known = (self._forward[key] for key in _keys(call, macs) if key in self._forward)
            kind, shares, is_masked = next(known, (WEIGHTS, (), False))
        elif layer.op in PRODUCT_OPERATORS and not _has_weight(call, self._weights):
            kind, shares, is_masked = self._of_activations(call, macs)
        else:
            return WEIGHTS, macs, (), False
        return kind, macs, shares, is_masked

    def _attention(self, call: Call) -> tuple[str, Shares, bool]:
        layer = call.layer
        is_masked = "mask" in layer and not layer.attrs.get("causal")
        shares = self._packing.shares(layer, layer["q"].shape[-2], layer["k"].shape[-2], is_masked)
        found = ATTENTION, shares, is_masked and not self._packing.masks_are_causal
        if layer.op == "attention":
            self._forward.update(((call.module, *sizes), found) for sizes in _sizes_of_attention(layer))
        return found

    def _of_activations(self, call: Call, macs: int) -> tuple[str, Shares, bool]:
        """Return what a product of two activations is: of attention if its module has a softmax too."""
        found: tuple[str, Shares, bool] = ACTIVATIONS, (), False
        if call.module in self._with_softmax:
            side = next(_sides(call.layer), None)
            shares = () if side is None else self._packing.shares(call.layer, side, side, is_masked=True)
            found = ATTENTION, shares, side is not None and not self._packing.masks_are_causal
        self._forward.update((key, found) for key in _keys(call, macs))
        return found


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


def _keys(call: Call, macs: int) -> Iterator[tuple[Any, ...]]:
    """Yield by what the gradients of a product are found: module with batch and sizes, or with MACs."""
    shapes: Sequence[tuple[int, ...]] = [call.layer[name].shape for name in ("x0", "x1") if name in call.layer]
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return
    if call.layer.op == "einsum" or call.phase == "backward":
        yield call.module, macs // call.times
    if call.layer.op != "einsum":
        batch = max(prod(shape[:-2]) for shape in shapes)
        rows, inner, columns = shapes[0][-2], shapes[0][-1], shapes[1][-1]
        if inner != shapes[1][-2]:  # the second operand is transposed
            columns = shapes[1][-2]
        yield call.module, batch, tuple(sorted((rows, inner, columns)))
