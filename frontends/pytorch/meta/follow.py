"""Follows the values of meta tensors through operators.

It runs beside the meta device, below autograd, and changes nothing of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch._ops import OpOverload

from .choices import CHOICES, CONSTANTS, DRAWN, TOO_LARGE, ShapeResult, ShapeRule
from .contents import (
    CPU,
    MAX_DEPTH,
    Contents,
    Layout,
    Reading,
    WaitingCall,
    layout_of,
    run_on_data,
    storage_with,
    without_capture,
)
from .operands import NUMBERS, PLAIN, all_tensors
from .values import INTEGERS, MAX_BYTES, Values, is_small


class Change(Enum):
    """What an operator does to the values of its operands."""

    NOTHING = auto()
    """It returns views of them."""
    NEW = auto()
    """It returns new tensors."""
    WRITE = auto()
    """It writes to some of them."""
    RESIZE = auto()
    """It changes the storage of one."""


_COVERING = frozenset(("aten::copy_", "aten::fill_", "aten::zero_"))
"""In-place operators whose result does not depend on what they overwrite."""


def _histc(x: Tensor, bins: int = 100, *limits: float) -> Tensor:
    """Count integers, which a GPU does and a CPU does not."""
    return torch.histc(x.double(), bins, *limits).to(x.dtype)


CPU_KERNELS: Mapping[str, Callable[..., Any]] = {"aten::histc": _histc}
"""Functions that compute the values of an operator for dtypes that a CPU does not support, by its name."""

_COMMUNICATING = ("c10d::", "_c10d_functional::", "_dtensor::")
"""Namespaces of operators whose results depend on other processes."""

_RESIZING = frozenset(("aten::resize_", "aten::resize_as_"))


class FollowRule:
    """How the values of the results of an operator are found, decided once per operator.

    Args:
        func: the operator.
        arguments: name and default of its arguments, in order.
        written: positions and names of the arguments that it writes to.

    Attributes:
        func: the operator, or what a CPU runs in its place.
        change: what it does to values.
        needs_values: whether its results are known only if all of its operands are.
        writes_first: whether it writes to its first argument alone, and its result depends on what that held.
        is_random: whether it draws random numbers, or receives those of other processes; it is never run.
        covers: whether it overwrites everything that it writes to.
        constant: returns the results that follow from shapes alone.
        choice: returns the results that are assumed if the operands are unknown.
    """

    __slots__ = (
        *("_arguments", "_written", "change", "choice", "constant", "covers", "func", "is_random"),
        *("needs_values", "writes_first"),
    )

    def __init__(
        self, func: OpOverload, arguments: Sequence[tuple[str, Any]], written: Sequence[tuple[int, str]]
    ) -> None:
        schema = func._schema
        name = schema.name
        full_name = f"{name}.{schema.overload_name}"
        self.func: Callable[..., Any] = CPU_KERNELS.get(name, func)
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags or name.startswith(_COMMUNICATING)
        self.covers = name in _COVERING
        self.constant: ShapeRule | None = CONSTANTS.get(name)
        self.choice: ShapeRule | None = CHOICES.get(full_name, CHOICES.get(name))
        self._arguments = arguments
        self._written = written
        self.change = self._change(func, [value.alias_info is not None for value in schema.returns])
        self.needs_values = self.change is Change.NEW and self.constant is None and self.choice is None
        is_one_tensor = [position for position, _ in written] == [0] and str(schema.arguments[0].type) == "Tensor"
        self.writes_first = self.change is Change.WRITE and is_one_tensor and not self.covers

    def _change(self, func: OpOverload, is_alias: Sequence[bool]) -> Change:
        if func._schema.name in _RESIZING:
            return Change.RESIZE
        if torch.Tag.inplace_view in func.tags:
            return Change.NOTHING
        if self._written:
            return Change.WRITE
        return Change.NOTHING if not is_alias or all(is_alias) else Change.NEW

    def targets(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """Return the tensors that a call writes to."""
        found: list[Tensor] = []
        for position, name in self._written:
            value = args[position] if position < len(args) else kwargs.get(name)
            found += all_tensors((value,))
        return found

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, defaults included."""
        names = (name for name, _ in self._arguments)
        return {**dict(self._arguments), **dict(zip(names, args, strict=False)), **kwargs}

    def carries(self, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any) -> bool:
        """Return whether calls like this one may change what is known: by types, shapes and dtypes alone."""
        if not all(type(x) in PLAIN and x.layout is torch.strided and not x.is_nested for x in tensors):
            return False
        if self.change is Change.WRITE:
            return any(x.is_meta for x in tensors) and any(map(_may_be_kept, self.targets(args, kwargs or {})))
        if self.change is not Change.NEW:
            return self.change is Change.RESIZE
        return any(x.is_meta for x in all_tensors((result,)))


