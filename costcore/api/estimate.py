"""Compute the cost of one pass of a model: :func:`estimate`, and loading of models by target (``"net.py:Net"``)."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from math import prod
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from costcore.api.hook import Progress, check_arguments, make_report, warn_about
from costcore.counting import Pricer
from costcore.errors import (
    CHECKPOINT_SUFFIXES,
    READERS_TO_INSTALL,
    CostError,
    CostWarning,
    FileError,
    did_you_mean,
    short_repr,
)
from costcore.files import exists, is_file, read_file
from costcore.ledger.ledger import EVALUATION, TRAIN, mode_of
from costcore.plugins import with_plugin_hint
from costcore.registry import (
    CustomCalculators,
    ability,
    check_options,
    default_inputs,
    frontend_for_file,
    frontend_of,
    is_saved_report,
    is_supported,
    library_model,
    library_target,
    load,
    loaded,
    names_code,
    needed_ability,
    needs_package,
    other_file,
    specs,
)
from costcore.reports.data import ReportData
from costcore.reports.report import Report
from costcore.tables.answer import Content
from costcore.tables.quantity import column_of
from costcore.tables.result import Result, Table
from costcore.text.output import Column
from costcore.trace.call import check_attention
from costcore.trace.interrupts import collector_off
from costcore.trace.run import Recorder
from costcore.trace.trace import Trace, has_names, with_tensors, without_marks

if TYPE_CHECKING:
    from typing import Unpack


@overload
def estimate(
    model: str | bytes | PathLike[str],
    inputs: Any = ...,
    **options: Unpack[FileOptions],
) -> Report: ...


@overload
def estimate(
    model: Any,
    inputs: Any = ...,
    **options: Unpack[ModelOptions],
) -> Report: ...


@overload
def estimate(
    model: Any,
    inputs: Any = ...,
    **options: Any,
) -> Report: ...


def estimate(
    model: Any,
    inputs: Any = None,
    *,
    fma_1flop: bool = True,
    layout: str = "framework",
    tracebacks: bool = False,
    record_api_calls: bool = False,
    calculators: Mapping[Any, Any] | Iterable[Any] | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    attention: Literal["all", "computed"] = "all",
    **options: Any,
) -> Report:
    """Return a report of the cost of one pass of ``model``.

    Args:
        model: one of these:

            * a ``torch.nn.Module`` or ``torch.export.ExportedProgram``. It is traced on the meta device: no weights are
              allocated, nothing is computed.
            * a ``chainer.Link``, which is run once.
            * an ONNX model as a path, bytes or ``ModelProto``. It is read and never run; weights are never loaded.
            * the path of a trace of ``torch.profiler``, or of an execution trace of PyTorch.
            * a library model by name: ``"torchvision:resnet50"``, ``"timm:NAME"``, ``"hf:bert"``. It is made without
              weights. It has default inputs, which are used if none are given.
            * Python code by name: ``"net.py:Net"``, ``"package.module:factory"``. The code is run.
        inputs: one input of the model, or a tuple, list or dict of inputs. Each is one of these:

            * a shape, ``(8, 3, 224, 224)``. A size may be a name, ``("batch", 3, "height", "width")``, or a sum or
              product of names and integers, ``"16*h"``. All dimensions and costs of the report are then exact formulas
              in these names, for :meth:`Report.subs`. The model is traced at about twenty sizes to find the formulas,
              and at further sizes to check them.
            * a shape with a dtype: ``((2, 128), "int64")`` or a :class:`costcore.Tensor`.
            * a tensor or array.
            * a :class:`costcore.Value`, which the model receives unchanged: ``Value([64, 64])`` is a list of two
              integers. Without ``Value``, a list of integers is a shape, unless the signature or the code of the model
              shows that the model expects integers.

            An ONNX file declares the shapes of its inputs; a dict of shapes by input name replaces them.
        fma_1flop: count a fused multiply-add as one FLOP (True) or two (False).
        layout: ``"framework"`` or ``"free"``, see :class:`ComputationalCostHook`.
        tracebacks: store the location in the user's code of every call.
        record_api_calls: record module calls, and the function or symbol with which the code called each operator; see
            :class:`ComputationalCostHook`.
        calculators: calculators (cost formulas) for this run only: a mapping from an operator, a class of modules, a
            function or a ``torch.autograd.Function`` to its calculator, or a list of calculators decorated with
            :func:`costcore.costs`. See :meth:`ComputationalCostHook.add_custom_cost_calculator`.
        progress: a function ``progress(items, description)`` that wraps the items of long loops, for a progress bar.
        strict: raise an error if the status of the report is not ``complete``.
        ranges: the smallest and the largest value of named sizes, ``{"seq": (2, 8192)}``. Formulas are checked at both.
        attention: ``"all"`` counts every pair of a query and a key. ``"computed"`` counts only the pairs that the mask
            allows, for causal masks, block masks and boolean masks with known values; a note reports their share.
        options: framework-specific options:

            * ``backward`` (bool, default False; PyTorch, Chainer): count the backward pass too.
            * ``dtype`` (str or ``torch.dtype``, default: that of the model's parameters; PyTorch): the dtype of inputs
              given as shapes, such as ``"int64"``.
            * ``memory`` (bool, default False; PyTorch): record when memory is allocated and freed, for
              :attr:`Report.memory` and :meth:`Report.show_memory`.
            * ``optimizer`` (str or function, default: none; PyTorch): count a step of this optimizer too, after the
              backward pass: ``"sgd"``, ``"sgd_momentum"``, ``"adam"``, ``"adamw"``, or a function that takes the
              parameters and returns a ``torch.optim.Optimizer``. With the suffix ``_foreach``, every name counts the
              ``foreach`` implementation, which PyTorch uses by default on CUDA.
            * ``step`` (str, default ``"steady"``; PyTorch): which training step is counted. ``"first"``: the step in
              which the optimizer creates its state. ``"steady"``: any later step. ``"accumulated"``: the last
              micro-batch of a step with gradient accumulation. ``"unsynchronized"``: the same, after micro-batches
              that ran with ``set_requires_gradient_sync(False)``: ``fully_shard`` reduces gradients in this one only.
            * ``loss`` (function; PyTorch): computes the loss from the output of the model. By default, the loss is the
              sum of all floating-point outputs, and computing it is not counted.
            * ``checkpoint`` (str, default: none; PyTorch): the modules to run under ``torch.utils.checkpoint``, which
              the backward pass recomputes: the name of a class, ``"BertLayer"``, or a path with ``*``,
              ``"encoder.layer.*.output"``. ``"BertLayer(save=mm,attention)"`` is selective checkpointing: the results
              of these operators are kept. The model itself is not changed.
            * ``precision`` (str, default: none; PyTorch): ``"bfloat16"``: weights and activations in bfloat16, and
              float32 copies of the weights in the optimizer. ``"pure_bfloat16"``: without these copies.
              ``"autocast"``: the forward pass under autocast to bfloat16.
            * ``mesh`` and ``plan`` (dict and function, default: none; PyTorch): count one process of a parallel run,
              without a cluster. ``mesh={"dp": 8, "tp": 4}`` has 32 processes. ``plan(model, mesh)`` distributes a copy
              of the model by ``parallelize_module``, ``fully_shard`` or ``DistributedDataParallel``. For a mesh of one
              dimension, ``plan`` can be the styles of ``parallelize_module``, or ``"fully_sharded"``. Pass the inputs
              of one process.
            * ``rank`` (int, default 0; PyTorch): which process of the mesh is counted; -1 is the last.
            * ``device`` (``"cuda"``, default: none; PyTorch): let ``torch.cuda.is_available()`` and similar functions
              tell the model that there is a GPU.
            * ``nonzero`` (bool, default False; PyTorch): count the nonzero weights of each module; reads all weights.
            * ``dims`` (dict, default: none; ONNX): values of symbolic dimensions, ``{"batch": 8}``, or
              expressions, ``{"total": "past + new"}``.
            * ``shapes`` (dict, default: none; ONNX): shapes that cannot be inferred, by name of the value,
              ``{"h": ("batch", 8)}``.
            * ``regroup`` (bool or names of patterns, default False; ONNX, PyTorch): count an operator as one if
              an exporter decomposed it into several (ONNX), or PyTorch implements it in Python (``F.normalize``).
            * ``explain_regroup`` (bool or names of patterns, default False; ONNX): note which groups of
              nodes nearly match a pattern of ``regroup``, and why they do not.
            * ``check_shapes`` (bool, default False; ONNX): cross-check shapes with ``onnx.shape_inference``.
            * ``et`` (path, default: none; traces): the execution trace that was recorded together with a trace of the
              profiler.
            * ``profiler_step`` (int, default: the one with the median time; traces): the step of the profiler that
              is counted, 6 for ``ProfilerStep#6``.
            * ``graphs`` (path, default: none; traces): the trace in which the CUDA or HIP graphs were captured, if
              this trace only replays them.
            * ``max_nodes`` (int, default 100,000; ONNX): the maximum number of nodes that the expansion of functions,
              loops and branches may add to the nodes of the file.
            * ``keep_qdq`` (bool, default False; ONNX): count QuantizeLinear and DequantizeLinear nodes one by one. By
              default, the operators between them count as operators on quantized values, as runtimes run them.

    Raises:
        CostError: if the model is not supported, cannot be read, or fails on these inputs. With ``strict`` and a
            report that is not complete, a :class:`costcore.errors.IncompleteReportError` with the ``report``:
            ``PartialReportError`` if an operator could not be counted, ``AssumedReportError`` if something was assumed.
        TypeError, ValueError: if an argument is invalid. An unknown option raises
            :class:`costcore.errors.UnknownOptionError`.
    """
    check_arguments(fma_1flop, layout, tracebacks=tracebacks, record_api_calls=record_api_calls, strict=strict)
    check_attention(attention)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function progress(items, description) (got {progress!r})")
    if isinstance(model, str):
        is_step = bool(options.get("backward") or options.get("optimizer") is not None)
        model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    with collector_off():  # collecting garbage slows down the imports of the first run
        spec = frontend_of(model)
        if options:
            check_options(spec, options, estimate.__kwdefaults__ or {})
    custom = CustomCalculators(fma_1flop)
    custom.add_all(calculators or ())

    @collector_off()
    def captured(inputs: Any) -> Report:
        recorder = Recorder(
            tracebacks,
            custom.by_native,
            progress,
            calculators=custom.by_layer,
            record_api_calls=record_api_calls,
            costs_of=custom.costs_of,
            counts_pairs=attention == "computed",
        )
        load(spec.name).estimate(recorder, model, inputs, **options)
        return make_report(recorder, custom, fma_1flop, layout)

    is_run = spec.is_run or not spec.suffixes
    inputs = with_tensors(inputs) if is_run else without_marks(with_tensors(inputs))
    if is_run and has_names(inputs):
        report = report_in_sizes(
            inputs, ranges, lambda sized: captured(sized).trace, custom, layout, computes=spec.computes
        )
    elif ranges is not None:
        raise ValueError("ranges needs a model that is run, with inputs of named sizes, such as ('batch', 3, 224, 224)")
    else:
        report = captured(inputs)
    warn_about(report, custom, strict=strict, source=str(model) if isinstance(model, (str, PathLike)) else "")
    return report


# Reports with symbolic sizes.


LARGEST = 2**40
"""The largest value of a range: with larger sizes, tensors have more elements than frameworks can count."""


def report_in_sizes(
    inputs: Any,
    ranges: Mapping[str, tuple[int, int]] | None,
    capture: Callable[[Any], Trace],
    custom: CustomCalculators,
    layout: str,
    *,
    computes: bool,
) -> Report:
    """Return a report whose costs are formulas in the named sizes of the inputs.

    Args:
        inputs: the inputs, with names in their shapes.
        ranges: the smallest and the largest value by name, if they are known.
        capture: returns the run on integer inputs.
        custom: the calculators of the user.
        layout: ``"framework"`` or ``"free"``.
        computes: whether a run computes values, which limits the sizes of captures unless a range is given.

    Raises:
        TypeError, ValueError: if a name or a range is invalid, or memory is recorded.
        CostError: if there are no exact formulas.
    """
    # Imported here, because these modules import sympy, which takes longer than an estimate with integer sizes.
    from costcore.analyses.sizes.capture import LAST, LAST_COMPUTED, NamedInputs, limits_of
    from costcore.analyses.sizes.fitting import trace_in_sizes

    named = NamedInputs(inputs)
    given_ranges = checked_ranges(named.ranges, named.symbols) | checked_ranges(ranges or {}, named.symbols)
    if custom.by_native:
        raise CostError(
            f"calculators of the form calculator(function, inputs) cannot compute with names such as "
            f"{named.symbols[0]!r}; write them as calculator(layer)"
        )

    def captured(sized: Any) -> Trace:
        trace = capture(sized)
        if trace.run.memory is not None:
            raise ValueError(
                f"memory=True needs integers in place of {', '.join(named.symbols)}: memory over the calls of a run "
                "has no formula"
            )
        return trace

    limits = limits_of(named, given_ranges, LAST_COMPUTED if computes else LAST)
    with collector_off():  # the runs at all sizes are kept, and would be scanned again and again
        return Report(trace_in_sizes(named, captured, Pricer(custom.table(), layout), limits))


def checked_ranges(ranges: object, symbols: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return ranges by symbol.

    Raises:
        TypeError: if they are not a mapping of names to pairs of integers.
        ValueError: if the inputs have no such symbol, or a range is empty, not positive or too large.
    """
    if not isinstance(ranges, Mapping):
        raise TypeError(f"ranges must be a mapping such as {{'seq': (2, 8192)}} (got {ranges!r})")
    checked = {}
    for name, limits in ranges.items():
        if name not in symbols:
            known = ", ".join(symbols)
            raise ValueError(f"ranges: the shapes of the inputs have no name {name!r} (names are {known})")
        if not isinstance(limits, (tuple, list)) or len(limits) != 2 or any(type(size) is not int for size in limits):
            raise TypeError(f"ranges: {name!r} needs its smallest and its largest value, (2, 8192) (got {limits!r})")
        low, high = limits
        if high > LARGEST:
            raise ValueError(f"ranges: the largest value of {name!r} cannot exceed {LARGEST:,} (got {high})")
        if not 1 <= low < high:
            raise ValueError(
                f"ranges: {name!r} needs 1 <= smallest < largest value (got {low} and {high}); for a single value, "
                "write the integer in the shape"
            )
        checked[str(name)] = low, high
    return checked


# Option types, for editors and type checkers.


class CommonOptions(TypedDict, total=False):
    """Options of every model."""

    fma_1flop: bool
    layout: Literal["framework", "free"]
    tracebacks: bool
    record_api_calls: bool
    calculators: Mapping[Any, Any] | Iterable[Any] | None
    progress: Callable[[Iterable[Any], str], Iterable[Any]] | None
    strict: bool
    ranges: Mapping[str, tuple[int, int]] | None
    attention: Literal["all", "computed"]


class ModelOptions(CommonOptions, total=False):
    """Options of a model that is run: a PyTorch module, or a target. Chainer accepts ``backward`` alone."""

    backward: bool
    dtype: Any
    memory: bool
    optimizer: str | Callable[[Iterable[Any]], Any]
    step: Literal["first", "steady", "accumulated", "unsynchronized"]
    loss: Callable[[Any], Any]
    checkpoint: str
    precision: Literal["bfloat16", "pure_bfloat16", "autocast"]
    mesh: Mapping[str, int]
    plan: Any
    device: Literal["cuda"]
    nonzero: bool
    rank: int
    regroup: bool | Iterable[str]


class FileOptions(CommonOptions, total=False):
    """Options of a file: an ONNX graph, or a trace."""

    dims: Mapping[str, int | str]
    shapes: Mapping[str, tuple[int | str, ...]]
    regroup: bool | Iterable[str]
    explain_regroup: bool | Iterable[str]
    check_shapes: bool
    max_nodes: int
    keep_qdq: bool
    et: str | PathLike[str]
    profiler_step: int
    graphs: str | PathLike[str]


# Train and evaluation mode.


MODES = (TRAIN, EVALUATION)
"""The modes of a model."""


def in_mode(model: Any, target: str, mode: str | None, is_step: bool) -> str:
    """Put a model into a mode for counting, and return that mode; empty if the model keeps its own.

    By default a model is counted in its current mode. Models of libraries are put into evaluation mode, and for a
    training step into train mode.

    Args:
        model: the model; a model without modes is unchanged.
        target: the target that it was loaded from.
        mode: one of :data:`MODES`; None to keep the mode of the model.
        is_step: whether a training step is counted.

    Raises:
        CostError: if the model cannot be put into this mode.
    """
    if mode is None and is_step and library_target(target):
        mode = TRAIN
    if mode is None or not has_modes(model):
        return ""
    run_user_code(f"{target} cannot be put into {mode} mode", partial(model.train, mode == TRAIN))
    return mode


def has_modes(model: Any) -> bool:
    """Return whether a model can be put into train mode and evaluation mode."""
    return hasattr(model, "training") and callable(getattr(model, "train", None))


def check_report(report: ReportData, model: Any, target: str, mode: str | None, is_step: bool) -> None:
    """Check the mode and phases of a report whose model :func:`in_mode` cannot change, such as a file.

    Args:
        report: the report.
        model: the model, such as the path of a file; None for a saved report.
        target: its name.
        mode: as for :func:`in_mode`.
        is_step: as for :func:`in_mode`.

    Raises:
        CostError: if it ran in another mode, or if a training step has no backward pass.
    """
    if model is None and is_step and not report.trace.has_backward:
        raise CostError(f"{target} has no backward pass: save the report of a training step (backward=True)")
    ran = mode_of(report.trace)
    if mode is not None and ran not in ("", mode) and not has_modes(model):
        raise CostError(
            f"{target} runs in {ran} mode: pass a target that makes a PyTorch module (net.py:Net) to count {mode} mode"
        )


# Several processes of a parallel run.


COLUMNS = (
    Column("rank", "Rank", "count"),
    Column("n_held", "Parameters held", "count"),
    *(column_of(name) for name in ("n_layers", "flops", "macs", "mrw", "mcomm")),
    Column("peak", "Peak of memory", "bytes"),
)
"""The columns of the table of ranks; memory only if it was recorded."""


class RankReports(Result, dict[int, Report]):
    """The reports of several processes by rank, as :func:`costcore.estimate_ranks` returns them."""

    def __repr__(self) -> str:
        return f"<RankReports of {self._mesh}: {len(self)} rank{'s' * (len(self) != 1)}>"

    @property
    def _mesh(self) -> str:
        ranks = (report.trace.run.rank for report in self.values())
        return next((f"the mesh {each.mesh_text}" for each in ranks if each is not None), "no mesh")

    def _content(self) -> Content:
        rows = [_row(rank, report) for rank, report in self.items()]
        columns = [each for each in COLUMNS if any(each.key in row for row in rows)]
        table = Table("By rank", columns, rows, n_digits=2)
        of_one_rank = {f"costs are for {report.trace.run.rank}" for report in self.values()}
        remarks = dict.fromkeys(line for report in self.values() for line in report.remarks if line not in of_one_rank)
        return Content(f"{len(self)} rank{'s' * (len(self) != 1)} of {self._mesh}", (), [table], [*remarks])


def _row(rank: int, report: Report) -> dict[str, Any]:
    total, held = report.total_report, report.trace.run.rank
    row = {**total, "rank": rank, "n_held": held and held.n_params}
    return row if report.memory is None else {**row, "peak": report.memory.peak}


def estimate_ranks(
    model: Any,
    inputs: Any = None,
    *,
    mesh: Mapping[str, int],
    plan: Any,
    ranks: Iterable[int] | None = None,
    **options: Any,
) -> RankReports:
    """Return a report for each of several processes of a parallel run, by rank.

    ::

        reports = estimate_ranks(net, (8, 512), mesh={"tp": 8}, plan=plan)
        macs = sum(report.total_report["macs"] for report in reports.values())

    Args:
        model: the model.
        inputs: the inputs of one process; all have inputs of these shapes.
        mesh: number of processes along each dimension, by name.
        plan: distributes the model, see :func:`estimate`.
        ranks: the processes to count, ``(0, -1)`` for the first and the last; default: all, one after the other.
        options: further options of :func:`estimate`.

    Raises:
        CostError, TypeError, ValueError: as :func:`estimate`; also if ``ranks`` is not a list of ranks of the mesh.
    """
    model, inputs = model_and_inputs(model, inputs, is_step=bool(options.get("backward") or options.get("optimizer")))
    options = {**options, "mesh": mesh, "plan": plan}
    if ranks is None:
        if not isinstance(mesh, Mapping) or not all(isinstance(size, int) for size in mesh.values()):
            ranks = (0,)  # estimate raises the error
        else:
            ranks = range(prod(mesh.values()))
    elif isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"ranks must be a list of ranks such as (0, -1) (got {ranks!r})")
    reports = (estimate(model, inputs, rank=rank, **options) for rank in ranks)
    return RankReports((report.trace.run.rank.rank, report) for report in reports if report.trace.run.rank is not None)


