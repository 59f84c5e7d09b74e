"""The interface of frontends: specification, required functions, and optional abilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from costcore.trace.run import Recorder
from costcore.translate import Row

MOST_VALUES = 2**20
"""The maximum elements of a tensor with known values: a mask of 1,024 by 1,024 positions."""


class FrontendSpec(NamedTuple):
    """The description of a frontend, to import it on demand.

    Attributes:
        name: its name in arguments, reports and messages, ``pytorch``.
        framework: the framework's top-level module, ``torch``.
        path: the import path of the module that implements :class:`Frontend`.
        suffixes: suffixes of the model files that it reads, ``(".onnx",)``.
        reads: returns whether it reads a file, by its first bytes after decompression, for files without their own
            suffix; called without the framework. None: only the suffix decides.
        options: options of :func:`costcore.estimate` for these files only, each with a help text of a few words. On the
            command line ``dims`` is ``--dim`` and ``shapes`` is ``--shape``; every other option that is not among
            ``values`` is a switch.
        model_options: names of the options of :func:`costcore.estimate` for models that it runs, for messages of other
            frontends.
        native_calculators: whether it calls custom calculators ``calculator(function, inputs, **options)`` itself, with
            the framework's own function and arrays (:attr:`Recorder.native_calculators`).
        computes: whether a pass computes values, so that large inputs take time and memory.
        tf32: float32 operators that run in TF32 by default in the framework: ``conv``, ``matmul``.
        models: the models that it supports, for messages: ``("a torch.nn.Module",)``.
        libraries: prefixes of library targets, ``timm:resnet50``, for its ability ``library_model``.
        unhooked: what to do instead of :class:`costcore.ComputationalCostHook`, as a sentence, if the framework runs
            code that :meth:`Frontend.capture` cannot record; the hook says so if it recorded nothing.
        abilities: optional functions: the import path, ``package.module:function``, by name among :data:`ABILITIES`.
            They are imported on demand.
        reads_folder: returns whether it reads the files of a folder as one model; called without the framework.
        values: parsers of option values on the command line: ``{"trips": int}``.
        is_run: whether the model of a file is run on inputs, like code: named sizes need several runs, and the bytes of
            a file are not accepted.
        runs_functions: whether a function is a model of this framework if no frontend recognizes the calls in it.
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
    abilities: Mapping[str, str] = MappingProxyType({})
    reads_folder: Callable[[str], bool] | None = None
    is_run: bool = False
    values: Mapping[str, Callable[[str], Any]] = MappingProxyType({})
    runs_functions: bool = False


class Frontend(Protocol):
    """The module that a :class:`FrontendSpec` refers to. Importing it imports its framework."""

    ROWS: Iterable[Row]

    def capture(self, recorder: Recorder) -> AbstractContextManager[object] | None:
        """Return a context that records the calls of this framework, or None.

        None is for frameworks that run nothing (ONNX), or cannot be recorded (:attr:`FrontendSpec.unhooked`).
        """

    def accepts(self, model: object) -> bool:
        """Return True if :meth:`estimate` supports this model."""

    def estimate(self, recorder: Recorder, model: Any, inputs: Any, **options: Any) -> None:
        """Record the calls of one pass of ``model``.

        Its options are the keyword parameters after ``inputs`` and :attr:`FrontendSpec.options`. The engine refuses
        any other option before the call.
        """

    def native_names(self, op: object) -> tuple[str, ...]:
        """Return the full names (see :attr:`Call.operator`) of an operator in any form that users write.

        The tuple is empty if the operator does not belong to this framework.
        """


class LibraryModel(Protocol):
    """The ability ``library_model``: make a model of a library in :attr:`FrontendSpec.libraries`."""

    def __call__(self, prefix: str, name: str) -> tuple[Any, str]:
        """Return a model without weights, and a remark on it or ``""``."""


class DefaultInputs(Protocol):
    """The ability ``default_inputs``: default inputs of a library model."""

    def __call__(self, model: Any, name: str) -> Any:
        """Return an object with ``inputs`` for :func:`costcore.estimate` and their ``source``; None if unknown.

        Args:
            model: the model.
            name: the last word of its target, perhaps its name in the library.
        """