def follow(
    values: Values, rule: FollowRule | None, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
) -> None:
    """Update the known values after a call.

    Args:
        values: the known values.
        rule: the rule of the operator; None: it has none.
        args: the positional arguments of the call.
        kwargs: its keyword arguments.
        tensors: all tensors among its arguments.
        result: what it returned.
    """
    if rule is None:
        return
    known = values.by_address
    if rule.needs_values:
        for tensor in tensors:
            if tensor.is_meta and tensor.untyped_storage()._cdata not in known:
                return
    elif rule.writes_first and args and args[0].is_meta and args[0].untyped_storage()._cdata not in known:
        return
    if rule.change is Change.NEW:
        _follow_new(values, rule, args, kwargs or {}, tensors, result)
    elif rule.change is Change.WRITE:
        _follow_write(values, rule, args, kwargs or {}, tensors)
    elif rule.change is Change.RESIZE:
        values.drop(tensors[0])


def _follow_new(
    values: Values, rule: FollowRule, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
) -> None:
    if rule.constant is not None:
        _put_all(values, rule.constant(rule.bind(args, kwargs), result))
        return
    readings = None if rule.is_random else _readings(values, tensors)
    if readings is None:
        choose(values, rule, args, kwargs, result)
        if rule.is_random and rule.choice is None and not tensors and isinstance(result, Tensor) and result.is_meta:
            values.put(result, Contents(_nothing, DRAWN))
        return
    inputs = {x.untyped_storage()._cdata for x in tensors}
    outputs = (result,) if isinstance(result, Tensor) else result
    if not isinstance(outputs, (tuple, list)):
        return
    layouts = [layout_of(x) if _is_new(x, inputs) else None for x in outputs]
    call = WaitingCall(rule.func, _read(args, readings), _read(kwargs, readings), layouts)
    flags, depth = _rests_on(readings.values())
    for i, layout in enumerate(layouts):
        if layout is not None:
            values.put(outputs[i], Contents(partial(call.storage, i), flags, depth))
        elif _is_too_large(outputs[i], inputs):
            values.put(outputs[i], Contents(_nothing, flags | TOO_LARGE))


def choose(values: Values, rule: FollowRule, args: Any, kwargs: Any, result: Any) -> None:
    """Assume the values of the results of a call on unknown values, if its operator is a choice."""
    if rule.choice is not None:
        _put_all(values, rule.choice(rule.bind(args, kwargs), result))


def _follow_write(values: Values, rule: FollowRule, args: Any, kwargs: Any, tensors: Sequence[Tensor]) -> None:
    targets = [args[0]] if rule.writes_first and args else rule.targets(args, kwargs)
    if not all(x.is_meta for x in targets):
        _write_data(values, rule, args, kwargs, tensors, targets)
        return
    if all(values.contents(x) is None for x in targets):
        if not rule.covers or not _covers(targets[0]) or not is_small(targets[0]):
            return
        if _readings(values, tensors[1:]) is None:
            return
        nbytes = targets[0].untyped_storage().nbytes()
        values.put(targets[0], Contents(partial(UntypedStorage, nbytes, device=CPU)))
    readings = None if rule.is_random else _readings(values, tensors)
    if readings is None:
        for target in targets:
            values.drop(target)
        return
    written = {id(contents := readings[id(x)].contents): contents for x in targets}
    call = WaitingCall(rule.func, _read(args, readings), _read(kwargs, readings), (), [*written.values()])
    flags, depth = _rests_on(readings.values())
    changed = {key: Contents(partial(call.storage, i), flags, depth) for i, key in enumerate(written)}
    for target in targets:
        values.replace(target, changed[id(readings[id(target)].contents)])


