"""Propagation of known values through operators (constant propagation).

It runs beside the meta device, below autograd, and does not change the run. The second section has results that are
known or assumed although the operands are unknown.

A tensor of unknown values may have a known *pattern* of zeros: models write the weights of experts into zeros, and find
the tokens of an expert by ``nonzero`` or ``> 0``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from math import isinf
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, UntypedStorage
from torch._ops import OpOverload

from .branches import MASK_SELECTS_ALL
from .values import (
    CPU,
    FLOATS,
    INTEGERS,
    MAX_BYTES,
    MAX_DEPTH,
    NUMBERS,
    PLAIN,
    POSITIVE,
    Bounds,
    Contents,
    Layout,
    Reading,
    Values,
    WaitingCall,
    all_tensors,
    is_small,
    layout_of,
    run_on_data,
    storage_with,
    without_capture,
)


class Change(Enum):
    """The effect of an operator on the values of its operands."""

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
    # ``histc`` of integers works on a GPU, not on a CPU.
    return torch.histc(x.double(), bins, *limits).to(x.dtype)


CPU_KERNELS: Mapping[str, Callable[..., Any]] = {"aten::histc": _histc}
"""Functions that compute values for dtypes that a CPU does not support, by operator."""

_COMMUNICATING = ("c10d::", "_c10d_functional::", "_dtensor::")
"""Namespaces of operators whose results depend on other processes."""

_CONTINUOUS = frozenset(("aten::rand", "aten::rand_like", "aten::uniform", "aten::uniform_"))

_BELOW = 2**-24
"""How far the largest float32 of ``torch.rand`` is below 1, so that ``int(torch.rand(()) * n)`` is a valid index."""

_LOW_AND_HIGH = (("low", 0), ("high", None))

BOUNDS: Mapping[str, Sequence[tuple[str, Any]]] = {
    **dict.fromkeys(("aten::rand", "aten::rand_like"), (("", 0), ("", 1))),
    **dict.fromkeys(("aten::uniform", "aten::uniform_"), (("from", 0), ("to", 1))),
    **dict.fromkeys(("aten::randint", "aten::randint_like"), _LOW_AND_HIGH),
    **dict.fromkeys(("aten::random", "aten::random_"), (("from", 0), ("to", None))),
}
"""The arguments that bound the numbers of a random operator, and their defaults; integers exclude the upper bound."""

_DIFFERENCES = frozenset(("aten::sub", "aten::rsub"))

_RESIZING = frozenset(("aten::resize_", "aten::resize_as_"))


class PropagationRule:
    """The rule for the result values of an operator, made once per operator.

    Args:
        func: the operator.
        arguments: name and default of its arguments, in order.
        written: positions and names of the arguments that it writes to.

    Attributes:
        func: the operator, or its replacement on a CPU.
        change: its effect on values.
        needs_values: whether its results are known only if all operands are.
        writes_first: whether it writes to its first argument alone, and its result depends on the old content.
        is_random: whether it draws random numbers or receives data of other processes; it never runs on known values.
        covers: whether it overwrites everything that it writes to.
        constant: returns the results that follow from shapes alone.
        choice: returns the results that are assumed if the operands are unknown.
        follows_zeros: whether a pattern of zeros stays known: it writes into zeros, copies a pattern or reads it.
        writes_zeros: whether it writes numbers into zeros.
        absorbing: the element of one operand that determines the result, such as False for ``and``; None without one.
        is_difference: whether it subtracts.
    """

    is_difference: bool
    is_random: bool | Any
    covers: bool
    absorbing: bool | None
    change: Change
    follows_zeros: bool
    needs_values: bool
    writes_first: bool
    writes_zeros: bool

    __slots__ = (
        *(
            "_arguments",
            "_name",
            "_written",
            "absorbing",
            "change",
            "choice",
            "constant",
            "covers",
            "follows_zeros",
            "func",
            "is_difference",
            "is_random",
        ),
        *("needs_values", "writes_first", "writes_zeros"),
    )

    def __init__(
        self, func: OpOverload, arguments: Sequence[tuple[str, Any]], written: Sequence[tuple[int, str]]
    ) -> None:
        schema = func._schema
        name = schema.name
        full_name = f"{name}.{schema.overload_name}"
        self.func: Callable[..., Any] = CPU_KERNELS.get(name, func)
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags or name.startswith(_COMMUNICATING)
        self.covers = name in _COVERING or name in BOUNDS
        self.constant: ShapeRule | None = CONSTANTS.get(name)
        self.choice: ShapeRule | None = CHOICES.get(full_name, CHOICES.get(name))
        self.absorbing = ABSORBING.get(name)
        self.is_difference = name in _DIFFERENCES
        self.writes_zeros = name.rstrip("_") in WRITING_INTO_ZEROS
        self.follows_zeros = self.writes_zeros or full_name in READING_ZEROS
        self._arguments = arguments
        self._name = name
        self._written = written
        self.change = self._change(func, [value.alias_info is not None for value in schema.returns])
        has_result = (
            self.constant is not None or self.choice is not None or self.absorbing is not None or self.writes_zeros
        )
        self.needs_values = self.change is Change.NEW and not has_result
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

    def bounds(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bounds | None:
        """Return the smallest and the largest number that a call may draw; None if they are not known."""
        names = BOUNDS.get(self._name)
        if names is None:
            return None
        given = self.bind(args, kwargs)
        low, high = (given.get(name, default) for name, default in names)
        if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
            return None
        return (low, high - (high - low) * _BELOW) if self._name in _CONTINUOUS else (low, high - 1)

    def may_change_values(self, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any) -> bool:
        """Return whether calls of these types, shapes and dtypes may change known values."""
        if not all(type(x) in PLAIN and x.layout is torch.strided and not x.is_nested for x in tensors):
            return False
        if self.change is Change.WRITE:
            return any(x.is_meta for x in tensors) and any(map(_may_be_kept, self.targets(args, kwargs or {})))
        if self.change is not Change.NEW:
            return self.change is Change.RESIZE
        return any(x.is_meta for x in all_tensors((result,)))


def propagate(
    values: Values, rule: PropagationRule | None, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
) -> None:
    """Update the known values after a call.

    Args:
        values: the known values.
        rule: the rule of the operator; None: it has none.
        args: the positional arguments of the call.
        kwargs: its keyword arguments.
        tensors: all tensors among its arguments.
        result: the result.
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
        _propagate_new(values, rule, args, kwargs or {}, tensors, result)
    elif rule.change is Change.WRITE:
        _propagate_write(values, rule, args, kwargs or {}, tensors)
    elif rule.change is Change.RESIZE:
        values.drop(tensors[0])