class CachedModelOf(Protocol):
    """The ability ``cached_model``: run a language model after cached tokens, for ``ServingReport``."""

    def __call__(self, model: Any, cache: str, dtype: str | None) -> Any:
        """Return a :class:`costcore.studies.serving.cached_model.CachedModel`.

        Args:
            model: the model.
            cache: ``dynamic``, or the name of a cache of a plug-in.
            dtype: the dtype of its weights; None for their own.
        """


class PassesOf(Protocol):
    """The ability ``passes_of``: count the passes of a model in training, for ``MFUMeter``."""

    def __call__(self, model: Any, is_compiled: bool) -> Any:
        """Return the :class:`costcore.studies.meter.Passes` of a model, compiled or not."""


class Calibrate(Protocol):
    """The ability ``calibrate``: measure a device, for ``costcore calibrate``."""

    def __call__(self, device: str, dtype: str, threads: int, quick: bool, seed: int) -> tuple[Any, Any]:
        """Return a :class:`costcore.analyses.timing.calibration.Calibration` and the conditions of the measurement."""


class DistributionOf(Protocol):
    """The ability ``distribution``: distribute a model over devices, for :func:`costcore.plan`."""

    def __call__(self, model: Any) -> Any:
        """Return an object that distributes a model.

        It has these attributes:

        * ``kinds``: a number per repeated block of the model, equal for blocks with equal parameters; empty without
          blocks. ``kind``: the name of their class.
        * ``width``: whether tensor parallelism is possible. ``experts``: the number of experts that devices can
          share; 0 without any.
        * ``plan(kinds, gradients, fsdp, tp, cp, ep)``: a method that returns the option ``plan`` of
          :func:`costcore.estimate`, with the option ``mesh`` as its attribute, for a model with blocks of these kinds
          (None: all of its blocks) and these sizes of the mesh. After the estimate, its attribute ``expert_parameters``
          counts the expert parameters of a rank, and ``blocks`` lists the paths of the blocks. ``gradients`` holds the
          accumulated gradients of an estimate with ``step="accumulated"``, for further plans of these sizes: they save
          its first pass.
        """


class ScheduleOf(Protocol):
    """The ability ``schedule``: the kernels of a compiled model, for ``report.kernels``."""

    def __call__(self, model: Any, inputs: Any) -> Any:
        """Return the :class:`costcore.analyses.fusion.kernels.Schedule` of a forward pass on these inputs."""


class ProcessSettings(Protocol):
    """The ability ``process_settings``: the process-wide settings of the framework."""

    def __call__(self) -> object:
        """Return an object that compares unequal after changes that may affect the cost of later models."""


class WithoutGpu(Protocol):
    """The ability ``without_gpu``: run code that makes a model for a GPU on a machine without one."""

    def __call__(self, error: BaseException | None) -> AbstractContextManager[None] | None:
        """Return a context for another attempt; None if the error has another reason than the missing GPU."""


class Finetuned(Protocol):
    """The ability ``finetuned``: a model with adapters, see :func:`costcore.finetuned`."""

    def __call__(self, model: Any, rank: int, targets: Sequence[str], kind: str, base: str | None) -> Any:
        """Return the model; the given one is not changed."""


class RankWorkOf(Protocol):
    """The ability ``rank_work``: the work of one rank in its trace, for :func:`costcore.profile_ranks`."""

    def __call__(self, path: str, profiler_step: int | None) -> Any:
        """Return the :class:`costcore.studies.ranks.RankWork` of a file."""


ABILITIES = {
    "library_model": LibraryModel,
    "default_inputs": DefaultInputs,
    "cached_model": CachedModelOf,
    "passes_of": PassesOf,
    "calibrate": Calibrate,
    "distribution": DistributionOf,
    "process_settings": ProcessSettings,
    "schedule": ScheduleOf,
    "without_gpu": WithoutGpu,
    "finetuned": Finetuned,
    "rank_work": RankWorkOf,
}
"""The protocols of optional functions by name of the ability."""