# Targets as models: ``"torchvision:resnet50"`` or ``"net.py:Net"`` wherever a function takes a model.


def model_of(model: Any, *, is_step: bool = False) -> Any:
    """Load the model that a target names; return any other model unchanged.

    Library models are in evaluation mode, or in train mode with ``is_step``.

    Raises:
        CostError: if the code of the target cannot be found or fails, or its result is not a model.
    """
    if not names_code(model):
        return model
    made = load_model(model)
    in_mode(made, model, None, is_step)
    return made


def finetuned(
    model: Any,
    rank: int,
    targets: str | Sequence[str] = (),
    kind: str = "lora",
    base: str | None = None,
) -> Any:
    """Return a model with low-rank adapters on its linear layers; only the adapters are trained.

    ::

        estimate(finetuned(llama, rank=16, base="nf4"), ids, optimizer="adamw", memory=True)  # QLoRA

    The model is not changed; the result shares its tensors. Adapters are in float32, as PEFT keeps them.

    Args:
        model: a ``torch.nn.Module``.
        rank: the rank of the adapters.
        targets: names or patterns of the linear layers that get an adapter, ``["q_proj", "v_proj"]``; default: all but
            the last linear layer, which computes the outputs.
        kind: ``"lora"``, or ``"dora"``, which also learns the norm of every row of the weight.
        base: ``"nf4"`` stores the weights of these layers in 4 bits (QLoRA); default: unchanged.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if no linear layer has such a name, or the model is of another framework.
    """
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise TypeError(f"rank must be an integer (got {rank!r})")
    model = model_of(model, is_step=True)
    names = [targets] if isinstance(targets, str) else [*targets]
    return needed_ability("finetuned", model, "an adapter")(model, rank, names, kind, base)