def _propagate_new(
    values: Values, rule: PropagationRule, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
) -> None:
    if rule.constant is not None:
        _put_all(values, rule.constant(rule.bind(args, kwargs), result))
        return
    readings = None if rule.is_random else _readings(values, tensors)
    if readings is None:
        if rule.follows_zeros and _propagate_zeros(values, rule, args, kwargs, tensors, result):
            return
        if rule.absorbing is not None:
            _absorb(values, rule.absorbing, tensors, result)
        choose(values, rule, args, kwargs, result)
        if rule.is_random and rule.choice is None and isinstance(result, Tensor) and result.is_meta:
            bounds = rule.bounds(args, kwargs)
            if bounds is not None or not tensors:
                values.put(result, Contents(_unknown, DRAWN, bounds=bounds))
        return
    inputs = {x.untyped_storage()._cdata for x in tensors}
    outputs = (result,) if isinstance(result, Tensor) else result
    if not isinstance(outputs, (tuple, list)):
        return
    layouts = [layout_of(x) if _is_new(x, inputs) else None for x in outputs]
    flags, depth = _flags_and_depth(readings.values())
    func = partial(_difference, rule.func) if flags & SELECTED and rule.is_difference else rule.func
    call = WaitingCall(func, _with_readings(args, readings), _with_readings(kwargs, readings), layouts)
    for i, layout in enumerate(layouts):
        if layout is not None:
            values.put(outputs[i], Contents(partial(call.storage, i), flags, depth))
        elif _is_too_large(outputs[i], inputs):
            values.put(outputs[i], Contents(_unknown, flags | TOO_LARGE))


