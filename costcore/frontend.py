"""What a frontend is to the engine: where it lives, and the four things it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from costcore.trace.recorder import Recorder
from costcore.translate import Row


class FrontendSpec(NamedTuple):
    """Where a frontend is found.

    Attributes:
        name: the word users and reports know it by, ``pytorch``.
        framework: the framework's top-level module, ``torch``.
        path: the frontend's import path.
        suffixes: file names it reads end so, ``(".onnx",)``.
        options: arguments of :func:`costcore.estimate` that only the files it reads take, and what each does, in a few
            words. ``dims`` and ``shapes`` are ``--dim`` and ``--shape`` on the command line; others are switches there.
        native_calculators: whether it calls custom calculators ``calculator(function, inputs, **options)`` itself, with
            the framework's own function and arrays (:attr:`Recorder.native_calculators`).
    """

    name: str
    framework: str
    path: str
    suffixes: tuple[str, ...] = ()
    options: Mapping[str, str] = MappingProxyType({})
    native_calculators: bool = False


class Frontend(Protocol):
    """The module behind a :class:`FrontendSpec`. Importing it imports its framework."""

    ROWS: Iterable[Row]

    def capture(self, recorder: Recorder) -> AbstractContextManager[object] | None:
        """Record whatever this framework runs inside the context; None where the framework runs nothing (ONNX)."""

    def accepts(self, model: object) -> bool:
        """Whether :meth:`estimate` takes this model."""

    def estimate(self, recorder: Recorder, model: Any, inputs: Any, **options: Any) -> None:
        """Record the calls of one pass of ``model``; an option it does not know is a TypeError naming those it does."""

    def native_names(self, op: object) -> tuple[str, ...]:
        """The full names (as in :attr:`Call.native`) of an operator in any form users write it; () if not ours."""