def model_and_inputs(model: Any, inputs: Any, *, is_step: bool = False) -> tuple[Any, Any]:
    """Return the model named by a target, and its default inputs if none are given, with a ``CostWarning``.

    Raises:
        CostError: as :func:`model_of`.
    """
    made = model_of(model, is_step=is_step)
    default = default_inputs(made, model) if inputs is None and names_code(model) else None
    if default is None:
        return made, inputs
    message = f"{model}: using default input {default.inputs} ({default.source})"
    warnings.warn(message, CostWarning, stacklevel=3)
    return made, default.inputs


# Load targets: files, models of libraries, and code of the user.


MAX_NAMES = 10
"""The maximum number of names of a module in a message."""


def load_model(target: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Load the model that ``target`` names.

    * The path of a model file is returned unchanged: frontends read files themselves.
    * ``timm:resnet50`` makes a library model without weights.
    * ``module:factory`` imports ``module``, which is ``package.module`` or ``file.py``, and calls ``factory``, a
      function or class. If ``factory`` is a model, it is returned. So is a function that needs arguments if a frontend
      counts functions, as the JAX frontend does, and a function that returns a loss, a tensor or a float.

    Args:
        target: the target, optionally with arguments, ``net.py:make(width=0.5)``.
        arguments: the arguments of the factory; default: the arguments in the target.

    Raises:
        ValueError: if ``target`` has another form.
        CostError: if the code cannot be found or fails, or its result is not a model.
    """
    if arguments is None:
        target, arguments = arguments_of(target)
    check_target(target)
    if frontend_for_file(target):
        if arguments:
            raise CostError(f"{target} is a file and takes no arguments")
        return target
    library = library_target(target)
    if library is not None:
        if arguments:
            raise CostError(f"{target} is a model of a library and takes no arguments")
        return library_model(library)
    factory = load_object(target)
    if arguments and not callable(factory):
        raise CostError(f"{target} is not a function and takes no arguments")
    is_factory = inspect.isclass(factory) or inspect.isroutine(factory) or isinstance(factory, partial)
    is_called = bool(arguments) or (is_factory and not _is_model_itself(factory))
    if is_called and not arguments and (required := _required(factory)):
        call = f"{target}({', '.join(f'{name}=…' for name in required)})"
        raise CostError(
            f"{target} needs arguments ({', '.join(required)}). "
            f"Pass them, '{call}', or write a function without arguments that returns the model."
        )
    args, kwargs = _args_and_kwargs(arguments or {})
    model = _call_factory(target, partial(factory, *args, **kwargs)) if is_called else factory
    if model is None:
        verb = "returned" if is_called else "is"
        raise CostError(
            f"{target} {verb} None (expected a model, or a function without arguments that returns a model)"
        )
    try:
        frontend_of(model)
    except CostError as error:
        if is_called and not arguments and _returns_loss(factory, model):
            message = f"the function returns a {type(model).__name__}, not a model: the function itself is counted"
            warnings.warn(message, CostWarning, stacklevel=3)
            return factory
        if is_called:
            raise CostError(f"result of {target}: {error}") from error
        raise CostError(
            f"{target}: {str(error).rstrip('.')}. A function without arguments that returns a model works too."
        ) from error
    return model


def _returns_loss(function: Any, result: Any) -> bool:
    is_loss = isinstance(result, float) or (hasattr(result, "shape") and hasattr(result, "dtype"))
    if not is_loss or not inspect.isfunction(function):
        return False
    try:
        frontend_of(function)
    except CostError:
        return False
    return True


def _call_factory(target: str, make: Callable[[], Any]) -> Any:
    try:
        return run_user_code(f"{target} failed", make)
    except CostError as error:
        # The code may need a GPU: try it again with a frontend that can run such code without one.
        for name in loaded():
            without_gpu = ability(specs()[name], "without_gpu")
            attempt = None if without_gpu is None else without_gpu(error.__cause__)
            if attempt is not None:
                with attempt:
                    return run_user_code(f"{target} failed", make)
        raise


def load_object(target: str) -> Any:
    """Return the object ``package.module:name`` or ``file.py:name``; the code of the module is run.

    Raises:
        CostError: if the code cannot be found or fails, or has no such name.
        ValueError: if ``target`` has another form.
    """
    source, _, name = target.rpartition(":")
    if not (source and name):
        raise ValueError(_without_name(target))
    _check_readable(source)
    libraries = [prefix for spec in specs().values() for prefix in spec.libraries]
    near = did_you_mean([source], libraries)
    module = run_user_code(f"{source} cannot be loaded", partial(import_source, source), near)
    found = module
    for attribute in name.split("."):
        if not hasattr(found, attribute):
            near = did_you_mean([attribute], [key for key in dir(found) if not key.startswith("_")])
            raise CostError(f"{source} has no attribute {name!r}; {_names_in(module, name)}{near}")
        found = getattr(found, attribute)
    return found


def _without_name(target: str) -> str:
    # The user may have typed ``net.gate`` or ``net.py.gate`` for ``net.py:gate``.
    module, _, name = target.removesuffix(":").rpartition(".")
    path = target if name == "py" else f"{module.removesuffix('.py').replace('.', '/')}.py"
    if is_file(path):
        near = f"{path}:{name}" if name != "py" else " or ".join(targets_in(path)[:MAX_NAMES])
    else:
        near = f"{module}:{name}" if module else ""
    hint = f". Did you mean {near}?" if near else ""
    return f"{short_repr(target)} is not FILE.py:NAME or package.module:NAME{hint}"


def _is_model_itself(function: Any) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:  # it needs arguments; the JAX frontend counts functions
        return not inspect.isclass(function) and is_supported(function)
    except ValueError:  # no signature
        pass
    return False


def _check_readable(source: str) -> None:
    if source.endswith(".py"):
        if exists(source) and not is_file(source):  # importing a named pipe would block
            raise FileError(f"{source} cannot be read: it is not a file")
        read_file(source)


def _required(factory: Any) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _names_in(module: ModuleType, name: str) -> str:
    from difflib import get_close_matches

    values = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    names = [key for key, value in values.items() if not inspect.ismodule(value)]
    # Definitions before imports.
    names.sort(key=lambda key: getattr(values[key], "__module__", module.__name__) != module.__name__)
    names = [*dict.fromkeys([*get_close_matches(name, names, MAX_NAMES), *names])]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"names in it are {', '.join(names[:MAX_NAMES])}{more}" if names else "it has no public names"


def check_target(target: str) -> None:
    """Check that ``target`` has a form that :func:`load_model` supports.

    Raises:
        ValueError: if it has another form; the message lists the forms.
    """
    source, _, name = target.rpartition(":")
    if library_target(target) or frontend_for_file(target) or (source and name):
        return
    if target.endswith(".py"):
        targets = " or ".join(targets_in(target)[:MAX_NAMES]) or f"{target}:NAME"
        raise ValueError(f"{target!r} does not name a model in the file. Append a factory or model, {targets}.")
    if target.endswith(CHECKPOINT_SUFFIXES):
        folder, what = str(Path(target).parent), "the code that builds the model, as file.py:factory"
        what = f"its folder, {folder}" if frontend_for_file(folder) else what
        raise ValueError(f"{target!r} is a checkpoint, not a model. Pass {what}.")
    if reader := READERS_TO_INSTALL.get(Path(target).suffix):
        raise ValueError(with_plugin_hint(needs_package(repr(target), reader)))
    suffixes = " or ".join(suffix for spec in specs().values() for suffix in spec.suffixes)
    libraries = "".join(f"{prefix}:NAME, " for spec in specs().values() for prefix in spec.libraries)
    if target and (other := other_file(target)):
        raise ValueError(f"{target!r} {other}")
    if "/" in target and not exists(target):
        raise ValueError(f"{target!r} is not a model: there is no such file or folder")
    module, _, factory = target.rpartition(".")
    is_dotted = all(part.isidentifier() for part in target.split(".")) and module
    near = [f"{module}:{factory}"] if is_dotted else []
    if in_file := targets_in(f"{target}.py"):
        near = in_file[:MAX_NAMES]
    elif target.isidentifier():
        near = [f"{prefix}:{target}" for spec in specs().values() for prefix in spec.libraries]
    hint = f". Did you mean {' or '.join(map(repr, near))}?" if near else ""
    message = (
        f"{target!r} is not a model (expected a path ending in {suffixes}, package.module:factory, file.py:factory, "
        f"{libraries}or a report saved as .json){hint}"
    )
    raise ValueError(with_plugin_hint(message))


def targets_in(path: str) -> list[str]:
    """Return the targets ``path:name`` of the functions, classes and objects in a file, which is parsed and not run."""
    try:
        tree = ast.parse(read_file(path))
    except (OSError, SyntaxError, ValueError):
        return []
    defined = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assigned = [
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Lambda))
        for name in node.targets
        if isinstance(name, ast.Name)
    ]
    return [f"{path}:{name}" for name in [*defined, *assigned] if not name.startswith("_")]


# Arguments of a target: ``nets.py:make(width=0.5, depth=2)``.


MOST_CHARACTERS = 10_000
"""The maximum length of the arguments of a target."""


def split_target(text: str, allows_positional: bool = False) -> tuple[str, dict[str, list[Any]] | None]:
    """Return the target of ``nets.py:make(width=[0.5, 1.0], depth=2)`` and the values of its arguments.

    A list holds the values of an argument; any other literal is its only value. Nothing is evaluated.

    Args:
        text: the target with its arguments.
        allows_positional: whether arguments may have no name, ``nets.py:make(64, depth=2)``; the key of the first is
            ``"0"``.

    Returns:
        The target and the values by argument, which are None if there are no parentheses.

    Raises:
        ValueError: if the parentheses contain something else than names with literals.
    """
    if not text.endswith(")") or "(" not in text or frontend_for_file(text):
        return text, None
    target, _, inside = text[:-1].partition("(")
    problem = f"{short_repr(text)}: expected arguments with literals, such as {target}(width=[0.5, 1.0], depth=2)"
    try:
        if len(inside) > MOST_CHARACTERS:
            raise ValueError(f"{len(inside):,} characters are too many")
        call = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("one pair of parentheses is expected")
        names = [each.arg for each in call.keywords]
        if (call.args and not allows_positional) or None in names or len(set(names)) < len(names):
            raise ValueError("every argument needs a name of its own")
        if (code := _first_code([*call.args, *(each.value for each in call.keywords)])) is not None:
            where, _, name = target.rpartition(":")
            line = f"def make(): return {name}({inside.strip()})"
            if isinstance(code, ast.Name):
                raise ValueError(f"text needs quotes, {code.id!r}")
            raise ValueError(
                f"{short_repr(ast.unparse(code))} is code, which the command does not run: add to {where} the line "
                f"{line!r}, and pass {where + ':make'!r}"
            )
        given = {str(i): ast.literal_eval(value) for i, value in enumerate(call.args)}
        given |= {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{problem} ({str(error).partition(': <')[0]})") from error
    return target, {name: value if isinstance(value, list) else [value] for name, value in given.items()}


def _first_code(values: Iterable[ast.expr]) -> ast.expr | None:
    # The first value that is no literal, such as ``Config(depth=2)``.
    for value in values:
        try:
            ast.literal_eval(value)
        except (ValueError, TypeError):
            return value
    return None


def arguments_of(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the target and the arguments of one model, which are None if there are no parentheses.

    Raises:
        ValueError: as :func:`split_target`, or if an argument has several values, which are several models.
    """
    target, values = split_target(text, allows_positional=True)
    if several := [
        f"argument {int(name) + 1}" if name.isdecimal() else name
        for name, each in (values or {}).items()
        if len(each) != 1
    ]:
        raise ValueError(
            f"{text}: {', '.join(several)} must have one value (costcore table counts a model per item of a list). "
            "To pass a list as one value, wrap it in a list: sizes=[[1, 2]]"
        )
    return target, None if values is None else {name: each[0] for name, each in values.items()}


def _args_and_kwargs(arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    kwargs = {name: value for name, value in arguments.items() if not name.isdecimal()}
    return [value for name, value in arguments.items() if name.isdecimal()], kwargs


# Code of the user: search path, import and errors.


def runs_code(model: object) -> bool:
    """Return whether a model is code of the user (an object or ``module:factory``), not a file or a library model."""
    if not isinstance(model, str):
        return not isinstance(model, os.PathLike)
    return not (library_target(model) or is_saved_report(model) or frontend_for_file(model))


@contextmanager
def module_search_path(folders: Sequence[str], target: object) -> Iterator[None]:
    """Context manager: add ``folders`` to the module search path, and the current folder if ``target`` is Python code.

    For a file, or a library model made from a configuration, the current folder is not added.
    """
    path = sys.path
    sys.path = [*folders, *([""] if isinstance(target, str) and runs_code(target) else []), *path]
    try:
        yield
    finally:
        sys.path = path


def run_user_code(problem: str, action: Any, near: str = "") -> Any:
    """Run code of the user, and turn any exception into a ``CostError`` with the location of the failure.

    ``near`` ends the message if a module is not found.
    """
    try:
        return action()
    except (Exception, SystemExit) as error:
        import traceback  # few runs have an error

        frames = traceback.extract_tb(error.__traceback__)
        last = next((f for f in reversed(frames) if f.filename != __file__ and "importlib" not in f.filename), None)
        message = f"{problem}: {type(error).__name__}: {error}"
        if last:
            message += f" at {last.filename}:{last.lineno}"
        if isinstance(error, ModuleNotFoundError):
            message += ". Use --python-path DIR to search for modules in DIR as well as in the current folder" + (
                near or "."
            )
        raise CostError(message) from error


_imported_files: dict[tuple[Path, int, int], ModuleType] = {}
"""Imported source files by path, modification time and size: a file with several models is run once."""


def import_source(source: str) -> ModuleType:
    """Import ``package.module`` or ``file.py``.

    Raises:
        ImportError: if it is not found; also any exception of its code.
    """
    if not source.endswith(".py"):
        return import_module(source)
    path = Path(source)
    stat = path.stat()
    key = path.resolve(), stat.st_mtime_ns, stat.st_size
    if key in _imported_files:
        return _imported_files[key]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if not str(error).startswith("attempted relative import with no known parent"):
            raise
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
        module = _import_in_package(path.resolve())
    _imported_files[key] = module
    return module


def _import_in_package(path: Path) -> ModuleType:
    # ``unet/model.py`` with ``from .parts import …`` is the module ``unet.model``, imported from the current folder if
    # that contains the package, else from the parent folder of the package.
    here, folder = Path.cwd(), path.parent
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    root = here if here in path.parent.parents else folder.parent
    names = [*path.relative_to(root).parent.parts, path.stem]
    before = sys.path
    sys.path = [str(root), *before]
    try:
        return import_module(".".join(names))
    finally:
        sys.path = before
