"""Outputs that compute when their caller reads them: generators and other iterators, futures, functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence, Set, Sized
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from functools import partial
from io import IOBase
from types import AsyncGeneratorType, CoroutineType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from .capture.dispatch_mode import CaptureMode
from .recording.recording import Recording

MAX_ITEMS = 2**16
"""The maximum number of values that are taken from the iterators that one pass returned."""

MAX_CALLS = 2**20
"""The number of calls after which iterators are taken to be endless."""

MAX_DEPTH = 16
"""How many containers and iterators may lie in one another."""

_FUNCTIONS = (FunctionType, MethodType, partial)
_NO_ITERABLES = (Tensor, Module, str, bytes, type, Sized, Mapping, Sequence, Set)


class Consumed(list[Any]):
    """The values of an iterator; also an iterator over them, as the function ``loss`` of a user may take one."""

    _rest: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self._rest is None:
            self._rest = iter([*self])
        return next(self._rest)


class _Consumer:
    """Takes what a caller would take from outputs.

    Args:
        recording: the recording of the run.

    Attributes:
        values: what iterators and futures returned.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.values: list[Any] = []
        self._holders: list[Any] = []
        """The containers around the present value, so that one that contains itself ends."""
        self._first = self._n_calls()

    def _n_calls(self) -> int:
        return max((log.n_calls() for log in self._recording.logs), default=0)

    def consumed(self, value: Any) -> Any:
        """Return an output with a list in place of each iterator; containers change in place."""
        if isinstance(value, (Tensor, Module)) or len(self._holders) > MAX_DEPTH:
            return value
        if any(value is holder for holder in self._holders):
            return value
        self._holders.append(value)
        try:
            return self._consumed(value)
        finally:
            self._holders.pop()

    def _consumed(self, value: Any) -> Any:
        if isinstance(value, _FUNCTIONS):
            self._note(f"the function {_name(value)}")
        elif inspect.isawaitable(value) and not _has_result(value):
            self._note(f"the coroutine {_name(value)}")
            if isinstance(value, CoroutineType):
                value.close()  # Python warns of a coroutine that nobody awaits
        elif isinstance(value, AsyncGeneratorType):
            self._note(f"the asynchronous generator {_name(value)}")
        elif _has_result(value):
            return self._taken(value.result() if isinstance(value, Future) else value.wait())
        elif _is_lazy(value):
            return self._all_of(value)
        else:
            return self._inside(value)
        return value

    def _note(self, what: str) -> None:
        self._recording.assumptions.note(
            f"forward returned {what}, which an estimate does not run: what it computes is not counted"
        )

    def _taken(self, value: Any) -> Any:
        value = self.consumed(value)
        self.values.append(value)
        return value

    def _all_of(self, value: Iterable[Any]) -> Any:
        found, before = Consumed(), self._n_calls()
        iterator = iter(value)
        while len(self.values) < MAX_ITEMS and self._n_calls() - self._first < MAX_CALLS:
            try:
                item = next(iterator)
            except StopIteration:
                is_container = iterator is not value and self._n_calls() == before
                return value if is_container else found
            found.append(self._taken(item))
        self._recording.assumptions.note(
            f"of an iterator that forward returned ({type(value).__name__}) the first {len(self.values):,} values are "
            "counted: it seems to be endless"
        )
        return found

    def _inside(self, value: Any) -> Any:
        """Return a container or object whose items are consumed; anything else as it is."""
        if isinstance(value, MutableMapping):
            for key, item in [*value.items()]:
                if (new := self.consumed(item)) is not item:
                    value[key] = new
        elif isinstance(value, MutableSequence):
            for i, item in enumerate([*value]):
                if (new := self.consumed(item)) is not item:
                    value[i] = new
        elif isinstance(value, tuple):
            items = [self.consumed(item) for item in value]
            if any(new is not old for new, old in zip(items, value, strict=True)):
                return type(value)(items) if type(value) is tuple else type(value)(*items)
        elif isinstance(value, (set, frozenset)):
            for item in value:
                self.consumed(item)
        elif isinstance(value, SimpleNamespace) or is_dataclass(value) or _is_of_user(type(value)):
            self._inside_object(value)
        return value

    def _inside_object(self, value: Any) -> None:
        """Consume the fields of a dataclass, and the iterators among the attributes of any other object."""
        attributes = getattr(value, "__dict__", None)
        has_fields = isinstance(value, SimpleNamespace) or is_dataclass(value)
        names = [field.name for field in fields(value)] if is_dataclass(value) else attributes or ()
        for name in [*names]:
            item = getattr(value, name, None)
            if (has_fields or _is_lazy(item)) and (new := self.consumed(item)) is not item:
                object.__setattr__(value, name, new)


def consume(mode: CaptureMode, model: Module, result: Any) -> Any:
    """Return what a model returned, after its iterators ran to their ends as those of a caller would.

    They run under the modules that made them. What is not run is an assumption: functions, coroutines, and more than
    :data:`MAX_ITEMS` values.

    Args:
        mode: the capture.
        model: the module that ran.
        result: what it returned.
    """
    if isinstance(result, Tensor):
        return result
    recording = mode.recording
    consumer = _Consumer(recording)
    recording.modules.enter(model)
    try:
        result = consumer.consumed(result)
    finally:
        recording.modules.leave()
    if consumer.values:
        recording.record_returned(consumer.values)
        if mode.ledgers:
            mode.note_returned(consumer.values)
    return result


def _is_lazy(value: Any) -> bool:
    """Return whether a value computes its items when they are read."""
    if isinstance(value, Iterator):
        return not isinstance(value, (IOBase, Consumed))
    return _is_of_user(type(value)) and isinstance(value, Iterable) and not isinstance(value, _NO_ITERABLES)


def _has_result(value: Any) -> bool:
    return isinstance(value, (Future, torch.futures.Future, torch._C.Future))


def _is_of_user(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in ("torch", "builtins", "numpy")


def _name(value: Any) -> str:
    while isinstance(value, partial):
        value = value.func
    return str(getattr(value, "__qualname__", type(value).__name__)).rpartition("<locals>.")[2]
