"""The interface of frontends: where a frontend is found, and the functions that it provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from costcore.trace.recorder import Recorder
from costcore.translate import Row

MOST_VALUES = 2**20
"""The most elements of a tensor whose values a frontend may keep: a mask of 1,024 by 1,024 positions."""


class FrontendSpec(NamedTuple):
    """The description of a frontend, from which it is imported when it is needed.

    Attributes:
        name: its name in arguments, reports and messages, ``pytorch``.
        framework: the framework's top-level module, ``torch``.
        path: the import path of the module that implements :class:`Frontend`.
        suffixes: suffixes of the model files that it reads, ``(".onnx",)``.
        reads: returns whether it reads a file, by its first bytes after decompression, for files without a suffix of
            their own; it is called without the framework. None: only the suffix decides.
        options: options of :func:`costcore.estimate` for these files only, each with a help text of a few words. On the
            command line ``dims`` is ``--dim`` and ``shapes`` is ``--shape``; every other option is a switch.
        model_options: names of the options of :func:`costcore.estimate` for models that it runs, so that messages of
            other frontends can name it.
        native_calculators: whether it calls custom calculators ``calculator(function, inputs, **options)`` itself, with
            the framework's own function and arrays (:attr:`Recorder.native_calculators`).
        computes: whether a pass computes values, so that large inputs take time and memory.
        tf32: products of float32 that the framework's default settings let run in TF32: ``conv``, ``matmul``.
        models: the models that it supports, for messages: ``("a torch.nn.Module",)``.
        libraries: prefixes of the targets, ``timm:resnet50``, whose models it makes by its function
            ``library_model(prefix, name)``, which returns a model and a remark on it, or ``""``. Such a frontend also
            has ``usual_inputs(model, name)``, which returns ``inputs`` for :func:`costcore.estimate` and their
            ``source``, or None.
        unhooked: what to do instead of :class:`costcore.ComputationalCostHook`, as a sentence, if the framework runs
            code that :meth:`Frontend.capture` cannot record; the hook says so if it recorded nothing.
    """

    name: str
    framework: str
    path: str
    suffixes: tuple[str, ...] = ()
    options: Mapping[str, str] = MappingProxyType({})
    native_calculators: bool = False
    model_options: tuple[str, ...] = ()
    computes: bool = False
    tf32: tuple[str, ...] = ("conv", "matmul")
    models: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    unhooked: str = ""
    reads: Callable[[bytes], bool] | None = None


class Frontend(Protocol):
    """The module that a :class:`FrontendSpec` refers to. Importing it imports its framework."""

    ROWS: Iterable[Row]

    def capture(self, recorder: Recorder) -> AbstractContextManager[object] | None:
        """Return a context that records what this framework runs in it, or None.

        None is for one that runs nothing (ONNX), or nothing that can be recorded (:attr:`FrontendSpec.unhooked`).
        """

    def accepts(self, model: object) -> bool:
        """Return True if :meth:`estimate` supports this model."""

    def estimate(self, recorder: Recorder, model: Any, inputs: Any, **options: Any) -> None:
        """Record the calls of one pass of ``model``.

        Its options are the keyword parameters after ``inputs`` and those in :attr:`FrontendSpec.options`. The engine
        refuses all others before the call.
        """

    def native_names(self, op: object) -> tuple[str, ...]:
        """Return the full names (see :attr:`Call.operator`) of an operator in any form that users write.

        The tuple is empty if the operator does not belong to this framework.
        """
