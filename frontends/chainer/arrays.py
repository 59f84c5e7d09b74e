"""What the arrays of a run are: their shapes and types, and which of them are the same value, memory or parameter."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, TypeAlias, TypeVar

import chainer
import numpy

from costcore.ir import Role, Tensor
from costcore.trace.recorder import Recorder

V = TypeVar("V")
Bounds: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """An array seen in another shape than its own, as an operand of the operation as it is defined."""

    array: Any
    shape: tuple[int, ...]


def array_of(value: Any) -> Any:
    """The array behind a :class:`Reshaped` or a ``chainer.Variable``; anything else as it is."""
    if isinstance(value, Reshaped):
        return value.array
    return value.array if isinstance(value, chainer.Variable) else value


def is_array(value: object) -> bool:
    """Whether ``value`` is an array of one of the libraries that Chainer computes with."""
    return isinstance(value, chainer.get_array_types())


def tensor(value: Any, role: Role) -> Tensor | None:
    """Shape and type of an array, numbers as scalar constants; None for what is neither."""
    array = array_of(value)
    if is_array(array):
        return Tensor(tuple(value.shape), array.dtype.name, role)
    if isinstance(array, (bool, int, float, complex, numpy.generic)):
        return Tensor((), numpy.result_type(array).name, "const")
    return None


class _ByIdentity(Generic[V]):
    """Values kept for objects as long as these live; a new object at an old address is a new object."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, key: Any) -> V | None:
        entry = self._found.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def get_or_make(self, key: Any, make: Callable[[], V]) -> V:
        """The value kept for ``key``, made at first; made every time for what cannot be watched (numbers)."""
        value = self.get(key)
        if value is None:
            value = make()
            try:
                self._found[id(key)] = (weakref.ref(key), value)
            except TypeError:
                return value
        return value


@dataclass(slots=True)
class _Parameter:
    size: int
    identity: int | None = None


class Arrays:
    """Who is who among the arrays of one run. Holds none of them.

    Args:
        recorder: gives the ids.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._operands: _ByIdentity[int] = _ByIdentity()
        self._results: _ByIdentity[bool] = _ByIdentity()
        self._storages: _ByIdentity[int] = _ByIdentity()
        self._parameters: _ByIdentity[dict[Bounds, _Parameter]] = _ByIdentity()

    def operand(self, value: Any) -> int:
        """The id of a value; one array object is one value."""
        return self._operands.get_or_make(array_of(value), self._recorder.new_id)

    def result(self, value: Any) -> int:
        """The id of a value that this run computed."""
        self._results.get_or_make(array_of(value), bool)
        return self.operand(value)

    def is_result(self, value: Any) -> bool:
        """Whether this run computed the value."""
        return self._results.get(array_of(value)) is not None

    def storage(self, value: Any) -> int:
        """The id of the memory behind a value; views share it."""
        return self._storages.get_or_make(owner(array_of(value)), self._recorder.new_id)

    def learn(self, array: Any) -> None:
        """Remember that ``array`` is a learned parameter."""
        known = self._parameters.get_or_make(owner(array), dict)
        known.setdefault(bounds(array), _Parameter(prod(array.shape)))

    def is_parameter(self, value: Any) -> bool:
        """Whether the value is a learned parameter, or a view into one."""
        return self._parameter(array_of(value)) is not None

    def parameter(self, value: Any) -> int:
        """The id of a learned parameter, the same for every view into it."""
        array = array_of(value)
        found = self._parameter(array)
        if found is None:
            self.learn(array)
            found = self._parameter(array) or _Parameter(prod(array.shape))
        if found.identity is None:
            found.identity = self._recorder.parameter(found.size)
        return found.identity

    def _parameter(self, array: Any) -> _Parameter | None:
        known = self._parameters.get(owner(array))
        if known is None:
            return None
        low, high = bounds(array)
        return next((found for (start, end), found in known.items() if start <= low and high <= end), None)


def owner(array: Any) -> Any:
    """The array that owns the memory of ``array``, itself or the one it is a view of."""
    while is_array(base := getattr(array, "base", None)):
        array = base
    return array


def bounds(array: Any) -> Bounds:
    """The first address of an array's memory and the one after its last."""
    on_cpu = isinstance(array, numpy.ndarray)
    start: int = array.__array_interface__["data"][0] if on_cpu else array.data.ptr
    spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True) if size]
    low, high = sum(span for span in spans if span < 0), sum(span for span in spans if span > 0)
    return start + low, start + high + array.itemsize
