"""Compute the cost of one pass of a model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from costcore.api.build_report import Progress, check_arguments, make_report, warn_about
from costcore.api.target import model_and_inputs
from costcore.registry.custom import CustomCalculators
from costcore.registry.frontends import check_options, frontend_of, load
from costcore.reports.report import Report
from costcore.trace.gc_paused import collector_off
from costcore.trace.input_shapes import has_names, with_tensors, without_marks
from costcore.trace.recorder import Recorder

if TYPE_CHECKING:
    from typing import Unpack

    from costcore.api.options import FileOptions, ModelOptions


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
    spelled: bool = False,
    calculators: Mapping[Any, Any] | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    **options: Any,
) -> Report:
    """Return a report of the cost of one pass of ``model``.

    Args:
        model: a ``torch.nn.Module`` or ``torch.export.ExportedProgram`` (traced on the meta device: no weights are
            allocated, nothing is computed), a ``chainer.Link`` (run once), an ONNX model as a path, bytes or
            ``ModelProto`` (read, never run; weights are never loaded), or the path of a trace of ``torch.profiler`` or
            of an execution trace of PyTorch. Or a target, as on the command line: ``"torchvision:resnet50"``,
            ``"timm:NAME"``, ``"hf:bert"`` (made without weights, with its usual inputs if none are given),
            ``"net.py:Net"`` or ``"package.module:factory"``, whose code is run.
        inputs: a shape (tuple of ints), a shape with a dtype, which is a pair ``((2, 128), "int64")`` or a
            :class:`costcore.Tensor`, a tensor or array, or a tuple, list or dict of these. An ONNX model declares the
            shapes of its inputs; shapes by name replace them.
            A list of integers is a shape unless the model takes it for numbers, as its signature or code says;
            ``Value([64, 64])`` always is a list of numbers.
            A size may be a name, ``("batch", 3, "height", "width")``, or a sum or product of names and integers,
            ``"16*h"``: all dimensions and costs of the report are then formulas in these names, for
            :meth:`Report.subs`. They are exact: they are found from about twenty captures, and checked at others.
        fma_1flop: count a fused multiply-add as one FLOP (True) or two (False).
        layout: ``"framework"`` or ``"free"``, see :class:`ComputationalCostHook`.
        tracebacks: store the location in the user's code of every call.
        spelled: record by which function or symbol the code called every operator, and every module call; see
            :class:`ComputationalCostHook`.
        calculators: calculators (cost formulas) for this run only, by operator; see
            :meth:`ComputationalCostHook.add_custom_cost_calculator`.
        progress: a function ``progress(items, description)`` that wraps the items of long loops, for a progress bar.
        strict: raise an error if the status of the report is not ``complete``.
        ranges: the smallest and the largest value of names among the sizes, ``{"seq": (2, 8192)}``. Formulas are
            checked at both.
        options: framework-specific options:

            * ``backward`` (bool, default False; PyTorch, Chainer): count the backward pass too.
            * ``dtype`` (str or ``torch.dtype``, default: that of the model's parameters; PyTorch): the dtype of inputs
              given as shapes, such as ``"int64"``.
            * ``memory`` (bool, default False; PyTorch): record when memory is allocated and freed, for
              :attr:`Report.memory` and :meth:`Report.show_memory`.
            * ``optimizer`` (str or function, default: none; PyTorch): count a step of this optimizer too, after the
              backward pass: ``"sgd"``, ``"sgd_momentum"``, ``"adam"``, ``"adamw"``, or a function that takes the
              parameters and returns a ``torch.optim.Optimizer``. On CUDA it works on lists by default: add
              ``"_foreach"`` to the name.
            * ``step`` (str, default ``"steady"``; PyTorch): ``"first"`` counts the step that makes the state of the
              optimizer, ``"steady"`` any later one, ``"accumulated"`` the last of several micro-batches, before which
              gradients exist too; ``"unsynchronized"`` the same if processes exchange no gradients before it.
            * ``loss`` (function, default: the sum of all floating-point outputs, which is not counted; PyTorch):
              returns the loss from what the model returned.
            * ``checkpoint`` (str, default: none; PyTorch): name of a class of modules, ``"BertLayer"``, whose outermost
              ones run under ``torch.utils.checkpoint``, on a copy: they are recomputed in the backward pass.
            * ``precision`` (str, default: none; PyTorch): ``"bfloat16"`` counts the model with weights and activations
              in bfloat16, and an optimizer that keeps float32 copies of the weights; ``"autocast"`` counts the forward
              pass under autocast to bfloat16.
            * ``mesh`` and ``plan`` (dict and function, default: none; PyTorch): count one process of a parallel run,
              without a cluster: ``mesh={"dp": 8, "tp": 4}`` are the processes, ``plan(model, mesh)`` distributes a copy
              of the model by ``parallelize_module``, ``fully_shard`` or ``DistributedDataParallel``. For a mesh of one
              dimension, ``plan`` can be the styles of ``parallelize_module``, or ``"fully_sharded"``. Inputs are those
              of one process.
            * ``rank`` (int, default 0; PyTorch): which process of the mesh is counted; -1 is the last.
            * ``dims`` (dict, default: none; ONNX): values of symbolic dimensions, ``{"batch": 8}``, or
              expressions, ``{"total": "past + new"}``.
            * ``shapes`` (dict, default: none; ONNX): shapes that cannot be inferred, by name of the value,
              ``{"h": ("batch", 8)}``.
            * ``regroup`` (bool or names of patterns, default False; ONNX, PyTorch): count operators that an exporter
              decomposed, or that PyTorch writes in Python out of others (``F.normalize``), as one operator.
            * ``explain_regroup`` (bool or names of patterns, default False; ONNX): note why other groups of
              nodes are not the operators of ``regroup``.
            * ``check_shapes`` (bool, default False; ONNX): cross-check shapes with ``onnx.shape_inference``.
            * ``et`` (path, default: none; traces): the execution trace that was recorded together with a trace of the
              profiler.
            * ``profiler_step`` (int, default: the one that took the median time; traces): the step of the profiler that
              is counted, 6 for ``ProfilerStep#6``.
            * ``graphs`` (path, default: none; traces): the trace in which the CUDA or HIP graphs were captured that the
              trace replays.
            * ``max_nodes`` (int, default 100,000; ONNX): how many nodes functions, loops and branches may expand to,
              besides the nodes that the file stores.

    Raises:
        CostError: if the model is not supported, cannot be read, or fails on these inputs. With ``strict`` and a
            report that is not complete, a :class:`costcore.errors.IncompleteReportError` with the ``report``:
            ``PartialReportError`` if an operator could not be counted, ``AssumedReportError`` if something was assumed.
        TypeError, ValueError: if an argument is invalid. An unknown option raises
            :class:`costcore.errors.UnknownOptionError`.
    """
    check_arguments(fma_1flop, layout, tracebacks=tracebacks, spelled=spelled, strict=strict)
    if not isinstance(calculators, Mapping | None):
        raise TypeError(f"calculators must be a mapping of operators to calculators (got {calculators!r})")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function progress(items, description) (got {progress!r})")
    if isinstance(model, str):
        is_step = bool(options.get("backward") or options.get("optimizer") is not None)
        model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    with collector_off():  # the first run imports the frontend here, and the calculators in captured()
        spec = frontend_of(model)
        if options:
            check_options(spec, options, estimate.__kwdefaults__ or {})
    custom = CustomCalculators(fma_1flop)
    for op, calculator in (calculators or {}).items():
        custom.add(op, calculator)

    @collector_off()
    def captured(inputs: Any) -> Report:
        recorder = Recorder(tracebacks, custom.by_native, progress, calculators=custom.by_layer, spelled=spelled)
        load(spec.name).estimate(recorder, model, inputs, **options)
        return make_report(recorder, custom, fma_1flop, layout)

    is_run = spec.is_run or not spec.suffixes
    inputs = with_tensors(inputs) if is_run else without_marks(with_tensors(inputs))
    if is_run and has_names(inputs):
        from costcore.api.report_in_sizes import report_in_sizes

        report = report_in_sizes(
            inputs, ranges, lambda sized: captured(sized).trace, custom, layout, computes=spec.computes
        )
    elif ranges is not None:
        raise ValueError("ranges needs names among the sizes of the inputs of a model that is run, such as 'batch'")
    else:
        report = captured(inputs)
    warn_about(report, custom, strict=strict, source=str(model) if isinstance(model, (str, PathLike)) else "")
    return report
