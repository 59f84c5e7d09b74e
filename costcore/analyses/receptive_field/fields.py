"""The receptive fields of all calls of a run: sizes, strides and regions per axis, as objects and as a table.

The second half propagates one input through a trace, along each of its axes, with the rules of operators and through
in-place writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from costcore.analyses.analysis import ReportLike
from costcore.analyses.receptive_field.dependence import (
    AxisFactor,
    CannotFollowError,
    Dependence,
    MisalignedError,
    PeriodicMap,
    Rule,
    RuleContext,
    TooManyPhasesError,
    of_input,
)
from costcore.analyses.receptive_field.rules import LAYOUT_RULES as LAYOUT
from costcore.analyses.receptive_field.rules import RULES, combined, element_wise
from costcore.counting import CALCULATOR_ERRORS
from costcore.errors import CostError
from costcore.ledger.ledger import Ledger, check_top, remarks
from costcore.numbers import Dim, as_text, is_symbolic
from costcore.registry import calculators
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import RECEPTIVE_FIELDS, ReceptiveFieldColumns, choose, in_order
from costcore.tables.quantity import Quantity
from costcore.tables.renderers import dropped_first
from costcore.tables.result import Result, Table
from costcore.trace.call import Call
from costcore.trace.trace import Trace

Number = int | Fraction

MOST_ROWS = 10
"""The maximum number of calls in ``print`` and notebooks."""

MOST_OUTPUTS = 3
"""The maximum number of outputs in ``print``, notebooks and ``repr``."""


def _position_at(factors: Iterable[AxisFactor], at_axis: Mapping[int, int]) -> int | None:
    position = 0
    for factor in factors:
        steps: Any = at_axis[factor.axis] - factor.start
        # These indices do not depend on the input.
        if is_symbolic(steps) or steps < 0:
            return None
        value = steps // factor.unit
        position += factor.weight * (value if is_symbolic(factor.size) else value % factor.size)
    return position


def _number(value: Fraction) -> Number:
    return int(value) if value.denominator == 1 else value


@dataclass(frozen=True, slots=True, repr=False)
class ReceptiveField:
    """The input positions that can change one position of a value, along each reported axis of the input.

    Sizes treat the input as endless, so they include padding. An element of a tuple is None if the field has no bound.

    Attributes:
        lengths: the sizes of the input along these axes.
        maps: for each axis, the map from positions to intervals of the input; None if there is none.
        global_by: for each axis, the first call that depends on the whole axis; empty if there is none. Then
            :attr:`size` only covers parallel paths, such as the convolutions parallel to a gate.
        unknown_by: the call from which on the field is unknown, and why; empty if it is known.
        misaligned_by: the call that joins branches of different strides, so the field grows with the position.
        bounded_by: the call from which on size and region are upper bounds, such as a resize with aligned corners.
        wrapped_by: the call that wraps positions around the border, which the field does not include.
        digits: for each axis of the input, the axes of the value that count its positions.
        shape: the shape of the value.
    """

    lengths: tuple[Dim, ...]
    maps: tuple[PeriodicMap | None, ...]
    global_by: tuple[str, ...]
    unknown_by: str = ""
    misaligned_by: str = ""
    bounded_by: str = ""
    wrapped_by: str = ""
    digits: tuple[tuple[AxisFactor, ...], ...] = ()
    shape: tuple[Dim, ...] = ()

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the value that count positions, in the order of the arguments of :meth:`region`.

        After a transpose, the first one may be the width of the input; after a reshape of height and width to one axis,
        there is only one.
        """
        return tuple(sorted({factor.axis for factors in self.digits for factor in factors}))

    @property
    def size(self) -> tuple[int | None, ...]:
        """The maximum number of input positions that one position sees."""
        return tuple(None if each is None else max(each.sizes) for each in self.maps)

    @property
    def sizes(self) -> tuple[tuple[int, ...] | None, ...]:
        """The number of input positions of each phase: after upsampling, it depends on the position."""
        return tuple(None if each is None else each.sizes for each in self.maps)

    @property
    def stride(self) -> tuple[Number | None, ...]:
        """The input positions per position; a fraction after upsampling."""
        return tuple(None if each is None else _number(each.stride) for each in self.maps)

    @property
    def padding(self) -> tuple[int | None, ...]:
        """The number of positions before the input that position 0 sees."""
        firsts = [None if each is None else each(0) for each in self.maps]
        return tuple(None if first is None else -first[0] for first in firsts)

    @property
    def centre(self) -> tuple[Number | None, ...]:
        """The center of the interval that position 0 sees."""
        found = [None if each is None else each(0) for each in self.maps]
        return tuple(None if ends is None else _number(Fraction(sum(ends), 2)) for ends in found)

    @property
    def is_global(self) -> bool:
        """Whether the value depends on the whole input, along every axis."""
        return bool(self.global_by) and all(self.global_by)

    @property
    def is_known(self) -> bool:
        """Whether the field is neither unknown nor misaligned."""
        return not self.unknown_by and not self.misaligned_by

    def region(self, *position: int) -> tuple[tuple[int, int] | None, ...]:
        """Return the first and the last input position that a position sees along each axis of the input.

        It is exact at borders, where windows cover padding. It is the whole axis if the value depends on all of it, and
        None if the position sees no input, or if the field is unknown.

        Args:
            position: an index from 0 for each of the :attr:`axes` of the value, or one index for all of them.

        Raises:
            TypeError: if an index is not an integer.
            ValueError: if an index is out of range, or the number of indices is wrong.
        """
        for at in position:
            if not isinstance(at, int) or isinstance(at, bool):
                raise TypeError(f"region expects positions as integers (got {at!r})")
            if at < 0:
                raise ValueError(f"region expects positions from 0 (got {at})")
        axes = self.axes if len(self.axes) else range(len(self.maps))
        if len(position) not in (1, len(axes)):
            raise ValueError(f"region expects 1 or {len(axes)} numbers (got {len(position)})")
        at_axis = dict(zip(axes, position * len(axes) if len(position) == 1 else position, strict=True))
        for axis, at in at_axis.items():
            size = self.shape[axis] if self.axes else None
            if size is not None and not is_symbolic(size) and at >= size:
                raise ValueError(f"region expects positions below {size} along axis {axis} (got {at})")
        return tuple(self._along(i, at_axis) for i in range(len(self.maps)))

    def _along(self, i: int, at_axis: Mapping[int, int]) -> tuple[int, int] | None:
        one_map, length = self.maps[i], self.lengths[i]
        if not self.is_known:
            return None
        if self.global_by[i]:
            return None if is_symbolic(length) else (0, length - 1)
        if one_map is None:
            return None
        position = _position_at(self.digits[i], at_axis)
        seen = None if position is None else one_map.seen(position)
        if seen is None:
            return None
        first, last = max(seen[0], 0), seen[1] if is_symbolic(length) else min(seen[1], length - 1)
        return (first, last) if last >= first else None

    def __repr__(self) -> str:
        return f"<ReceptiveField: {self}>"

    def __str__(self) -> str:
        if self.unknown_by:
            return f"unknown since {self.unknown_by}"
        if self.misaligned_by:
            return f"misaligned by {self.misaligned_by}"
        bound = "at most " if self.bounded_by and any(self.maps) else ""
        parts = ["all" if size is None else str(size) for size in self.size]
        local = "" if all(size is None for size in self.size) else bound + "x".join(parts)
        causes = list(dict.fromkeys(filter(None, self.global_by)))
        return ", ".join(filter(None, (local, f"global by {' and '.join(causes)}" if causes else "")))

    def to_dict(self) -> dict[str, Any]:
        """Return the field in plain JSON types; fractions become strings such as ``1/3``."""
        plain = [[str(v) if isinstance(v, Fraction) else v for v in values] for values in (self.stride, self.centre)]
        return {
            "size": list(self.size),
            "stride": plain[0],
            "padding": list(self.padding),
            "centre": plain[1],
            "global_by": list(self.global_by),
            "unknown_by": self.unknown_by,
            "misaligned_by": self.misaligned_by,
            "bounded_by": self.bounded_by,
            "wrapped_by": self.wrapped_by,
        }


