"""Follow one input through a trace, along each of its axes, by the rules of operators and through values in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from costcore.analyses.receptive_field.dependence import (
    CannotFollowError,
    Dependence,
    MisalignedError,
    RuleContext,
    TooManyPhasesError,
    of_input,
)
from costcore.analyses.receptive_field.rules import rule_of
from costcore.analyses.receptive_field.rules.layout import LAYOUT_RULES as LAYOUT
from costcore.counting import CALCULATOR_ERRORS
from costcore.errors import CostError
from costcore.numbers import Dim
from costcore.trace.call import Call
from costcore.trace.trace import Trace

PHASES = ("forward", "recompute")
"""The phases with values that depend on the input by the operators that compute them."""

WRITERS = ("copy", "cast", "full", "pad", "roll", "tile")
"""The layout operators that write in place if their output shares memory with an earlier value."""

ByAxis: TypeAlias = "tuple[Dependence | None, ...]"
"""The dependence of a value on each axis of the input; None for an axis without influence."""


@dataclass(frozen=True, slots=True)
class Source:
    """An input of the run.

    Attributes:
        identity: its operand id.
        shape: its shape.
    """

    identity: int
    shape: tuple[Dim, ...]


@dataclass(slots=True)
class Followed:
    """The dependences found by following one input.

    Attributes:
        source: the input.
        outputs: for each call in a forward phase, by name, how its outputs depend on the input.
        slid: the axes of the input along which windows moved.
    """

    source: Source
    outputs: dict[str, tuple[ByAxis, ...]] = field(default_factory=dict)
    slid: set[int] = field(default_factory=set)


def node_name(call: Call) -> str:
    """Return the name of a call in results, with the module that made it."""
    return f"{call.name} in {call.module}" if call.module else call.name


def sources(trace: Trace) -> list[Source]:
    """Return the inputs of the run that a forward call reads, in order of first use.

    If the frontend does not record which values are inputs, every value that no call produces may be one, except
    learned parameters, states and constants.
    """
    given, produced = set(trace.run.inputs), set(trace.run.buffers)
    found: dict[int, Source] = {}
    for call in _forward(trace):
        for identity, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            is_input = identity in given if given else tensor.role == "data" and identity not in produced
            if identity and is_input and identity not in found:
                found[identity] = Source(identity, tensor.shape)
        produced.update(call.outputs)
    return list(found.values()) or _created(trace)


def _created(trace: Trace) -> list[Source]:
    # Inputs made inside a hook: calls outside of modules create them from nothing.
    read = {identity for call in _forward(trace) for identity in call.inputs}
    return [
        Source(identity, tensor.shape)
        for call in _forward(trace)
        if not call.inputs and not call.module
        for identity, tensor in zip(call.outputs, call.layer.outputs, strict=False)
        if identity in read
    ]


def choose_source(found: Sequence[Source], index: int | None) -> Source:
    """Return the input of a number; by default the first image, else the first sequence, else the first.

    Raises:
        CostError: if there is no such input.
        TypeError: if the number is not an integer.
    """
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        raise TypeError(f"input must be the number of an input (got {index!r})")
    if not found:
        raise CostError("no call reads an input of the model, so that there is no receptive field")
    if index is not None:
        if not -len(found) <= index < len(found):
            raise CostError(f"no input {index}: the calls read {len(found)} input{'s' * (len(found) > 1)}")
        return found[index]
    for rank in (3, 2):
        for source in found:
            if len(source.shape) >= rank:
                return source
    return found[0]


def follow(trace: Trace, source: Source) -> Followed:
    """Return how every value of a forward pass depends on an input."""
    result = Followed(source)
    axes = range(len(source.shape))
    own = tuple(of_input(axis, source.shape[axis]) for axis in axes)
    values: dict[int, ByAxis] = {source.identity: own}
    known = {*trace.run.inputs, *trace.run.buffers, 0}
    memory: dict[int, list[int]] = {}
    shapes = {source.identity: source.shape}
    for call in _forward(trace):
        node = node_name(call)
        operands: list[ByAxis] = []
        for i, (identity, tensor) in enumerate(zip(call.inputs, call.layer.inputs.values(), strict=False)):
            if identity not in values:
                is_known = identity in known or tensor.role != "data"
                lost = None if is_known else Dependence(unknown=f"{node} reads a value that no recorded call produces")
                values[identity] = (lost,) * len(own)
            operands.append(_seen_as(values[identity], shapes.get(identity, tensor.shape), tensor.shape, node))
            if i < len(call.storages):
                memory.setdefault(call.storages[i], []).append(identity)
        outputs = _dependences_of_outputs(call, node, operands, len(own), result.slid)
        _mark_overwritten(call, node, outputs, values, memory)
        values.update(
            (identity, found)
            for identity, found in zip(call.outputs, outputs, strict=False)
            if identity != source.identity
        )
        shapes.update(zip(call.outputs, (tensor.shape for tensor in call.layer.outputs), strict=False))
        result.outputs[call.name] = outputs
    return result


def _forward(trace: Trace) -> Iterator[Call]:
    return (call for call in trace.calls if call.phase in PHASES)


def _seen_as(found: ByAxis, produced: tuple[Dim, ...], read: tuple[Dim, ...], node: str) -> ByAxis:
    if produced == read:
        return found
    # The frontend does not say how the shapes relate.
    reason = Dependence(unknown=f"{node} (reads a value in another shape)")
    return tuple(each if each is None or each.path is None else each.marks(reason) for each in found)


def _dependences_of_outputs(
    call: Call, node: str, operands: Sequence[ByAxis], rank: int, slid: set[int]
) -> tuple[ByAxis, ...]:
    layer = call.layer
    columns: list[Sequence[Dependence | None]] = []
    for axis in range(rank):
        dependent = {
            name: found[axis] for name, found in zip(layer.inputs, operands, strict=False) if found[axis] is not None
        }
        site = RuleContext(layer, node, {name: each for name, each in dependent.items() if each is not None})
        columns.append(_apply_rule(site))
        if site.slides:
            slid.add(axis)
    return tuple(tuple(column[i] for column in columns) for i in range(len(layer.outputs)))


def _apply_rule(site: RuleContext) -> Sequence[Dependence | None]:
    if not site.operands:
        return site.all_outputs(None)
    if all(dependence.path is None for dependence in site.operands.values()):
        return site.all_outputs(_common_marks(site))  # nothing is left to follow: what is known stays
    try:
        return rule_of(site.layer.op)(site)
    except CannotFollowError as error:
        reason = str(error)
    except TooManyPhasesError:
        reason = "the pattern repeats after too many positions"
    except MisalignedError:
        reason = "operands of different strides"
    except CALCULATOR_ERRORS:  # of a file, which states what no framework runs
        reason = "its tensors and settings do not fit the operator"
    return site.all_outputs(_common_marks(site).marks(Dependence(unknown=f"{site.node} ({reason})")))


def _common_marks(site: RuleContext) -> Dependence:
    marks = Dependence()
    for dependence in site.operands.values():
        marks = marks.marks(dependence)
    return marks


def _mark_overwritten(
    call: Call, node: str, outputs: Sequence[ByAxis], values: dict[int, ByAxis], memory: dict[int, list[int]]
) -> None:
    # Reading the memory later gives what was written, so other values in it become unknown.
    is_view = call.layer.op in LAYOUT and call.layer.op not in WRITERS
    first = len(call.layer.inputs)
    for storage, identity, output in zip(call.storages[first:], call.outputs, outputs, strict=False):
        others = memory.setdefault(storage, [])
        depends = any(dependence is not None for dependence in output)
        read = (i for i, place in zip(call.inputs, call.storages, strict=False) if place == storage)
        if others and depends and not is_view and not any(values.get(i) == output for i in read):
            reason = Dependence(unknown=f"{node} (writes in place into a part of another value)")
            for other in filter(values.__contains__, others):
                values[other] = tuple(reason if each is None else each.marks(reason) for each in values[other])
        others.append(identity)


def reported_axes(followed: Followed, axes: Iterable[int] | None) -> tuple[int, ...]:
    """Return the axes of the input to report: given, moved by windows, or by default the axes of positions.

    Without windows, positions are the axes after the first two of an image, and the second axis of a sequence.

    Raises:
        CostError: if the input has no such axis.
        TypeError: if an axis is not an integer.
    """
    rank = len(followed.source.shape)
    if axes is not None:
        chosen = tuple(axes)
        for axis in chosen:
            if not isinstance(axis, int) or isinstance(axis, bool):
                raise TypeError(f"axes must be integers (got {axis!r})")
        if not chosen or any(not -rank <= axis < rank for axis in chosen):
            raise CostError(f"axes {chosen} of an input of {rank} axes")
        return tuple(axis % rank for axis in chosen)
    if followed.slid:
        return tuple(sorted(followed.slid))
    return tuple(range(2, rank)) if rank >= 4 else (min(1, rank - 1),) if rank else ()