def _absorb(values: Values, element: bool, tensors: Sequence[Tensor], result: Any) -> None:
    # ``unknown & False`` is False. So a loop on ``unfinished & (length < max_length)`` ends at the maximum length.
    if not isinstance(result, Tensor) or result.dtype is not torch.bool:
        return
    for tensor in tensors:
        known = values.of(tensor) if tensor.dtype is torch.bool and is_small(tensor) else None
        if known is not None:
            with without_capture():
                is_decided = bool((known == element).all())
            if is_decided:
                flags = values.assumptions([tensor])
                _put_all(values, [ShapeResult(result, partial(_full, result.shape, element, result.dtype), flags)])
                return


def _propagate_zeros(
    values: Values, rule: PropagationRule, args: Any, kwargs: Any, tensors: Sequence[Tensor], result: Any
) -> bool:
    # Runs the operator on patterns, in which unknown numbers are 1 and zeros are 0.
    x = args[0] if args else None
    if not isinstance(x, Tensor) or not isinstance(result, Tensor) or not result.is_meta or not is_small(result):
        return False
    pattern, data = values.of(x, is_pattern=True), values.of(x)
    with without_capture():
        if data is not None and rule.writes_zeros and not data.any():
            pattern = data
        if pattern is None or (result is x and not _covers(x)) or (not rule.writes_zeros and {*args[1:]} - {0}):
            return False
        known: dict[int, Tensor] = {id(x): pattern.clone()}
        for each in tensors:
            if each is not x:
                number = values.of(each)
                if number is None and not each.is_floating_point():
                    return False
                known[id(each)] = torch.ones(each.shape, dtype=each.dtype) if number is None else number
        here = {"device": CPU} if kwargs.get("device") is not None else {}
        try:
            found = rule.func(*_with_readings(args, known), **{**_with_readings(kwargs, known), **here})
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
    flags = values.assumptions(tensors) & ~(TOO_LARGE | DRAWN) | (POSITIVE if found.dtype is torch.bool else 0)
    is_pattern = found.dtype is not torch.bool
    contents = Contents(partial(storage_with, found, layout_of(result)), flags, is_pattern=is_pattern)
    (values.replace if result is x else values.put)(result, contents)
    return True


def choose(values: Values, rule: PropagationRule, args: Any, kwargs: Any, result: Any) -> None:
    """Assume the result values of a call on unknown values, if its operator has such a rule (``choice``)."""
    if rule.choice is not None:
        _put_all(values, rule.choice(rule.bind(args, kwargs), result))


def _propagate_write(values: Values, rule: PropagationRule, args: Any, kwargs: Any, tensors: Sequence[Tensor]) -> None:
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
        if rule.follows_zeros and _propagate_zeros(values, rule, args, kwargs, tensors, targets[0]):
            return
        for target in targets:
            values.drop(target)
            if rule.is_random and rule.covers and _covers(target):
                values.put(target, Contents(_unknown, DRAWN, bounds=rule.bounds(args, kwargs)))
        choose(values, rule, args, kwargs, None)
        return
    written = {id(contents := readings[id(x)].contents): contents for x in targets}
    inputs = _with_readings(args, readings), _with_readings(kwargs, readings)
    call = WaitingCall(rule.func, *inputs, (), [*written.values()])
    flags, depth = _flags_and_depth(readings.values())
    changed = {key: Contents(partial(call.storage, i), flags, depth) for i, key in enumerate(written)}
    for target in targets:
        values.replace(target, changed[id(readings[id(target)].contents)])


def _may_be_kept(target: Tensor) -> bool:
    # The storage of integers is kept up to ``MAX_BYTES``; the tensor may be a view of a part of it.
    return is_small(target) or (target.dtype in INTEGERS and target.numel() * target.itemsize <= MAX_BYTES)


def _covers(target: Tensor) -> bool:
    nbytes = target.numel() * target.itemsize
    return bool(nbytes == target.untyped_storage().nbytes() and target.is_contiguous())


def _write_data(
    values: Values, rule: PropagationRule, args: Any, kwargs: Any, tensors: Sequence[Tensor], targets: Sequence[Tensor]
) -> None:
    # The call ran on the meta device, and did not write the data: write them here, or mark them as unknown.
    others = [x for x in tensors if not any(x is target for target in targets)]
    readings: dict[int, Any] | None = None if rule.is_random else _readings(values, others)
    if readings is not None and not any(x.is_meta for x in targets):
        readings.update((id(target), target) for target in targets)
        if run_on_data(rule.func, _with_readings(args, readings), _with_readings(kwargs, readings)):
            return
    for target in targets:
        values.forget_data(target)


