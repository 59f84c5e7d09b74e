"""Count everything that runs inside a ``with`` block.

Shared with ``estimate`` and the command line: argument checks, the report of recorded calls, warnings about uncounted
calls, and inputs in the notation of the command line.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, SupportsIndex, TypeAlias

from costcore.counting import TOO_LARGE, Pricer, symbols_in
from costcore.errors import (
    AssumedReportError,
    CostError,
    CostWarning,
    IncompleteReportError,
    PartialReportError,
    did_you_mean,
    short_repr,
    unknown,
)
from costcore.ir import BITS, Pattern, Tensor
from costcore.ledger.ledger import uncounted_operators
from costcore.numbers import whole_number
from costcore.plugins import with_plugin_hint
from costcore.registry import CustomCalculators, load, loaded, specs
from costcore.reports.report import Report
from costcore.tables.answer import Content
from costcore.tables.result import OfReport
from costcore.trace.call import Assumption, Call, Uncounted, assumptions_as_text, note_on_masks, with_names, with_pairs
from costcore.trace.interrupts import HeldInterrupts, collector_off
from costcore.trace.run import CPU_TIME, Recorder, Run
from costcore.trace.trace import CallCost, Trace, Value

_NO_MEMORY = (
    "memory=True: no frontend of this hook records memory. Those of PyTorch and Chainer do, if the framework is "
    "imported before the hook is entered."
)


def _unhooked(name: str) -> str:
    return f"ComputationalCostHook records nothing that {name} runs. {specs()[name].unhooked}"


class ComputationalCostHook(OfReport):
    """A context manager that counts what runs inside it, in every imported framework.

    ``with ComputationalCostHook() as cch: y = net(x)``. A hook can be used again, and then starts from zero. If two
    hooks are nested or overlap, both count. A hook in a coroutine counts that coroutine and the
    coroutines that it starts. If the block raises an exception, the report has the calls up to it. A hook counts the
    thread that entered it, and must be left in that thread.

    Args:
        fma_1flop: count a fused multiply-add as one FLOP (True) or two (False).
        layout: ``"framework"`` counts data movement as the framework executes it. ``"free"`` ignores it: operators that
            only move data (transposition, broadcasting, slicing, splitting, contiguous copies) are zero-cost.
        tracebacks: store the location in the user's code of every call. For unsupported operators it is always stored.
        record_api_calls: record the function or symbol by which code calls operators (``torch.nn.functional.relu``,
            ``operator.add``), and every module call, as some counting conventions need; PyTorch only.
        frontends: names of the frontends to use, ``["pytorch"]``. Default: all with an imported framework.
        measure_time: True measures the wall-clock time of every call or, on an accelerator, the time between two events
            on its stream (PyTorch). ``"cpu_time"`` measures the CPU time of the calling thread: other programs do not
            disturb it, but it leaves out work in other threads. Reports have the time as ``seconds``, and
            ``show_layers`` in its last columns. Frameworks that do not run calls one by one are not measured.
        strict: raise an error at the end of the block if the status of the report is not ``complete``. The report
            stays available.
        memory: record when memory is allocated and freed (PyTorch, Chainer): :attr:`Report.memory`,
            :meth:`Report.show_memory`.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if the framework of a frontend cannot be imported.
    """

    def __init__(
        self,
        fma_1flop: bool = True,
        *,
        layout: str = "framework",
        tracebacks: bool = False,
        record_api_calls: bool = False,
        frontends: Sequence[str] | None = None,
        measure_time: bool | str = False,
        strict: bool = False,
        memory: bool = False,
    ) -> None:
        switches = {"tracebacks": tracebacks, "record_api_calls": record_api_calls, "strict": strict}
        switches["memory"] = memory
        check_arguments(fma_1flop, layout, **switches)
        check_clock(measure_time)
        if isinstance(frontends, str):
            raise TypeError(
                f"frontends must be a list of names, such as [{frontends!r}] (got the string {frontends!r})"
            )
        self._names = None if frontends is None else list(frontends)
        for name in self._names or ():
            load(name)
            if specs()[name].unhooked:
                raise CostError(_unhooked(name))
        self._fma_1flop = fma_1flop
        self._layout = layout
        self._tracebacks = tracebacks
        self._record_api_calls = record_api_calls
        self._measure_time = measure_time
        self._strict = strict
        self._memory = memory
        self._watched: list[Any] = []
        self._custom = CustomCalculators(fma_1flop)
        self._recorder = Recorder()
        self._stack: ExitStack | None = None
        self._thread = 0
        self._interrupts = HeldInterrupts()
        self._report: Report | None = None

    def add_custom_cost_calculator(self, op: object, calculator: Any) -> None:
        """Use ``calculator`` (a cost formula) for the operator ``op``, for this hook only.

        Args:
            op: a canonical operator name (``"conv"``), a framework's own name (``"mylib::stft"``), or a framework's own
                function or class. PyTorch also accepts a class of modules, a function or a
                ``torch.autograd.Function``, as an object or a dotted name (``"mamba_ssm.Mamba"``). It counts as one
                call, and the operators inside it do not count. The layer passed to its calculator has arguments and
                parameters by name, and settings of the module as attributes.
            calculator: a function ``calculator(layer)`` that returns a :class:`Cost`, or a tuple
                ``(flops, mread, mwrite, params[, macs])``. For Chainer functions, ``calculator(function, inputs,
                **options)`` is supported too, which returns elements instead of bytes.

        Raises:
            TypeError, ValueError: if the operator is unknown or the calculator is invalid.
        """
        self._custom.add(op, calculator)
        self._report = None

    def watch(self, *values: Any) -> None:
        """Count the memory of values that existed before the ``with`` block, even if no operator reads them.

        Without ``watch``, such memory counts only if an operator reads or writes it.

        Args:
            values: models, optimizers and tensors, or lists, tuples and dicts of these.

        Raises:
            CostError: without ``memory=True``, or if no imported framework records memory.
            TypeError: for anything else.
        """
        if not self._memory:
            raise CostError("watch needs ComputationalCostHook(memory=True), which records memory")
        if self._stack is None:
            self._watched += values
        elif self._recorder.watch_memory is None:
            raise CostError(_NO_MEMORY)
        else:
            self._recorder.watch_memory(values)
            self._report = None

    def __enter__(self) -> ComputationalCostHook:
        if self._stack is not None:
            raise CostError("this ComputationalCostHook is already active. To nest hooks, create a second one.")
        try:
            self._interrupts.hold()
            self._begin()
            self._interrupts.release()
            return self
        except BaseException:  # a frontend failed, or Ctrl-C: __exit__ will not be called
            self._interrupts.hold()
            stack, self._stack = self._stack, None
            if stack is not None:
                stack.close()
            self._interrupts.release()
            raise

    def _begin(self) -> None:
        self._recorder = Recorder(
            self._tracebacks,
            self._custom.by_native,
            measure_time=self._measure_time,
            calculators=self._custom.by_layer,
            record_api_calls=self._record_api_calls,
            memory=self._memory,
            costs_of=self._custom.costs_of,
        )
        self._report = None
        self._stack = self._capture(self._recorder)
        watched, self._watched = self._watched, []
        if watched:
            self.watch(*watched)
        self._thread = threading.get_ident()

    def _capture(self, recorder: Recorder) -> ExitStack:
        with ExitStack() as stack:
            for name in loaded() if self._names is None else self._names:
                context = load(name).capture(recorder)
                if context is not None:
                    stack.enter_context(context)
            if recorder.memory and recorder.memory_ledger is None:
                raise CostError(_NO_MEMORY)
            return stack.pop_all()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._interrupts.hold()
        finally:
            try:
                self._end(error_type, error, traceback)
            finally:
                self._interrupts.release()
        if error_type is None:
            if not self._recorder.calls:
                self._warn_unrecorded()
            warn_about(self.report, self._custom, strict=self._strict)

    def _end(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._report = self._stack, None, None
        if stack is None:
            # Another thread left this hook, and removed the modes of frameworks from its own stack only. Entering and
            # leaving a capture removes them from the stack of this thread.
            self._capture(Recorder()).close()
        else:
            stack.__exit__(error_type, error, traceback)
            if self._thread != threading.get_ident():
                raise CostError(
                    "this ComputationalCostHook was left in another thread than the one that entered it. Enter and "
                    "leave it in the thread whose calls it counts. The report has the calls so far."
                )

    def _warn_unrecorded(self) -> None:
        for name in loaded() if self._names is None else self._names:
            if specs()[name].unhooked:
                self._recorder.notes.append(_unhooked(name))
                warnings.warn(_unhooked(name), CostWarning, stacklevel=3)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled or copied: a hook is tied to its process and thread.

        Raises:
            TypeError: always; the message names the report to pickle instead.
        """
        raise TypeError(
            "cannot pickle or copy a ComputationalCostHook. Pickle hook.report, or save it by hook.report.to_json(), "
            "and create a hook in every process."
        )

    def __repr__(self) -> str:
        return f"<ComputationalCostHook: {self.report!r}>"

    def _content(self) -> Content:
        return self.report._content()

    @property
    def report(self) -> Report:
        """The report of the last run, or of the current one so far."""
        if self._report is None or self._stack is not None:
            self._report = make_report(self._recorder, self._custom, self._fma_1flop, self._layout)
        return self._report

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of :attr:`report`: the hook has every property and method of a report."""
        if name.startswith("_") or not hasattr(Report, name):
            known = [each for each in dir(type(self)) + dir(Report) if not each.startswith("_")]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean([name], known)}")
        return getattr(self.report, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(Report) if not name.startswith("_"))})


# From recorded calls to a report: arguments, costs, and uncounted operators.


LAYOUTS = ("framework", "free")

Progress: TypeAlias = "Callable[[Iterable[Any], str], Iterable[Any]]"


def check_arguments(fma_1flop: object, layout: object, **switches: object) -> None:
    """Check the arguments that ``estimate`` and the hook have in common.

    Args:
        fma_1flop: must be a bool.
        layout: must be one of :data:`LAYOUTS`.
        switches: further arguments by name; each must be a bool.

    Raises:
        TypeError, ValueError: if an argument is invalid; the message lists the expected values.
    """
    if not isinstance(fma_1flop, bool):
        raise TypeError(f"fma_1flop must be True (a fused multiply-add is one FLOP) or False (two) (got {fma_1flop!r})")
    if layout not in LAYOUTS:
        raise ValueError(unknown("layout", layout, LAYOUTS))
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False (got {value!r})")


def check_clock(measure_time: object) -> None:
    """Check the argument ``measure_time`` of the hook.

    Raises:
        ValueError: if it is not a bool or the name of a clock.
    """
    if not isinstance(measure_time, bool) and measure_time != CPU_TIME:
        raise ValueError(
            f"measure_time must be True (time on the device that runs a call), {CPU_TIME!r} (CPU time of the thread) "
            f"or False (got {measure_time!r})"
        )


def make_report(recorder: Recorder, custom: CustomCalculators, fma_1flop: bool, layout: str) -> Report:
    """Return the report of the calls that were recorded so far."""
    recorder.flush()
    memory = None
    calls: Sequence[Call] = recorder.calls
    if recorder.memory_ledger is not None:
        from costcore.analyses.memory.live_memory import with_saved
        from costcore.trace.run import decide_kinds

        raw = recorder.memory_ledger()
        memory = decide_kinds(raw, [call.phase for call in calls])
        calls = with_saved(calls, raw, memory)
    notes = [*recorder.notes, *custom.unused(calls)]
    if recorder.counts_pairs:
        calls, more = with_pairs(calls, recorder.attention_pairs, recorder.masked_scores)
        notes += more
    elif note := note_on_masks(calls, recorder.layers):
        notes.append(note)
    if recorder.measure_time and recorder.calls and not recorder.seconds:
        notes.append("no time was measured: the frontends of this run do not measure single calls")
    elif recorder.measure_time == CPU_TIME and recorder.seconds:
        notes.append(
            "measured time is CPU time of the thread that ran the calls; work in other threads is not included"
        )
    run = Run(
        fma_1flop=fma_1flop,
        layout=layout,
        parameters=dict(recorder.parameters),
        n_params_model=recorder.n_params_model,
        modules=dict(recorder.modules),
        frameworks=dict(recorder.frameworks),
        assumptions=tuple(recorder.assumptions),
        notes=tuple(notes),
    ).recording(
        **recorder.records,
        regrouped=tuple(recorder.regrouped),
        returned=tuple(recorder.returned),
        module_calls=tuple(recorder.module_calls),
        inputs=tuple(recorder.inputs),
        buffers=tuple(recorder.buffers),
        dataflow=recorder.dataflow,
        memory=memory,
        nodes={i: recorder.nodes[call.name] for i, call in enumerate(calls) if call.name in recorder.nodes},
        patterns=_patterns(calls, custom),
        rank=recorder.rank,
        profile=recorder.profile,
    )
    with collector_off():
        return Report(Trace(_costs(recorder, calls, custom, layout), run))


def _costs(recorder: Recorder, calls: Sequence[Call], custom: CustomCalculators, layout: str) -> tuple[CallCost, ...]:
    pricer = Pricer(custom.table(), layout)
    seconds = recorder.seconds
    records = []
    for i, call in enumerate(recorder.progress(with_names(calls), "computing costs")):
        if i in recorder.costs:
            record = CallCost(call, recorder.costs[i])
        elif i in recorder.failures:
            record = CallCost(call, None, Uncounted.CALCULATOR_FAILED, recorder.failures[i])
        else:
            record = pricer(call)
        records.append(record._replace(seconds=seconds[i]) if i in seconds else record)
    return tuple(records)


def _patterns(calls: Sequence[Call], custom: CustomCalculators) -> dict[int, Pattern]:
    marked = {name: calculator for name, calculator in custom.by_layer.items() if hasattr(calculator, "pattern")}
    if not marked:
        return {}
    from costcore.analyses.fusion.traffic import stated_pattern

    found = ((i, call.layer, marked.get(call.operator) or marked.get(call.layer.op)) for i, call in enumerate(calls))
    return {i: stated_pattern(calculator, layer) for i, layer, calculator in found if calculator is not None}


MOST_WARNINGS = 3
"""The maximum number of warnings about single operators without a cost; if there are more, they share one."""


def warn_about(report: Report, custom: CustomCalculators | None = None, strict: bool = False, source: str = "") -> None:
    """Warn about uncounted calls, assumed branches, and unused calculators of custom operators.

    All calls of an uncounted operator share one warning. More than :data:`MOST_WARNINGS` such operators share one, too.
    So do assumed branches in the same line of code.

    Raises:
        PartialReportError: if a call is not counted and ``strict`` is True.
        AssumedReportError: if an assumption was made and ``strict`` is True.
        CostError: if a custom calculator or a calculator of a plug-in failed.
    """
    for message in custom.unused(report.trace.calls, without_built_in=True) if custom else ():
        warnings.warn(message, CostWarning, stacklevel=3)
    if strict and report.status != "complete":
        raise _strict_error(report)
    for message in _assumed_branches(report.assumptions):
        warnings.warn(message, CostWarning, stacklevel=3)
    calls_by_reason: dict[tuple[Uncounted, str], list[Call]] = {}
    for call, _, uncounted, reason, _ in report.trace:
        if uncounted is not None:
            calls_by_reason.setdefault((uncounted, reason), []).append(call)
    failures: list[str] = []
    too_large: list[str] = []
    messages: dict[Uncounted, list[str]] = {}
    for (uncounted, reason), calls in calls_by_reason.items():
        affected = f"{len(calls)} call{'s' * (len(calls) > 1)} of {calls[0].type!r}"
        location = f", first in module {calls[0].module!r}" if calls[0].module else ""
        if uncounted is Uncounted.CALCULATOR_FAILED:
            (too_large if reason.startswith(TOO_LARGE) else failures).append(f"{reason} ({affected}{location})")
        else:
            messages.setdefault(uncounted, []).append(f"{reason}: {affected} not counted{location}")
    for uncounted, found in messages.items():
        if len(found) > MOST_WARNINGS:
            first, *others = (reason for each, reason in calls_by_reason if each is uncounted)
            n_calls = sum(len(calls) for (each, _), calls in calls_by_reason.items() if each is uncounted)
            found = [f"{first} and {len(others)} other operators: {n_calls:,} calls not counted"]
        for message in found:
            warnings.warn(with_plugin_hint(f"{message}; {uncounted.hint}"), CostWarning, stacklevel=3)
    if too_large:
        raise CostError(
            f"{source}{': ' * bool(source)}{too_large[0]}. No such tensor fits any memory: correct the sizes."
        )
    if failures:
        raise CostError(
            f"{'; '.join(failures)}. Correct the calculator. To see all other calls, use ComputationalCostHook: its "
            "report lists these in ignored_layers."
        )


def _assumed_branches(assumptions: Iterable[Assumption]) -> Iterator[str]:
    for text in assumptions_as_text(each for each in assumptions if each.is_branch):
        yield f"{text}. Count a real run with ComputationalCostHook."


def _strict_error(report: Report) -> IncompleteReportError:
    error: IncompleteReportError
    if operators := uncounted_operators(report.trace):
        message = f"the report is partial; not counted: {'; '.join(map(str, operators))}"
        error = PartialReportError(with_plugin_hint(message))
    else:
        made = "; ".join(assumptions_as_text(report.assumptions))
        error = AssumedReportError(
            f"the report is assumed: {made}. Pass tensors for the inputs that decide, or count a run "
            "with ComputationalCostHook."
        )
    error.report = report
    return error


# Inputs in the notation of the command line: parsed and written.


INPUT_FORMS = (
    "1x3x224x224, 1x8k:int64, batch,3,16*h,16*w for formulas in sizes, scalar, NAME=1x3x224x224, or [2,3], NAME:=9 "
    "and NAME:=[2,3] for values"
)

DTYPE_WORDS = {"fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "bf16": "bfloat16"}
DTYPE_WORDS |= {"int": "int64", "long": "int64", "fp64": "float64", "double": "float64", "fp8": "float8_e4m3fn"}
"""Names of dtypes by their common short forms, for suggestions."""

_EXPRESSION = re.compile(r"[\s\w+*/()-]*[^\W\d][\s\w+*/()-]*")
"""A size with names in it, such as ``past + new``."""

_NUMBER = re.compile(r"(\d+)([km]?)", re.IGNORECASE)
"""An integer; the suffix ``k`` multiplies it by 1,024, ``m`` by 1,048,576, as in sequence lengths (``8k``)."""


def parse_inputs(texts: Sequence[str]) -> Any:
    """Return the inputs in the arguments of ``--input``.

    The result is None for no argument, one shape for a single unnamed input, a tuple for several, and a dict for named
    inputs.

    Raises:
        ValueError: if an argument does not have one of :data:`INPUT_FORMS`, or only some inputs have names.
    """
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_value = name.endswith(":")
        name = name.removesuffix(":")
        if separator and not name:
            raise ValueError(f"--input {short_repr(text)} has an empty name (expected {INPUT_FORMS})")
        if name in named:
            raise ValueError(f"--input {name!r} is given twice")
        if is_value:
            named[name] = _parse_json(text, value)
        elif separator:
            named[name] = _parse_input(text, value)
        else:
            unnamed.append(_parse_input(text, value))
    if named and unnamed:
        raise ValueError("--input is given both with and without names. Name all inputs or none.")
    if named:
        return named
    return None if not unnamed else unnamed[0] if len(unnamed) == 1 else tuple(unnamed)


def parse_dims(texts: Sequence[str]) -> dict[str, int | str]:
    """Return the named dimensions in the arguments of ``--dim``, such as ``batch=8`` or ``total=past+new``.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    dims: dict[str, int | str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        is_size = _NUMBER.fullmatch(value) or _EXPRESSION.fullmatch(value)
        if not (separator and name and is_size):
            raise ValueError(
                f"--dim {short_repr(text)} is invalid (expected NAME=N, such as batch=8, or NAME=past+new)"
            )
        if name in dims:
            raise ValueError(f"--dim {name!r} is given twice")
        dims[name] = _number("--dim", text, value) if _NUMBER.fullmatch(value) else value
    return dims


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes in the arguments of ``--shape``, such as ``h=batch,8``, or ``h=1x8`` for numbers only.

    Raises:
        ValueError: if an argument has another form, or a name is given twice.
    """
    shapes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        sizes = value.split("x" if re.fullmatch(r"\d+[kKmM]?(x\d+[kKmM]?)*", value) else ",")
        if not (separator and name and all(_NUMBER.fullmatch(size) or size.isidentifier() for size in sizes)):
            near = f". For the shape of an input, pass --input {text}" if not separator else ""
            raise ValueError(f"--shape {short_repr(text)} is invalid (expected NAME=batch,8 or NAME=1x8){near}")
        if name in shapes:
            raise ValueError(f"--shape {name!r} is given twice")
        shapes[name] = tuple(_number("--shape", text, size) if _NUMBER.fullmatch(size) else size for size in sizes)
    return shapes


def _parse_input(text: str, value: str) -> Any:
    shape: tuple[Any, ...]
    if value.startswith("["):
        return _parse_json(text, value)
    match = re.fullmatch(r"(\d+[kKmM]?(?:x\d+[kKmM]?)*|scalar|[^:]+,[^:]*)(?::(\w+))?", value)
    if sizes := re.fullmatch(r"\(?\s*(\d+(?:[,\sX]+\d+)+),?\s*\)?", value) if not match or "(" in value else None:
        raise ValueError(f"--input {short_repr(text)}: did you mean {'x'.join(re.findall('[0-9]+', sizes[1]))}?")
    if not match:
        meant = _meant_shape(value)
        expected = f": did you mean {meant}?" if meant else f" is invalid (expected {INPUT_FORMS})"
        raise ValueError(f"--input {short_repr(text)}{expected}")
    if "," in match[1]:
        shape = _named_shape(text, match[1])
    else:
        shape = () if match[1] == "scalar" else tuple(_number("--input", text, size) for size in match[1].split("x"))
    if match[2] is None:
        return shape
    if match[2] not in BITS:
        near = DTYPE_WORDS.get(match[2])
        what = f"unknown dtype {match[2]!r}. Did you mean {near!r}?" if near else unknown("dtype", match[2], BITS)
        raise ValueError(f"--input {short_repr(text)}: {what}")
    return Tensor(shape, match[2])


def _meant_shape(value: str) -> str:
    # ``batch,3,8`` for ``batchx3x8``, ``1x3x8`` for ``1*3*8``; empty if the value is no shape.
    shape, colon, dtype = value.partition(":")
    parts = [part.strip() for part in re.split("[*×]" if re.search("[*×]", shape) else "x", shape)]
    if len(parts) < 2 or not all(part.isidentifier() or _NUMBER.fullmatch(part) for part in parts):
        return ""
    has_names = any(map(str.isidentifier, parts))
    return f"{(',' if has_names else 'x').join(parts)}{colon}{dtype}"


def _named_shape(text: str, value: str) -> tuple[Any, ...]:
    sizes = [size.strip() for size in value.removesuffix(",").split(",")]
    if not all(_NUMBER.fullmatch(size) or _EXPRESSION.fullmatch(size) for size in sizes):
        raise ValueError(f"--input {short_repr(text)} is invalid (expected {INPUT_FORMS})")
    return tuple(_number("--input", text, size) if _NUMBER.fullmatch(size) else size for size in sizes)


def _parse_json(text: str, value: str) -> Any:
    try:
        parsed = json.loads(value, parse_int=lambda digits: _number("--input", text, digits))
        return Value(parsed) if isinstance(parsed, (list, dict)) else parsed
    except json.JSONDecodeError as error:
        raise ValueError(f"--input {short_repr(text)}: {error} (expected {INPUT_FORMS})") from error
    except RecursionError as error:
        raise ValueError(f"--input {short_repr(text)} is nested too deeply (expected {INPUT_FORMS})") from error


def _number(option: str, text: str, digits: str) -> int:
    found = _NUMBER.fullmatch(digits)
    try:
        return (
            whole_number(found[1]) * 1024 ** ("", "k", "m").index(found[2].lower()) if found else whole_number(digits)
        )
    except ValueError as error:
        raise ValueError(f"{option} {short_repr(text)}: {error}") from error


def input_arguments(inputs: Any) -> str:
    """Return inputs as arguments of the command line, ``--input 1x3x224x224``.

    Inputs without such a notation, such as a list of images, are written as in Python.
    """
    if isinstance(inputs, Mapping):
        named = [_named_text(name, value) for name, value in inputs.items()]
    else:
        named = [_text(value) for value in (inputs if _are_several(inputs) else [inputs])]
    return " ".join(f"--input {text}" for text in named) if all(named) else repr(inputs)


def _are_several(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and not all(isinstance(size, int) for size in inputs)


def _named_text(name: str, value: Any) -> str:
    if isinstance(value, Value):
        return f"{name}:={json.dumps(value.value, separators=(',', ':'), default=repr)}"
    return f"{name}={text}" if (text := _text(value)) else ""


def _text(value: Any) -> str:
    shape, suffix = (value.shape, f":{value.dtype}") if isinstance(value, Tensor) else (value, "")
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return ""
    return ("x".join(map(str, shape)) or "scalar") + suffix


# Saved reports, with the options of a command.


def saved_report(
    path: str, fma_1flop: bool, dims: Mapping[str, int | str] | None = None, is_alone: bool = False
) -> Report:
    """Return the report saved in a file.

    Args:
        path: a ``.json`` file.
        fma_1flop: False counts a fused multiply-add as two FLOPs; True keeps the count of the report.
        dims: values for the symbolic dimensions of the report.
        is_alone: whether ``dims`` must apply to this report. If it is one of several models, a report without symbolic
            dimensions ignores them.

    Raises:
        CostError: if the file cannot be read or is not a report, or if ``dims`` has a name that is not one of its
            dimensions; the message contains the path.
    """
    report = Report.from_json(Path(path))
    if not fma_1flop:
        trace = report.trace
        report = Report(replace(trace, run=replace(trace.run, fma_1flop=False)))
    if not dims or not (is_alone or symbols_in(report.trace)):
        return report
    try:
        return report.subs(**dims)
    except CostError as error:
        raise CostError(f"{path}: {error}") from error
