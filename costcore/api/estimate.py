"""What one pass of a model would cost, told without the user running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.api.build_report import Progress, check_settings, make_report, warn
from costcore.registry.custom import CustomCalculators
from costcore.registry.frontends import frontend_of
from costcore.reports.report import Report
from costcore.trace.recorder import Recorder


def estimate(
    model: Any,
    inputs: Any = None,
    *,
    fma_1flop: bool = True,
    layout: str = "framework",
    tracebacks: bool = False,
    calculators: Mapping[Any, Any] | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    **options: Any,
) -> Report:
    """The cost of one pass of ``model``.

    Args:
        model: a ``torch.nn.Module`` or ``torch.export.ExportedProgram`` (run on the meta device: no weights, no
            compute), a ``chainer.Link`` (run once), or an ONNX model as a path, bytes or ``ModelProto`` (read, never
            run, weights never loaded).
        inputs: a shape (tuple of ints), a :class:`costcore.Tensor` (a shape with an element type), a tensor or array,
            or a tuple, list or dict of these. ONNX models bring their own input shapes, which this overrides by name.
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two (False).
        layout: ``"framework"`` or ``"free"``, see :class:`ComputationalCostHook`.
        tracebacks: whether every call says where in the user's code it was made.
        calculators: calculators for this run only, by operator; see :class:`CustomCalculators`.
        progress: wraps long loops, ``progress(items, what)``, to show how far they are.
        strict: whether an operator that could not be counted is an error.
        options: what the model's frontend knows beyond these: ``backward=True`` (PyTorch, Chainer), ``dtype="int64"``
            (PyTorch: the type of inputs given as shapes; by default that of the model's parameters),
            ``dims={"batch": 8}``, ``shapes={"h": ("batch", 8)}`` (of values inside the model that nothing else tells),
            ``regroup=True`` and ``check_shapes=True`` (ONNX).

    Raises:
        CostError: for a model that no frontend takes, cannot be read, or fails on these inputs; with ``strict`` a
            :class:`costcore.errors.PartialReportError`, which has the report of everything else as ``report``.
        TypeError, ValueError: for an argument that is not accepted; says what is.
    """
    check_settings(fma_1flop, layout, tracebacks=tracebacks, strict=strict)
    if not isinstance(calculators, Mapping | None):
        raise TypeError(f"calculators must be a mapping of operators to calculators, got {calculators!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function progress(items, what), got {progress!r}")
    frontend = frontend_of(model)
    custom = CustomCalculators(fma_1flop)
    for op, calculator in (calculators or {}).items():
        custom.add(op, calculator)
    recorder = Recorder(tracebacks, custom.by_native, progress, calculators=custom.by_layer)
    frontend.estimate(recorder, model, inputs, **options)
    report = make_report(recorder, custom, fma_1flop, layout)
    warn(report, custom, strict=strict)
    return report