def _flags_and_depth(readings: Collection[Reading]) -> tuple[int, int]:
    # A deep chain is computed now: a later read would recurse through all waiting calls.
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
            values.put(tensor, Contents(_unknown, flag | TOO_LARGE))


def _unknown() -> None:
    pass


def _is_too_large(tensor: Any, inputs: Collection[int]) -> bool:
    return (
        isinstance(tensor, Tensor)
        and tensor.is_meta
        and tensor.layout is torch.strided
        and not is_small(tensor)
        and tensor.untyped_storage()._cdata not in inputs
    )


def _computed(compute: Callable[[], Tensor], layout: Layout) -> UntypedStorage | None:
    with without_capture():
        return storage_with(compute(), layout)


def _is_new(tensor: Any, inputs: Collection[int]) -> bool:
    return (
        isinstance(tensor, Tensor)
        and tensor.is_meta
        and tensor.layout is torch.strided
        and is_small(tensor)
        and not tensor.storage_offset()
        and tensor.untyped_storage()._cdata not in inputs
    )


def _readings(values: Values, tensors: Sequence[Tensor]) -> dict[int, Reading] | None:
    readings: dict[int, Reading] = {}
    for tensor in tensors:
        reading = values.reading(tensor)
        if reading is None:
            return None
        readings[id(tensor)] = reading
    return readings


def _with_readings(value: Any, readings: Mapping[int, Any]) -> Any:
    if isinstance(value, Tensor):
        return readings[id(value)]
    if isinstance(value, (list, tuple)):
        return [item if type(item) in NUMBERS else _with_readings(item, readings) for item in value]
    return {name: _with_readings(item, readings) for name, item in value.items()} if isinstance(value, dict) else value


# Results that do not depend on operand values
#
# Some follow from shapes alone (``zeros_like``). The others are assumed: a choice over scores (``topk``, ``argmax``,
# ``sort``, ``multinomial``) returns indices that spread evenly over the axis, so that experts get equal numbers of
# tokens, as nearly as possible. Such results, and values derived from them, are flagged. An assumption is reported if a
# flagged value decides something.


BALANCED, FINITE, UNSHUFFLED, FACTORED, SELECTED = 1, 2, 4, 32, 64
"""Flags of values that rest on an assumption."""

TOO_LARGE, DRAWN = 8, 16
"""Flags of unknown values: they are too many, or random. Derived values have the flag too."""

ASSUMPTIONS: Mapping[int, str] = {
    BALANCED: "a choice over scores without data (topk, argmax, sort) was assumed to be spread evenly",
    FINITE: "numbers without data were assumed to be finite",
    UNSHUFFLED: "a random permutation was assumed to keep the order",
    FACTORED: "factorizations of matrices without data were assumed to succeed",
    SELECTED: MASK_SELECTS_ALL,
    POSITIVE: "numbers without data, written into zeros, were assumed to be positive",
}
"""The assumption of each flag."""


def assumptions_of(flags: int) -> Iterable[str]:
    """Return the text of each flag that is set."""
    return [text for flag, text in ASSUMPTIONS.items() if flags & flag]


class ShapeResult(NamedTuple):
    """A result with values that follow from shapes.

    Attributes:
        tensor: the meta tensor.
        compute: returns its values on the CPU.
        flag: the assumption behind them; 0: none.
    """

    tensor: Tensor
    compute: Callable[[], Tensor]
    flag: int = 0


ShapeRule: TypeAlias = Callable[[Mapping[str, Any], Any], Iterable[ShapeResult]]
"""Returns the known results of a call from its arguments by name, and from its results on the meta device."""


FIRST_CHOICE: ContextVar[int] = ContextVar("first_choice", default=0)
"""The first index that a choice over scores returns. Code may exclude index 0, such as a zero frequency."""


def spread(shape: torch.Size, dim: int, size: int, step: int = 1) -> Tensor:
    """Return indices below ``size`` for a tensor of ``shape``: in its n-th row, they count up from ``n * step``.

    Rows lie along ``dim``, and are numbered over all other axes. With ``step`` elements per row, any number of rows
    contains every index equally often, to within one.
    """
    if not shape:
        return torch.zeros((), dtype=torch.int64)
    others = shape[:dim] + shape[dim + 1 :]
    rows = torch.arange(others.numel()).reshape(others).unsqueeze(dim)
    places = (FIRST_CHOICE.get() + torch.arange(shape[dim])).reshape([-1] + [1] * (len(shape) - 1 - dim))
    return (rows * step + places).remainder(max(size, 1))