def _may_be_kept(target: Tensor) -> bool:
    """Return whether a tensor may lie in a storage whose contents are kept."""
    return is_small(target) or (target.dtype in INTEGERS and target.numel() * target.itemsize <= MAX_BYTES)


def _covers(target: Tensor) -> bool:
    """Return whether a tensor is all of its storage."""
    nbytes = target.numel() * target.itemsize
    return bool(nbytes == target.untyped_storage().nbytes() and target.is_contiguous())


def _write_data(
    values: Values, rule: FollowRule, args: Any, kwargs: Any, tensors: Sequence[Tensor], targets: Sequence[Tensor]
) -> None:
    """Write known values to tensors with data, which the call on the meta device left as they were."""
    others = [x for x in tensors if not any(x is target for target in targets)]
    readings: dict[int, Any] | None = None if rule.is_random else _readings(values, others)
    if readings is not None and not any(x.is_meta for x in targets):
        readings.update((id(target), target) for target in targets)
        if run_on_data(rule.func, _read(args, readings), _read(kwargs, readings)):
            return
    for target in targets:
        values.forget_data(target)


def _rests_on(readings: Collection[Reading]) -> tuple[int, int]:
    """Return the assumptions behind a call, and how many calls wait for one another with it."""
    flags = depth = 0
    for contents, *_ in readings:
        flags |= contents.assumptions
        depth = max(depth, contents.depth)
    if depth >= MAX_DEPTH:
        for contents, *_ in readings:
            contents.storage()
        depth = 0
    return flags, depth + 1


def _put_all(values: Values, results: Iterable[ShapeResult]) -> None:
    for tensor, compute, flag in results:
        if tensor.is_meta and is_small(tensor):
            values.put(tensor, Contents(partial(_computed, compute, layout_of(tensor)), flag))
        elif tensor.is_meta:
            values.put(tensor, Contents(_nothing, flag | TOO_LARGE))


def _nothing() -> None:
    """Return that contents are unknown."""


def _is_too_large(tensor: Any, inputs: Collection[int]) -> bool:
    """Return whether a result is a meta tensor in a storage of its own that has too many values to keep."""
    return (
        isinstance(tensor, Tensor)
        and tensor.is_meta
        and not is_small(tensor)
        and tensor.untyped_storage()._cdata not in inputs
    )


def _computed(compute: Callable[[], Tensor], layout: Layout) -> UntypedStorage | None:
    with without_capture():
        return storage_with(compute(), layout)


def _is_new(tensor: Any, inputs: Collection[int]) -> bool:
    """Return whether a result is a small meta tensor in a storage of its own."""
    return (
        isinstance(tensor, Tensor)
        and tensor.is_meta
        and is_small(tensor)
        and not tensor.storage_offset()
        and tensor.untyped_storage()._cdata not in inputs
    )


def _readings(values: Values, tensors: Sequence[Tensor]) -> dict[int, Reading] | None:
    """Return the readings of tensors by their addresses; None if the values of one are unknown."""
    readings: dict[int, Reading] = {}
    for tensor in tensors:
        reading = values.reading(tensor)
        if reading is None:
            return None
        readings[id(tensor)] = reading
    return readings


def _read(value: Any, readings: Mapping[int, Any]) -> Any:
    """Return an argument with readings in place of tensors."""
    if isinstance(value, Tensor):
        return readings[id(value)]
    if isinstance(value, (list, tuple)):
        return [item if type(item) in NUMBERS else _read(item, readings) for item in value]
    return {name: _read(item, readings) for name, item in value.items()} if isinstance(value, dict) else value
