"""The arrays of a run: tensors, and ids of values, memory and parameters; also the stack, and names of functions."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import FrameType
from typing import Any, Generic, TypeAlias, TypeVar

import chainer
import numpy
from chainer import FunctionNode, _backprop, function_node

from costcore.ir import Role, Tensor
from costcore.trace.run import Recorder

V = TypeVar("V")

Bounds: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """An array with the shape it has as an operand of the canonical operator."""

    array: Any
    shape: tuple[int, ...]


def array_of(value: Any) -> Any:
    """Return the array in a :class:`Reshaped` or a ``chainer.Variable``; any other value as it is."""
    if isinstance(value, Reshaped):
        return value.array
    return value.array if isinstance(value, chainer.Variable) else value


def is_array(value: object) -> bool:
    """Return True if ``value`` is an array of one of the libraries that Chainer computes with."""
    return isinstance(value, chainer.get_array_types())


def tensor(value: Any, role: Role) -> Tensor | None:
    """Return the tensor of an array, a scalar constant for a number, None for any other value."""
    array = array_of(value)
    if is_array(array):
        return Tensor(tuple(value.shape), array.dtype.name, role)
    if isinstance(array, (bool, int, float, complex, numpy.generic)):
        return Tensor((), numpy.result_type(array).name, "const")
    return None


class _ByIdentity(Generic[V]):
    """Maps objects to values while the objects live; a new object at the address of an old one is a new key."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, key: Any) -> V | None:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def get_or_create(self, key: Any, create: Callable[[], V]) -> V:
        """Return the value of ``key``, created at first use; a key without weak references (a number) keeps none."""
        value = self.get(key)
        if value is None:
            value = create()
            try:
                self._entries[id(key)] = (weakref.ref(key), value)
            except TypeError:
                return value
        return value


@dataclass(slots=True)
class _Parameter:
    size: int
    id: int | None = None


class ArrayIds:
    """The ids of the arrays of one run. Holds only weak references to the arrays.

    Args:
        recorder: the source of new ids.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._operands: _ByIdentity[int] = _ByIdentity()
        self._results: _ByIdentity[bool] = _ByIdentity()
        self._storages: _ByIdentity[int] = _ByIdentity()
        self._parameters: _ByIdentity[dict[Bounds, _Parameter]] = _ByIdentity()

    def operand(self, value: Any) -> int:
        """Return the id of a value; one array object is one value."""
        return self._operands.get_or_create(array_of(value), self._recorder.new_id)

    def result(self, value: Any) -> int:
        """Return the id of a value, and note that this run computed it."""
        self._results.get_or_create(array_of(value), bool)
        return self.operand(value)

    def is_result(self, value: Any) -> bool:
        """Return True if this run computed the value."""
        return self._results.get(array_of(value)) is not None

    def storage(self, value: Any) -> int:
        """Return the id of the memory of a value; views share it."""
        return self._storages.get_or_create(owner(array_of(value)), self._recorder.new_id)

    def add_parameter(self, array: Any) -> None:
        """Note that ``array`` is a learned parameter."""
        of_memory = self._parameters.get_or_create(owner(array), dict)
        of_memory.setdefault(bounds(array), _Parameter(prod(array.shape)))

    def is_parameter(self, value: Any) -> bool:
        """Return True if the value is a learned parameter, or a view into one."""
        return self._parameter(array_of(value)) is not None

    def parameter(self, value: Any) -> int:
        """Return the id of a learned parameter, which is the same for every view into it."""
        array = array_of(value)
        found = self._parameter(array)
        if found is None:
            self.add_parameter(array)
            found = self._parameter(array) or _Parameter(prod(array.shape))
        if found.id is None:
            found.id = self._recorder.parameter(found.size)
        return found.id

    def _parameter(self, array: Any) -> _Parameter | None:
        of_memory = self._parameters.get(owner(array))
        if of_memory is None:
            return None
        low, high = bounds(array)
        return next((found for (start, end), found in of_memory.items() if start <= low and high <= end), None)


def owner(array: Any) -> Any:
    """Return the array that owns the memory of ``array``: itself, or the one it is a view of."""
    while is_array(base := getattr(array, "base", None)):
        array = base
    return array


def bounds(array: Any) -> Bounds:
    """Return the first address of an array's memory and the address after its last."""
    on_cpu = isinstance(array, numpy.ndarray)
    start: int = array.__array_interface__["data"][0] if on_cpu else array.data.ptr
    spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True) if size]
    low, high = sum(span for span in spans if span < 0), sum(span for span in spans if span > 0)
    return start + low, start + high + array.itemsize


# The Python stack: it shows the running code even after an exception.


BACKWARD_LOOPS = (_backprop._backprop_to_all.__code__, function_node._backprop.__code__)
"""The two loops of Chainer that run a backward pass: of ``backward`` and of ``grad``."""


def frames() -> Iterator[FrameType]:
    """Iterate over the frames of the stack, innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def running_function_requires_gradient() -> bool:
    """Return whether a backward pass can follow the function that runs forward now."""
    if not chainer.config.enable_backprop:
        return False
    running = next((frame for frame in frames() if frame.f_code is FunctionNode.apply.__code__), None)
    return running is not None and any(variable.requires_grad for variable in running.f_locals["input_vars"])


def current_phase() -> str:
    """Return the running phase: ``forward``, ``backward``, or ``recompute``, a forward pass repeated in backward."""
    if chainer.config.in_recomputing:
        return "recompute"
    return "backward" if any(frame.f_code in BACKWARD_LOOPS for frame in frames()) else "forward"


# Names of Chainer's functions in reports and tables.


PREFIX = "chainer::"

ALIASES: Mapping[str, str] = {"MaxPooling2D": "MaxPoolingND"}
"""Classes of older versions of Chainer, and their replacements in 7.8.1."""


def function_of(node: Any) -> Any:
    """Return the function that a node of the graph computes: itself, or the old-style function it adapts."""
    return node.function if isinstance(node, chainer.FunctionAdapter) else node


def native_name(function: type) -> str:
    """Return the full name of a function class, ``chainer::ReLU``, ``mylib::MyFunction``: package and class name."""
    return f"{function.__module__.partition('.')[0]}::{function.__name__}"


def function_classes() -> Iterable[type]:
    """Return every function class defined so far, new-style and old-style, Chainer's and users'."""
    todo: list[type] = [chainer.FunctionNode, chainer.Function]
    classes: set[type] = set()
    while todo:
        subclasses: list[type] = todo.pop().__subclasses__()
        for subclass in subclasses:
            if subclass not in classes:
                classes.add(subclass)
                todo.append(subclass)
    return classes


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of a Chainer function; () if ``op`` is not one.

    Args:
        op: a function class (``F.math.basic_math.Add``), its name (``"Add"``; ``"MaxPooling2D"`` of older versions
            means ``MaxPoolingND``), or its full name (``"chainer::Add"``, ``"mylib::MyFunction"``).
    """
    if isinstance(op, type):
        return (native_name(op),) if issubclass(op, (chainer.FunctionNode, chainer.Function)) else ()
    if not isinstance(op, str):
        return ()
    bare = op.removeprefix(PREFIX)
    full = op if "::" in bare else PREFIX + ALIASES.get(bare, bare)
    return (full,) if any(native_name(function) == full for function in function_classes()) else ()