class ReceptiveFields(Result, Mapping[str, ReceptiveField]):
    """The receptive field of every forward call that depends on an input, by name of the call.

    Each field is of the first output of the call.

    Attributes:
        axes: the reported axes of the input.
        input_shape: the shape of the input.
    """

    input_shape: tuple[Dim, ...]

    def __init__(self, trace: Trace, followed: Followed, axes: tuple[int, ...]) -> None:
        self.axes = axes
        self.input_shape = followed.source.shape
        self._lengths = tuple(followed.source.shape[axis] for axis in axes)
        self._by_call: dict[str, tuple[ReceptiveField | None, ...]] = {}
        self._calls = {call.name: call for call in trace.calls}
        for name, outputs in followed.outputs.items():
            self._by_call[name] = tuple(
                self._field([by_axis[axis] for axis in axes], y.shape) if by_axis else None
                for by_axis, y in zip(outputs, self._calls[name].layer.outputs, strict=True)
            )
        self._read = {identity for call in trace.calls if call.phase == "forward" for identity in call.inputs}
        self._returned = set(trace.run.returned)

    def __repr__(self) -> str:
        shown = [f"{name} {field}" for name, field in [*self.outputs.items()][:MOST_OUTPUTS]]
        more = ["…"] * (len(self.outputs) > MOST_OUTPUTS)
        return f"<ReceptiveFields of {len(self)} call{'s' * (len(self) != 1)}: {', '.join([*shown, *more])}>"

    def _content(self) -> Content:
        axes = f"along axis {self.axes[0]}" if len(self.axes) == 1 else f"along axes {', '.join(map(str, self.axes))}"
        outputs = [Figure(f"output {name}", f"Output {name}", str(field)) for name, field in self.outputs.items()]
        figures = [Figure("input_shape", "Input", self.input_shape, "shape", axes), *outputs[:MOST_OUTPUTS]]
        hidden = len(outputs) - MOST_OUTPUTS
        lines = [f"and {hidden} more output{'s' * (hidden != 1)}"] if hidden > 0 else []
        columns, rows = choose(RECEPTIVE_FIELDS, ReceptiveFieldColumns.DEFAULT), self.rows()
        calls = Table("By call", columns, rows, prefix=None, most=-MOST_ROWS)
        return Content("Receptive fields", figures, [calls], lines)

    def __getitem__(self, name: str) -> ReceptiveField:
        found = next(iter(self._by_call[name]), None)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, fields in self._by_call.items() if fields and fields[0] is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def of_outputs(self, name: str) -> tuple[ReceptiveField | None, ...]:
        """Return the field of each output of a call; None for an output that does not depend on the input."""
        return self._by_call[name]

    @property
    def outputs(self) -> dict[str, ReceptiveField]:
        """The fields of the model outputs by name of the call; if these are unknown, of values that no call reads.

        For a call with several outputs, it is the field of the first.
        """
        found: dict[str, ReceptiveField] = {}
        for name, fields in self._by_call.items():
            for identity, one in zip(self._calls[name].outputs, fields, strict=False):
                is_output = identity in self._returned if self._returned else identity not in self._read
                if is_output and one is not None:
                    found.setdefault(name, one)
        return found

    @property
    def last(self) -> ReceptiveField:
        """The field of the last call that depends on the input."""
        return self[list(self)[-1]]

    def rows(self) -> list[dict[str, Any]]:
        """Return one entry per call that depends on the input, for a table."""
        rows = []
        for name, one in self.items():
            call = self._calls[name]
            rows.append(
                {
                    "name": name,
                    "module": call.module,
                    "type": call.type,
                    "op": call.layer.op,
                    "output_shape": call.layer.out.shape,
                    "receptive_field": str(one),
                    "size": _cell(one, one.size),
                    "stride": _cell(one, one.stride),
                    "padding": _cell(one, one.padding),
                    "centre": _cell(one, one.centre),
                    "remark": remark(one),
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return all fields in plain JSON types, by name of the call."""
        return {
            **super().to_dict(),
            "axes": list(self.axes),
            "input_shape": [as_text(size) if is_symbolic(size) else size for size in self.input_shape],
            "fields": {name: one.to_dict() for name, one in self.items()},
        }

    def _field(self, dependences: Sequence[Dependence | None], shape: tuple[Dim, ...]) -> ReceptiveField | None:
        if all(dependence is None for dependence in dependences):
            return None
        found = [Dependence() if dependence is None else dependence for dependence in dependences]

        def first(name: str) -> str:
            return next((text for each in found if (text := getattr(each, name))), "")

        return ReceptiveField(
            self._lengths,
            tuple(None if each.path is None else each.path.map for each in found),
            tuple(each.global_by for each in found),
            unknown_by=first("unknown"),
            misaligned_by=first("misaligned"),
            bounded_by=first("bounded"),
            wrapped_by=first("wrapped"),
            digits=tuple(() if each.path is None else each.path.factors for each in found),
            shape=shape,
        )


def _cell(one: ReceptiveField, values: Sequence[Number | None]) -> str:
    if not one.is_known or all(value is None for value in values):
        return ""
    return "x".join("-" if value is None else str(value) for value in values)


def remark(one: ReceptiveField) -> str:
    """Return the remark on a field for a table: global, unknown, misaligned, bounded or wrapped."""
    if not one.is_known:
        return str(one)
    causes = " and ".join(dict.fromkeys(filter(None, one.global_by)))
    return ", ".join(
        filter(
            None,
            (
                f"global by {causes}" if causes else "",
                f"upper bound since {one.bounded_by}" if one.bounded_by else "",
                f"without wrapping around by {one.wrapped_by}" if one.wrapped_by else "",
            ),
        )
    )


def receptive_fields(trace: Trace, index: int | None = None, axes: Sequence[int] | None = None) -> ReceptiveFields:
    """Return the receptive fields of all forward calls, see :meth:`costcore.Report.receptive_field`."""
    followed = follow(trace, choose_source(sources(trace), index))
    return ReceptiveFields(trace, followed, reported_axes(followed, axes))


def fields_of(report: ReportLike, input: int | None = None, axes: Sequence[int] | None = None) -> ReceptiveFields:
    """Return the receptive fields of a report, see :meth:`costcore.Report.receptive_field`."""
    return receptive_fields(report.trace, input, axes)


__all__ = ["ReceptiveField", "ReceptiveFields", "fields_of", "node_name", "receptive_fields"]


def table_of(
    report: ReportLike,
    columns: Sequence[str] = ReceptiveFieldColumns.DEFAULT,
    top: int | None = None,
    sort: str | None = None,
    input: int | None = None,
    axes: Sequence[int] | None = None,
) -> Table:
    """Return a table with one row per call that depends on the input.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    rows, chosen = fields_of(report, input, axes).rows(), choose(RECEPTIVE_FIELDS, columns)
    if sort is not None:
        rows = in_order(rows, choose(RECEPTIVE_FIELDS, [sort])[0], lambda row: row)
    check_top(top)
    lines, dropped = remarks(report.trace), dropped_first(chosen)
    return Table("Receptive fields", chosen, rows[:top], remarks=lines, dropped_first=dropped)


# The quantity: which positions of the first input can change one output position.


def _of_fields(text: Callable[[ReceptiveField], str]) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        fields = ledger.cached("receptive_fields", lambda: receptive_fields(ledger.trace))
        return [text(fields[call.name]) if call.name in fields else "" for call in ledger.calls]

    return of_calls


QUANTITIES = (
    Quantity(
        *("receptive_field", "Receptive field", "text", "input positions that one output position sees"),
        _of_fields(str),
        "last",
    ),
)


# Propagation of one input through a trace, along each of its axes.

PHASES = ("forward", "recompute")
"""The phases that are followed: backward passes have no receptive field."""

WRITERS = ("copy", "cast", "full", "pad", "roll", "tile")
"""Layout operators that are not views: if their output shares memory with an earlier value, they overwrite it."""

ByAxis: TypeAlias = "tuple[Dependence | None, ...]"
"""The dependence of a value on each axis of the input; None if it does not depend on an axis."""


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
    """The dependences of all values on one input.

    Attributes:
        source: the input.
        outputs: the dependences of the outputs of each forward call, by name of the call.
        slid: the axes of the input along which windows slide.
    """

    source: Source
    outputs: dict[str, tuple[ByAxis, ...]] = field(default_factory=dict)
    slid: set[int] = field(default_factory=set)


def node_name(call: Call) -> str:
    """Return the name of a call with its module, for results."""
    return f"{call.name} in {call.module}" if call.module else call.name


def sources(trace: Trace) -> list[Source]:
    """Return the inputs of the run that a forward call reads, in order of first use.

    If the frontend does not record inputs, every value that no call produces counts as an input, except for
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
    # For inputs created inside a hook: results of calls without operands, outside of modules.
    read = {identity for call in _forward(trace) for identity in call.inputs}
    return [
        Source(identity, tensor.shape)
        for call in _forward(trace)
        if not call.inputs and not call.module
        for identity, tensor in zip(call.outputs, call.layer.outputs, strict=False)
        if identity in read
    ]


def choose_source(found: Sequence[Source], index: int | None) -> Source:
    """Return an input by index; by default, the first image, else the first sequence, else the first input.

    Raises:
        CostError: if there is no such input.
        TypeError: if the index is not an integer.
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
    """Return the dependence of every value of a forward pass on an input."""
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
    return tuple(each if each is None or each.path is None else each.with_marks_of(reason) for each in found)


def _dependences_of_outputs(
    call: Call, node: str, operands: Sequence[ByAxis], rank: int, slid: set[int]
) -> tuple[ByAxis, ...]:
    layer = call.layer
    columns: list[Sequence[Dependence | None]] = []
    for axis in range(rank):
        dependent = {
            name: found[axis] for name, found in zip(layer.inputs, operands, strict=False) if found[axis] is not None
        }
        context = RuleContext(layer, node, {name: each for name, each in dependent.items() if each is not None})
        columns.append(_apply_rule(context))
        if context.slides:
            slid.add(axis)
    return tuple(tuple(column[i] for column in columns) for i in range(len(layer.outputs)))


def _apply_rule(context: RuleContext) -> Sequence[Dependence | None]:
    if not context.operands:
        return context.all_outputs(None)
    if all(dependence.path is None for dependence in context.operands.values()):
        return context.all_outputs(_common_marks(context))  # no rule needed, only the marks remain
    try:
        return rule_of(context.layer.op)(context)
    except CannotFollowError as error:
        reason = str(error)
    except TooManyPhasesError:
        reason = "the pattern repeats after too many positions"
    except MisalignedError:
        reason = "operands of different strides"
    except CALCULATOR_ERRORS:  # only for layers from a file
        reason = "its tensors and settings do not fit the operator"
    return context.all_outputs(_common_marks(context).with_marks_of(Dependence(unknown=f"{context.node} ({reason})")))


def _common_marks(context: RuleContext) -> Dependence:
    marks = Dependence()
    for dependence in context.operands.values():
        marks = marks.with_marks_of(dependence)
    return marks


def _mark_overwritten(
    call: Call, node: str, outputs: Sequence[ByAxis], values: dict[int, ByAxis], memory: dict[int, list[int]]
) -> None:
    # The call overwrites memory, so the contents of other values in this memory become unknown.
    is_view = call.layer.op in LAYOUT and call.layer.op not in WRITERS
    first = len(call.layer.inputs)
    for storage, identity, output in zip(call.storages[first:], call.outputs, outputs, strict=False):
        others = memory.setdefault(storage, [])
        depends = any(dependence is not None for dependence in output)
        read = (i for i, place in zip(call.inputs, call.storages, strict=False) if place == storage)
        if others and depends and not is_view and not any(values.get(i) == output for i in read):
            reason = Dependence(unknown=f"{node} (writes in place into a part of another value)")
            for other in filter(values.__contains__, others):
                values[other] = tuple(reason if each is None else each.with_marks_of(reason) for each in values[other])
        others.append(identity)


def reported_axes(followed: Followed, axes: Iterable[int] | None) -> tuple[int, ...]:
    """Return the axes of the input to report: the given axes, else axes along which windows slide.

    Without windows, these are all axes but the first two of an image, and the second axis of a sequence.

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


# The rule of an operator.


def rule_of(op: str) -> Rule:
    """Return the rule of an operator; without a rule, one that raises :class:`CannotFollowError`.

    Quantized operators have the rules of their float versions.
    """
    for name in (op, op.removeprefix("dynamic_").removeprefix("quantized_")):
        if name in RULES:
            return RULES[name]
        if getattr(calculators().get(name), "is_element_wise", False):
            return element_wise
    return _reject


def _reject(context: RuleContext) -> list[Dependence | None]:
    # The bound for a scalar is the whole input.
    if context.layer.outputs and all(not y.shape for y in context.layer.outputs):
        return combined(context)
    raise CannotFollowError(f"no rule for {context.layer.op!r}")