def _filled(number: complex, flag: int = 0) -> ShapeRule:
    return lambda arguments, result: [ShapeResult(result, partial(_full, result.shape, number, result.dtype), flag)]


def _full(shape: torch.Size, number: complex, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, number, dtype=dtype)


def _filled_with(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(_full, result.shape, arguments["fill_value"], result.dtype))]


def _if_integers(rule: ShapeRule) -> ShapeRule:
    # Nothing depends on uninitialized floats; integers may be sizes.
    return lambda arguments, result: () if result.is_floating_point() else rule(arguments, result)


def _axis(arguments: Mapping[str, Any], default: int = -1) -> tuple[int, int]:
    x, dim = arguments["self"], arguments.get("dim", default)
    if not x.dim():
        return 0, 1
    return dim % x.dim(), x.shape[dim]


def _topk(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    dim, size = _axis(arguments)
    return [ShapeResult(result[1], partial(spread, result[1].shape, dim, size, arguments["k"]), BALANCED)]


def _sort(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    return [ShapeResult(result[1], partial(spread, result[1].shape, *_axis(arguments)), BALANCED)]


def _argsort(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(spread, result.shape, *_axis(arguments)), BALANCED)]


def _picked(arguments: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    indices = result if isinstance(result, Tensor) else result[1]
    if arguments["dim"] is None:
        return [ShapeResult(indices, partial(_full, indices.shape, 0, torch.int64), BALANCED)]
    dim, size = _axis(arguments)
    shape = list(arguments["self"].shape)
    shape[dim : dim + 1] = [1]
    return [ShapeResult(indices, partial(_one_of_each_row, torch.Size(shape), dim, size, indices.shape), BALANCED)]


def _one_of_each_row(rows: torch.Size, dim: int, size: int, shape: torch.Size) -> Tensor:
    return spread(rows, dim, size).reshape(shape)


def _bincount(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # Even, if the result has only the ``minlength`` bins; with more bins the counts are unknown.
    bins, total = result.numel(), arguments["self"].numel()
    if arguments["minlength"] < bins or arguments["weights"] is not None:
        return []
    return [ShapeResult(result, partial(_even_counts, total, bins), BALANCED)]


def _all_places(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # The size of the result already rests on the assumption that all elements are nonzero; no flag is needed here.
    return [ShapeResult(result, partial(_places, arguments["self"].shape))]


def _places(shape: torch.Size) -> Tensor:
    return torch.ones(shape).nonzero()


def _even_counts(total: int, bins: int) -> Tensor:
    return total // bins + (torch.arange(bins) < total % bins).long()


def _count_of_mask(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # Code splits ``x[mask]`` by ``mask.sum(1)``, and such a mask selects every element.
    mask = arguments["self"]
    if mask.dtype is not torch.bool:
        return []
    return _filled(mask.numel() // max(result.numel(), 1), SELECTED)(arguments, result)


def _cast_mask(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # Code counts by ``mask.long().sum(1)``, and numbers elements by ``mask.long().cumsum(1)``.
    return _filled(1, SELECTED)(arguments, result) if arguments["self"].dtype is torch.bool else []


def _difference(subtract: Callable[..., Tensor], x: Tensor | float, y: Tensor | float, **options: Any) -> Tensor:
    # An unknown mask is assumed to select every element, and so is its complement: ``length - mask.sum(1)``, which
    # would be 0, is taken as ``length``.
    result = subtract(x, y, **options)
    if result.dtype not in INTEGERS or bool(result.any()):
        return result
    whole = y if subtract in (torch.ops.aten.rsub.Scalar, torch.ops.aten.rsub.Tensor) else x
    return result + whole


def _equal_to_itself(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # PyTorch computes ``isfinite`` as ``(x == x) * (abs(x) != inf)``; this is the first half.
    return _filled(1, FINITE)(arguments, result) if arguments["self"] is arguments["other"] else []


def _unequal_to_itself(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # ``x != x`` is how some write ``isnan``.
    return _filled(0, FINITE)(arguments, result) if arguments["self"] is arguments["other"] else []


def _not_infinite(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    # This is the second half of ``isfinite``.
    return _filled(1, FINITE)(arguments, result) if isinf(arguments["other"]) else []


def _infinite(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return _filled(0, FINITE)(arguments, result) if isinf(arguments["other"]) else []


def _succeeded(_: Mapping[str, Any], result: Any) -> Iterable[ShapeResult]:
    info = result[-1]
    return [ShapeResult(info, partial(_full, info.shape, 0, info.dtype), FACTORED)]


def _multinomial(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    size, count = arguments["self"].shape[-1], arguments["num_samples"]
    return [ShapeResult(result, partial(spread, result.shape, result.dim() - 1, size, count), BALANCED)]


def _randperm(arguments: Mapping[str, Any], result: Tensor) -> Iterable[ShapeResult]:
    return [ShapeResult(result, partial(torch.arange, result.numel(), dtype=result.dtype), UNSHUFFLED)]


_FACTORIZATIONS = "linalg_cholesky_ex linalg_inv_ex linalg_lu_factor_ex linalg_ldl_factor_ex _linalg_solve_ex"
"""Operators whose last result, ``info``, is nonzero where they fail."""

_PICKS = "argmax argmin max.dim min.dim median.dim nanmedian.dim mode kthvalue"

CONSTANTS: Mapping[str, ShapeRule] = {
    **dict.fromkeys(("aten::zeros_like", "aten::new_zeros"), _filled(0)),
    **dict.fromkeys(("aten::ones_like", "aten::new_ones"), _filled(1)),
    **dict.fromkeys(("aten::full_like", "aten::new_full"), _filled_with),
    **dict.fromkeys(
        (f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")),
        _if_integers(_filled(0)),
    ),
}
"""Results that follow from shapes, by operator. Uninitialized integers are zeros."""

ABSORBING: Mapping[str, bool] = {
    **dict.fromkeys(("aten::bitwise_and", "aten::logical_and", "aten::__and__"), False),
    **dict.fromkeys(("aten::bitwise_or", "aten::logical_or", "aten::__or__"), True),
}
"""The element of a bool operand that determines the result, whatever the other operand is."""


WRITING_INTO_ZEROS = ("aten::scatter", "aten::scatter_add", "aten::index_put", "aten::index_add")
"""Operators that write numbers into zeros, which makes a pattern."""

READING_ZEROS = ("aten::gt.Scalar", "aten::ne.Scalar", "aten::_to_copy.", "aten::clone.")
"""Operators that copy a pattern of zeros, or test which elements are nonzero."""


def _no_overflow(arguments: Mapping[str, Any], _: None) -> Iterable[ShapeResult]:
    # Gradients that were scaled are assumed to be finite.
    found = arguments["found_inf"]
    return [ShapeResult(found, partial(_full, found.shape, 0, found.dtype), FINITE)]


CHOICES: Mapping[str, ShapeRule] = {
    "aten::_amp_foreach_non_finite_check_and_unscale_": _no_overflow,
    "aten::topk": _topk,
    "aten::sort": _sort,
    "aten::argsort": _argsort,
    **dict.fromkeys((f"aten::{name}" for name in _PICKS.split()), _picked),
    "aten::multinomial": _multinomial,
    "aten::nonzero": _all_places,
    "aten::bincount": _bincount,
    **dict.fromkeys(("aten::sum", "aten::count_nonzero"), _count_of_mask),
    "aten::_to_copy": _cast_mask,
    "aten::randperm": _randperm,
    **dict.fromkeys(("aten::isnan", "aten::isinf"), _filled(0, FINITE)),
    "aten::isfinite": _filled(1, FINITE),
    **dict.fromkeys((f"aten::{name}" for name in _FACTORIZATIONS.split()), _succeeded),
    "aten::eq.Scalar": _infinite,
    "aten::eq.Tensor": _equal_to_itself,
    "aten::ne.Tensor": _unequal_to_itself,
    "aten::ne.Scalar": _not_infinite,
}
"""Results that are assumed if the operands are unknown, by operator, or by overload where the others differ."""


# Pairs of queries and keys that a mask of attention allows


def allowed_pairs(values: Values, args: Mapping[str, Any]) -> int | None:
    """Return the number of pairs over all heads and samples; None if it is unknown.

    Args:
        values: the known values of meta tensors.
        args: the arguments of an operator of attention, by name.
    """
    query, key = args.get("query"), args.get("key")
    mask = args.get("attn_mask", args.get("attn_bias"))
    if not isinstance(query, Tensor) or not isinstance(key, Tensor) or query.is_nested:
        return None
    rows: int = query.shape[:-1].numel()
    queries, keys = int(query.shape[-2]), int(key.shape[-2])
    if args.get("is_causal"):  # the first query is at the position of the first key
        square = min(queries, keys)
        per_head = square * (square + 1) // 2 + (queries - square) * keys
        return int(rows // max(queries, 1)) * per_head
    known = None if mask is None else values.of(mask)
    if known is None:
        return None
    with without_capture():
        known = _without_repeats(known)
        allowed = int(known.sum() if known.dtype is torch.bool else (known > _MASKED).sum())
    return int(allowed * rows * keys // max(known.numel(), 1))


def _without_repeats(tensor: Tensor) -> Tensor:
    # Drops the samples and heads that repeat elements of an expanded mask.
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor[tuple(slice(0, 1) if step == 0 and size > 1 else slice(None) for size, step in steps)]


MASKING = frozenset(("aten::add", "aten::add_", "aten::masked_fill", "aten::masked_fill_", "aten::where"))
"""Operators by which models mask scores before a softmax."""

_MASKED = -1e4
"""Scores at or below this value have no weight: minus infinity, or the usual value of 16-bit masks."""


class MaskedScores:
    """Counts the scores that masks exclude; the count of each mask is cached.

    Args:
        values: the known values of meta tensors.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._counted: dict[tuple[Any, ...], tuple[Tensor, int]] = {}

    def of(self, native: str, args: Mapping[str, Any], scores: Tensor) -> int:
        """Return the number of elements of ``scores`` that an operator masks; 0 if the mask is unknown.

        Args:
            native: the operator, of :data:`MASKING`.
            args: its arguments by name.
            scores: its result.
        """
        if native.startswith("aten::masked_fill"):
            return self._count(args["mask"], scores, 1) if self._is_low(args["value"]) else 0
        if native == "aten::where":
            for name, is_masked in (("other", 0), ("self", 1)):
                if self._is_low(args.get(name)):
                    return self._count(args["condition"], scores, is_masked)
            return 0
        for name in ("other", "self"):
            if isinstance(mask := args.get(name), Tensor) and mask.dim() > 1 and mask.dtype in FLOATS:
                found = self._count(mask, scores, None)
                if found:
                    return found
        return 0

    def _is_low(self, value: Any) -> bool:
        if isinstance(value, Tensor):
            known = self._values.of(value) if value.numel() == 1 else None
            if known is None:
                return False
            with without_capture():
                value = known.item()
        return isinstance(value, (int, float)) and value <= _MASKED

    def _count(self, mask: Tensor, scores: Tensor, masked: int | None) -> int:
        # A mask of floats is added to the scores. In a mask of bools, elements equal to ``masked`` are excluded.
        known = self._values.of(mask)
        if known is None or not known.numel():
            return 0
        with without_capture():
            known = _without_repeats(known)
        key = (known.data_ptr(), known.shape, known.stride(), masked)
        if key not in self._counted:
            with without_capture():
                count = int((known <= _MASKED).sum() if masked is None else (known == masked).sum())
            self._counted[key] = known, count
        return int(self._counted[key][1] * (scores.numel() // known.numel()))


def pairs_in_blocks(values: Values, mask: Sequence[Any], rows: int) -> int | None:
    """Return the number of pairs in the blocks that ``flex_attention`` computes; None if it is unknown.

    Args:
        values: the known values of meta tensors.
        mask: the block mask as the operator takes it: lengths, numbers and indices of blocks, and their sizes.
        rows: the number of queries over all heads and samples.
    """
    counts = [x for x in mask[2:6:2] if isinstance(x, Tensor)]
    sizes = [x for x in mask[6:] if isinstance(x, int)][-2:]
    known = [values.of(x) for x in counts]
    if len(sizes) < 2 or not known or any(x is None for x in known):
        return None
    with without_capture():
        blocks = sum(int(x.sum()) for x in known if x is not None)
    heads_of_mask = int(counts[0].shape[:-1].numel())
    return blocks * sizes[0] * sizes[1] * rows // max(heads_of_mask * int(mask[0]), 1)
