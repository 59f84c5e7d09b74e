"""Quantize as runtimes do: a value once for all its readers, and before operators that only move elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from costcore.ir import Layer, Tensor
from costcore.trace.call import Call

from ..values.value import Value
from .recording import Recording

PASSED = frozenset(("reshape", "transpose", "identity", "slice", "max_pool"))
"""Operators before which runtimes quantize what is quantized after them."""

SHAPES = frozenset(("shape", "size"))
"""Operators that read no element."""


class Scales:
    """Which calls quantize, or dequantize, by the same scale and zero point.

    Args:
        values: the values of the outermost graph, for the elements of scales.
    """

    def __init__(self, values: Iterable[Value]) -> None:
        self._known: dict[int, Any] = {}
        for value in values:
            identity = value.stored.identity if value.stored is not None else value.identity
            if identity and value.data is not None:
                self._known[identity] = value.data.tolist()

    def are_equal(self, first: Call, second: Call) -> bool:
        """Return whether two calls have the same scale and zero point."""
        pairs = zip(first.inputs[1:], second.inputs[1:], strict=False)
        return len(first.inputs) == len(second.inputs) and all(
            a == b or (a in self._known and self._known[a] == self._known.get(b)) for a, b in pairs
        )


def readers_of(recording: Recording) -> dict[int, list[int]]:
    """Return the first outputs of the calls that read the elements of a value, by its id; 0 for any other reader."""
    readers: dict[int, list[int]] = defaultdict(list)
    for call in recording.recorder.calls:
        if call.outputs and call.layer.op not in SHAPES:
            for identity in call.inputs:
                readers[identity].append(call.outputs[0])
    for step in recording.dataflow.steps:
        for identity in step.reads:
            readers[identity].append(0 if step.name else step.at)
    for identity in recording.recorder.returned:
        readers[identity].append(0)
    return readers


def place(call: Call) -> tuple[Any, str]:
    """Return how often a call runs, and in which loop or branch."""
    return call.times, call.region


def quantize_as_runtimes_do(recording: Recording, scales: Scales) -> None:
    """Quantize every value once, and as early as its elements are known."""
    _quantize_once(recording, scales)
    while _quantize_early(recording, scales):
        _quantize_once(recording, scales)


def _quantize_once(recording: Recording, scales: Scales) -> None:
    """Join the calls that quantize a value by the same scale: some tools write one for every reader."""
    readers = readers_of(recording)
    kept: dict[int, list[Call]] = defaultdict(list)
    joined: dict[int, int] = {}
    calls = []
    for call in recording.recorder.calls:
        if call.layer.op == "quantize":
            earlier = kept[call.inputs[0]]
            same = next((e for e in earlier if _is_same(e, call) and scales.are_equal(e, call)), None)
            if same is not None and 0 not in readers[call.outputs[0]]:
                joined[call.outputs[0]] = same.outputs[0]
                continue
            earlier.append(call)
        calls.append(_with_inputs(call, joined))
    recording.recorder.calls[:] = calls


def _quantize_early(recording: Recording, scales: Scales) -> bool:
    """Quantize what operators only move, instead of what they return, if all its readers do; return whether any do."""
    is_changed = False
    calls, readers = recording.recorder.calls, readers_of(recording)
    at = {call.outputs[0]: k for k, call in enumerate(calls) if call.outputs and call.outputs[0] not in call.inputs}

    def quantized_by(reader: int) -> Call | None:
        """Return the call that quantizes a value for a reader, alone, or after it moved its elements."""
        call = calls[at[reader]] if reader in at else None
        if call is not None and call.layer.op in PASSED and len(readers[reader]) == 1:
            after = readers[reader][0]
            call = calls[at[after]] if after in at and place(calls[at[after]]) == place(call) else None
        return call if call is not None and call.layer.op == "quantize" else None

    for k in range(len(calls) - 1, -1, -1):
        quantize = calls[k]
        if quantize.layer.op != "quantize" or quantize.layer["scale"].size != 1:
            continue
        real = quantize.inputs[0]
        move = calls[at[real]] if real in at else quantize
        if move.layer.op not in PASSED or not at.keys().isdisjoint(quantize.inputs[1:]):
            continue
        source = move.inputs[0]
        made = calls[at[source]] if source in at else None
        if made is None or made.layer.op == "dequantize" or place(made) != place(move):
            continue
        if all(
            (q := quantized_by(reader)) and _is_same(q, quantize) and scales.are_equal(q, quantize)
            for reader in readers[source]
        ):
            calls[at[real]], calls[k] = _exchanged(recording, move, quantize)
            is_changed = True
    return is_changed


def _exchanged(recording: Recording, move: Call, quantize: Call) -> tuple[Call, Call]:
    """Return a call that quantizes the operand of ``move``, and one that moves the quantized elements."""
    x, dtype, intern = move.layer["x"], quantize.layer.out.dtype, recording.recorder.intern
    integers = Tensor(x.shape, dtype)
    first = Layer("quantize", {**quantize.layer.inputs, "x": x}, [integers], quantize.layer.attrs)
    moved = [Tensor(move.layer.out.shape, dtype)]
    second = Layer(move.layer.op, {**move.layer.inputs, "x": integers}, moved, move.layer.attrs)
    return (
        quantize._replace(layer=intern(first), inputs=(*move.inputs[:1], *quantize.inputs[1:]), outputs=move.outputs),
        move._replace(layer=intern(second), inputs=(*move.outputs, *move.inputs[1:]), outputs=quantize.outputs),
    )


def _is_same(first: Call, second: Call) -> bool:
    return (first.layer.out.dtype, place(first)) == (second.layer.out.dtype, place(second))


def _with_inputs(call: Call, joined: Mapping[int, int]) -> Call:
    """Return a call that reads the values that others were joined to."""
    if joined.keys().isdisjoint(call.inputs):
        return call
    return call._replace(inputs=tuple(joined.get(identity, identity) for identity in call.inputs))
