"""Reads the events of a trace of ``torch.profiler`` (Kineto)."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from sys import intern
from typing import Any

from .records import (
    Argument,
    Constant,
    Kernel,
    Launch,
    ListArgument,
    Missing,
    Op,
    Recorded,
    Span,
    TensorArgument,
    Thread,
)

WORK = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
"""The categories of work of the device, in lower case, and what kind of work they are."""

DETAILS = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "kernel_backend")
"""What events of collectives and Triton kernels say besides their arguments."""

MODULE = "nn.Module: "

_FRAME = re.compile(r"(.+)\((\d+)\): (.+)")
_NO_USER_CODE = re.compile(
    r"(^|/)(torch|site-packages|dist-packages|importlib|python3\.\d+)/|^<|^(contextlib|threading)\.py"
)
_LISTS = frozenset(("TensorList", "GenericList"))
_NUMBERS = frozenset(("Scalar", "ScalarList"))
_NOTHING = frozenset(("", "None"))


MOST_BAD = 10**5
"""The most events without a valid time, besides as many as are valid."""


class KinetoReader:
    """Takes the events of a file one at a time.

    Attributes:
        recorded: what was read.
        is_no_trace: whether most of many events have no valid time.
    """

    def __init__(self) -> None:
        self.recorded = Recorded()
        self._arguments: dict[Any, tuple[Argument, ...]] = {}
        self._places: dict[Thread, Thread] = {}
        self._lines: dict[str, str] = {}
        self._n_bad = 0
        self.is_no_trace = False

    def add_head(self, key: str, value: Any) -> None:
        """Take a value of the file beside its events."""
        if key == "deviceProperties" and isinstance(value, list):
            names = [each.get("name") for each in value if isinstance(each, dict)]
            self.recorded.device = next((name for name in names if isinstance(name, str) and name), "")

    def add(self, event: Any) -> None:
        """Take one event; events that are not of a span are left out."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        category, name = event.get("cat"), event.get("name")
        if not isinstance(category, str) or not isinstance(name, str):
            return
        start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur", 0))
        if start is None or length is None or length < 0:
            self._n_bad += 1
            self.is_no_trace = self._n_bad > MOST_BAD + len(self.recorded.ops) + len(self.recorded.kernels)
            return
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        thread = self._place(event.get("pid"), event.get("tid"))
        if category in ("cpu_op", "Operator"):
            self._add_op(intern(name), args, start, start + length, thread)
        elif category == "python_function":
            self._add_python(name, start, start + length, thread)
        elif category == "user_annotation":
            self.recorded.annotations.setdefault(thread, []).append(Span(start, start + length, intern(name)))
        elif (kind := WORK.get(category.lower())) is not None:
            stream = self._place(args.get("device", thread[0]), args.get("stream", thread[1]))
            number, external = _number(args, "correlation"), _number(args, "External id")
            self.recorded.kernels.append(Kernel(intern(name), kind, start, start + length, stream, number, external))
        elif category.lower().endswith(("runtime", "driver")) and (number := _number(args, "correlation")) >= 0:
            kernel = args.get("kernel")
            kernel = intern(kernel) if isinstance(kernel, str) else ""
            self.recorded.launches[number] = Launch(intern(name), thread, start, kernel)

    def finish(self) -> Recorded:
        """Return what was read."""
        if self._n_bad:
            self.recorded.remarks.append(f"{self._n_bad:,} events without a valid time were left out")
        return self.recorded

    def _place(self, outer: Any, inner: Any) -> Thread:
        """Return a thread or a stream; one object for all events there."""
        place = _id(outer), _id(inner)
        return self._places.setdefault(place, place)

    def _add_op(self, name: str, args: dict[str, Any], start: int, end: int, thread: Thread) -> None:
        arguments = None
        if isinstance(args.get("Input Dims"), list) or isinstance(args.get("Input type"), list):
            arguments = self._arguments_of(args)
            self.recorded.has_shapes = True
        details = {key: args[key] for key in DETAILS if key in args} or None
        sequence, external = _number(args, "Sequence number"), _number(args, "External id")
        op = Op(name, arguments, start, end, thread, sequence, external, details=details)
        number = _number(args, "Record function id")
        if number > 0:
            op.details = {**(details or {}), "rf_id": number}
        self.recorded.ops.append(op)

    def _add_python(self, name: str, start: int, end: int, thread: Thread) -> None:
        if name.startswith(MODULE):
            span = Span(start, end, intern(name.removeprefix(MODULE)))
            self.recorded.modules.setdefault(thread, []).append(span)
            return
        line = self._lines.get(name)
        if line is None:
            found = _FRAME.fullmatch(name)
            is_user = found is not None and not _NO_USER_CODE.search(found[1])
            line = f'  File "{found[1]}", line {found[2]}, in {found[3]}\n' if found and is_user else ""
            self._lines[name] = line
        if line:
            self.recorded.frames.setdefault(thread, []).append(Span(start, end, line))

    def _arguments_of(self, args: dict[str, Any]) -> tuple[Argument, ...]:
        """Return the arguments of an event; one object for all events with equal ones."""
        columns = [args.get(key) for key in ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")]
        key = repr(columns)
        found = self._arguments.get(key)
        if found is None:
            found = self._arguments[key] = arguments_of(*(x if isinstance(x, list) else None for x in columns))
        return found


def arguments_of(
    types: Sequence[Any] | None,
    dims: Sequence[Any] | None,
    strides: Sequence[Any] | None,
    concrete: Sequence[Any] | None,
) -> tuple[Argument, ...]:
    """Return the arguments in the four columns of an event; old files lack the last two."""
    n = max(len(types or ()), len(dims or ()))
    rows = zip(*(_filled(column, n) for column in (types, dims, strides, concrete)), strict=True)
    return tuple(_argument(*row) for row in rows)


def _filled(column: Sequence[Any] | None, n: int) -> list[Any]:
    column = column or ()
    return [*column[:n], *[None] * (n - len(column))]


def _argument(kind: Any, dims: Any, strides: Any, concrete: Any) -> Argument:
    kind = kind if isinstance(kind, str) else ""
    if kind in _LISTS and isinstance(dims, list):
        given = strides if isinstance(strides, list) else []
        items = zip(dims, _filled(given, len(dims)), strict=False)
        return ListArgument(tuple(TensorArgument(_ints(x), _strides(x, y), "") for x, y in items if _is_shape(x)))
    if kind in _NUMBERS:
        return Constant(literal(concrete)) if isinstance(concrete, str) and concrete else Missing(is_given=True)
    if kind in _NOTHING:
        return Constant(literal(concrete)) if isinstance(concrete, str) and concrete else Missing()
    if not _is_shape(dims):
        return Missing(is_given=True)
    return TensorArgument(_ints(dims), _strides(dims, strides), intern(kind))


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int for x in value)


def _ints(value: Sequence[Any]) -> tuple[int, ...]:
    return tuple(value)


def _strides(dims: Any, value: Any) -> tuple[int, ...] | None:
    return tuple(value) if dims and _is_shape(value) and len(value) == len(dims) else None


def literal(text: str) -> Any:
    """Return the value that a text of ``Concrete Inputs`` states; the text itself if it states another thing."""
    if len(text) > 100_000:
        return text
    try:
        return ast.literal_eval(re.sub(r"\b(inf|nan)\b", "1e999", text) if "n" in text else text)
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return text


def nanoseconds(value: Any) -> int | None:
    """Return a time in microseconds as whole nanoseconds; None if it is not a number."""
    if type(value) is int and abs(value) < 10**18:
        return value * 1000
    if type(value) is float and abs(value) < 1e18:
        return round(value * 1000)
    return None


def _number(args: dict[str, Any], key: str) -> int:
    value = args.get(key)
    return value if type(value) is int and 0 <= value < 2**63 else -1


def _id(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else 0
