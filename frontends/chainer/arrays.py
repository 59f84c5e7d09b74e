"""The arrays of a run, and the arguments of its functions.

The module converts arrays to tensors, assigns ids of values, memory and parameters, inspects the Python stack, and
names functions.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import FrameType
from typing import Any, Generic, TypeAlias, TypeVar

import chainer
import numpy
from chainer import FunctionNode, _backprop, function_node

from costcore.ir import Role, Tensor
from costcore.trace.run import Recorder
from costcore.translate import Arguments, Row, Source

V = TypeVar("V")

Bounds: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """An array, reshaped as an operand of the canonical operator."""

    array: Any
    shape: tuple[int, ...]


def array_of(value: Any) -> Any:
    """Unwrap a :class:`Reshaped` or a ``chainer.Variable``; return any other value unchanged."""
    if isinstance(value, Reshaped):
        return value.array
    return value.array if isinstance(value, chainer.Variable) else value


def is_array(value: object) -> bool:
    """Return True if ``value`` is an array of a library that Chainer supports."""
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
    """Maps objects to values while the objects live. A new object at a reused address is a new key."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, key: Any) -> V | None:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def get_or_create(self, key: Any, create: Callable[[], V]) -> V:
        """Return the value of ``key``, created at first use; not stored if the key has no weak references."""
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
        """Return the id of a value, and mark it as computed by this run."""
        self._results.get_or_create(array_of(value), bool)
        return self.operand(value)

    def is_result(self, value: Any) -> bool:
        """Return True if this run computed the value."""
        return self._results.get(array_of(value)) is not None

    def storage(self, value: Any) -> int:
        """Return the id of the memory of a value; views share it."""
        return self._storages.get_or_create(owner(array_of(value)), self._recorder.new_id)

    def add_parameter(self, array: Any) -> None:
        """Mark ``array`` as a learned parameter."""
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


# The Python stack, which shows the running code even after an exception.


BACKWARD_LOOPS = (_backprop._backprop_to_all.__code__, function_node._backprop.__code__)
"""The two loops of Chainer that run a backward pass: of ``backward`` and of ``grad``."""


def frames() -> Iterator[FrameType]:
    """Iterate over the frames of the stack, innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def running_function_requires_gradient() -> bool:
    """Return whether a backward pass may follow for the function in its forward pass."""
    if not chainer.config.enable_backprop:
        return False
    running = next((frame for frame in frames() if frame.f_code is FunctionNode.apply.__code__), None)
    return running is not None and any(variable.requires_grad for variable in running.f_locals["input_vars"])


def current_phase() -> str:
    """Return the current phase; ``recompute`` is a forward pass inside a backward pass."""
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


# Sources of operands and attributes in the arguments of a Chainer function.
#
# The arguments of a function are:
#
# * ``function``: the function object, with its options as attributes;
# * ``inputs``: its input arrays, in Chainer's order;
# * ``origin``: the function whose backward pass runs this one; None in the forward pass;
# * ``gradients``: the gradients of its outputs, only for a backward pass that no other function computes.

ARGUMENTS = ("function", "inputs", "origin", "gradients")
"""The names of all arguments."""


def row(name: str, op: str | Callable[[Arguments], str], inputs: Mapping[str, Source], **attrs: Source) -> Row:
    """Return the row of one of Chainer's own functions."""
    return Row(PREFIX + name, op, inputs, attrs)


def rows_by_name(ops: Mapping[str, str], inputs: Mapping[str, Source], **attrs: Source) -> Iterable[Row]:
    """Return the rows of functions that differ only in name: canonical operators by Chainer's names."""
    return [row(name, op, inputs, **attrs) for name, op in ops.items()]


def input_at(index: int) -> Source:
    """Read the input at a position; None if the function has fewer inputs."""
    return lambda args: args["inputs"][index] if index < len(args["inputs"]) else None


def operands(*names: str) -> Mapping[str, Source]:
    """Map the inputs, in order, to operands of these names."""
    return {name: input_at(i) for i, name in enumerate(names)}


def output_gradient(index: int) -> Source:
    """Read the gradient of the output at a position; None if it was not computed."""
    return lambda args: args["gradients"][index] if index < len(args["gradients"]) else None


X = operands("x")
X0_X1 = operands("x0", "x1")
DY = operands("dy")
X_DY = operands("x", "dy")
Y_DY = operands("y", "dy")
ALL_INPUTS: Mapping[str, Source] = {"x*": "inputs"}


def attribute(name: str) -> Source:
    """Read an attribute of the function object; None if it has none of that name."""
    return lambda args: getattr(args["function"], name, None)


def attributes(*names: str) -> Source:
    """Read several attributes of the function object as a tuple."""
    return lambda args: tuple(getattr(args["function"], name) for name in names)


def array_attribute(name: str) -> Source:
    """Read an attribute of the function object; None if it does not hold an array."""

    def read(args: Arguments) -> Any:
        value = array_of(getattr(args["function"], name, None))
        return value if is_array(value) else None

    return read


def with_saved_array(name: str) -> Callable[[Arguments, Sequence[Any]], Sequence[Any]]:
    """Return the outputs, and the array saved in an attribute if a backward pass can follow.

    The array is also an output of a function called with ``return_indices``.
    """

    def read(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
        function = args["function"]
        if getattr(function, "return_indices", False) or running_function_requires_gradient():
            return (*outputs, getattr(function, name, None))
        return outputs

    return read


def constant(value: Any) -> Source:
    """Return the same value for every call."""
    return lambda args: value


def axis(args: Arguments) -> int | None:
    """Read the attribute ``axis`` as a non-negative axis."""
    return non_negative_axis(args["function"].axis, args["inputs"][0].ndim)


def axes(args: Arguments) -> tuple[int, ...]:
    """Read the attribute ``axis`` as a tuple of non-negative axes; all axes if it is None."""
    given, ndim = args["function"].axis, args["inputs"][0].ndim
    if given is None:
        return tuple(range(ndim))
    return tuple(i % ndim for i in (given if isinstance(given, tuple) else (given,)))


def non_negative_axis(given: int | None, ndim: int) -> int | None:
    """Return the non-negative number of an axis; None stays None."""
    return None if given is None else given % max(ndim, 1)


WINDOW_2D: Mapping[str, Source] = {
    "kernel": attributes("kh", "kw"),
    "stride": attributes("sy", "sx"),
    "padding": attributes("ph", "pw"),
}
"""The sliding window of functions with two spatial dimensions."""


def pooling_attribute(name: str) -> Source:
    """Read an attribute, or an array, of the pooling function of this gradient."""
    return lambda args: array_of(getattr(args["function"].func, name))


def index_arrays(args: Arguments) -> list[Any]:
    """Return the arrays among the indices of ``x[...]``; a list of integers becomes an array."""
    return [
        numpy.asarray(index) if isinstance(index, list) else index
        for index in args["function"].slices
        if is_array(index) or isinstance(index, list)
    ]
