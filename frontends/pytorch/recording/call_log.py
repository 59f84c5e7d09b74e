"""The log of one capture, in which operator calls are compact until they become :class:`Call` objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

from costcore.ir import Layer, Role
from costcore.ir import Tensor as Operand
from costcore.registry.calculators import calculators
from costcore.trace.call import Call, Module
from costcore.trace.gc_paused import collector_off
from costcore.trace.recorder import Recorder
from costcore.trace.source import user_traceback
from costcore.translate import Native, Translator

from ..operators.call_cache import CachedCall, CallTemplate
from ..operators.plan import OperatorPlan
from ..tensors import DataOperand, Number, is_contiguous, is_twice_ragged, operand
from .identity import BUFFER, COMPUTED, GIVEN, LEARNED, N_ORIGINS, Identities
from .module_calls import ModuleCalls
from .module_stack import ModuleStack
from .stopwatch import Reading, seconds_of

if TYPE_CHECKING:
    from .ledger import StorageLedger
    from .spelling import Spellings

Annotation: TypeAlias = "tuple[Reading | None, str, str, tuple[str, ...], int]"
"""What few calls have: the measured duration, and ``where``, ``function``, ``given`` and ``module_call`` of a call."""

_NOT_ANNOTATED: Annotation = (None, "", "", (), 0)

PRODUCTS = frozenset(("attention", "einsum", "linear", "matmul"))
"""Operators whose cost cannot be computed from the number of elements alone."""


Picker: TypeAlias = "Callable[[tuple[Any, ...]], tuple[int, ...]]"


class CallLog:
    """The operator calls of one capture.

    While the run lasts, a call is a tuple of small numbers and strings, which costs little and keeps nothing alive: the
    number of its template, module, phase, then the operand ids of the tensors it was passed and of those it returned,
    and last 0, the operand id of a Python number. The tuples become :class:`Call` objects in :meth:`flush`, which runs
    before the calls of the recorder are read.

    Args:
        recorder: receives the calls.
        translator: turns operator calls into layers.
        modules: the modules that are running.
        spellings: follows which function is running, if that is recorded.

    Attributes:
        module_calls: the module calls, if they are recorded.
    """

    def __init__(
        self, recorder: Recorder, translator: Translator, modules: ModuleStack, spellings: Spellings | None = None
    ) -> None:
        self.recorder = recorder
        self.identities = Identities(recorder, modules)
        self._rows: list[tuple[Any, ...]] = []
        self._spellings = spellings
        self.module_calls = None if spellings is None else ModuleCalls(recorder.module_calls)
        self._annotates_all = recorder.tracebacks or spellings is not None
        self._annotations: dict[int, Annotation] = {}
        self._outer: tuple[list[tuple[Any, ...]], dict[int, Annotation]] | None = None
        """The rows and annotations of the log, while those of inner calls are kept apart."""
        self._numbers: dict[CallTemplate, int] = {}
        self._templates: list[tuple[Layer, str, str, str, tuple[int, ...], Sequence[int], Picker, int]] = []
        """For every template its layer, the names of its operator and overload, the positions of operands that are not
        contiguous and of those that are learned, what picks the ids of inputs and outputs from a row, and the number of
        inputs."""
        self._translate = translator.by(self._operand)
        self._modules: dict[int, str] = {}
        """Path of the module that first read a parameter, by the id of the parameter."""
        recorder.pending.append(self.flush)
        self.ledger: StorageLedger | None = None
        """The memory of the run, if the recorder asks for it."""
        if recorder.memory:
            from .ledger import StorageLedger

            self.ledger = StorageLedger(self.identities, self.n_calls)
            recorder.memory_ledger = self.ledger.result
            recorder.watch_memory = self.ledger.watch_all

    def n_calls(self) -> int:
        """Return how many calls were recorded so far."""
        return len(self.recorder.calls) + len(self._rows if self._outer is None else self._outer[0])

    def begin_inner(self) -> Callable[[bool], None]:
        """Keep the calls that follow apart; return a function that ends this, and adds them to the log or drops them.

        Such pairs nest.
        """
        outer, rows, annotations = self._outer, self._rows, self._annotations
        self._outer = (rows, annotations) if outer is None else outer
        self._rows, self._annotations = [], {}

        def end(adds: bool) -> None:
            if adds:
                annotations.update({len(rows) + i: each for i, each in self._annotations.items()})
                rows.extend(self._rows)
            self._outer, self._rows, self._annotations = outer, rows, annotations

        return end

    def append(
        self,
        call: CachedCall,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        results: Sequence[Any],
        module: str,
        phase: str,
        reading: Reading | None,
    ) -> None:
        """Append one call.

        Args:
            call: what calls with its key share.
            tensors: all tensors among its arguments.
            args: its positional arguments.
            kwargs: its keyword arguments.
            results: all values that it returned.
            module: path of its module.
            phase: phase of the run.
            reading: its duration, if it was measured.
        """
        identities = self.identities
        by_address = identities.by_address
        values: list[int] = []
        origins = 1
        for tensor in tensors:
            found = by_address.get(id(tensor))
            if found is None or found[0]() is not tensor:
                found = identities.register_external(tensor)
                if self.ledger is not None:
                    self.ledger.watch_operand(tensor)
            values.append(found[1])
            origins = N_ORIGINS * origins + found[2]
        for value in results:
            if isinstance(value, Tensor):
                found = identities.register_result(value)
                values.append(found[1])
                origins = N_ORIGINS * origins + found[2]
        template = call.templates.get(origins)
        if template is None:
            template = call.templates[origins] = self._template(call.plan, tensors, args, kwargs or {}, results)
        number = self._numbers.get(template)
        if number is None:
            number = self._number(template, call.plan)
        for i in template.by_use:
            if values[i] not in identities.parameters:
                identities.register_parameter(tensors[i], values[i])
        if reading is not None or not template.is_supported or self._annotates_all:
            self._annotations[len(self._rows)] = self._annotation(template, phase, reading)
        self._rows.append((number, module, phase, *values, 0))

    def append_returned(self, tensors: Sequence[Tensor]) -> None:
        """Append tensors that the outermost module returned."""
        identities = self.identities
        self.recorder.returned += [identities.of(tensor)[1] for tensor in tensors]

    def flush(self) -> None:
        """Append the calls to those of the recorder."""
        rows, annotations = self._rows, self._annotations
        if not rows or self._outer is not None:
            return
        self._rows, self._annotations = [], {}
        calls = self.recorder.calls
        first = len(calls)
        self._read_clocks(first, annotations)
        templates, new = self._templates, tuple.__new__
        storage_of, parameters = self.identities.storages.__getitem__, self.identities.parameters
        read: tuple[int, ...]
        with collector_off():
            for i, row in enumerate(rows):
                layer, kind, name, overload, strided, learned, pick, n_inputs = templates[row[0]]
                module, phase, operands = row[1], row[2], pick(row)
                inputs, outputs = operands[:n_inputs], operands[n_inputs:]
                storages = (*map(storage_of, operands),)
                if learned:
                    read = tuple([parameters[row[3 + at]] for at in learned])
                    for parameter in read:
                        self._modules.setdefault(parameter, module)
                else:
                    read = ()
                _, where, function, given, module_call = annotations.get(i, _NOT_ANNOTATED)
                # The fields of a call in their order: keywords would cost as much as all the rest.
                # fmt: off
                calls.append(new(Call, (
                    layer, kind, name, "", module, phase, 1, "", inputs, outputs, storages, read, (), where, None,
                    overload, strided, function, given, module_call,
                )))
                # fmt: on

    def _read_clocks(self, first: int, annotations: Mapping[int, Annotation]) -> None:
        """Pass the durations of calls to the recorder; ``first`` is the position of the first of them."""
        clock = self.recorder.measure_time
        readings = {first + i: each[0] for i, each in annotations.items() if each[0] is not None}
        if clock is not False and readings:
            self.recorder.seconds.update(zip(readings, seconds_of(readings.values(), clock), strict=True))

    def close(self) -> None:
        """Flush the log; no call follows."""
        self.flush()
        if self.ledger is not None:
            self.ledger.close()
        self.recorder.pending.remove(self.flush)
        self.identities.release()

    def rename_modules(self, renamed: Callable[[str], str]) -> None:
        """Change the paths of the modules of all calls so far."""
        self._rows[:] = [(row[0], renamed(row[1]), *row[2:]) for row in self._rows]
        # calls of other frameworks, whose names have no namespace, may be among those of the recorder
        self.recorder.calls[:] = [
            call._replace(module=renamed(call.module)) if "::" in call.native else call for call in self.recorder.calls
        ]
        self._modules = {parameter: renamed(path) for parameter, path in self._modules.items()}
        if self.module_calls is not None:
            self.module_calls.rename(renamed)

    def locate_by_parameters(self, modules: Mapping[str, Module], path: str) -> None:
        """Let calls of the module at ``path`` that read a parameter belong to the module that owns it."""
        owners = {parameter: owner for owner, module in modules.items() for parameter in module.parameters}
        self.flush()
        self.recorder.calls[:] = [
            call._replace(module=owners.get(call.parameters[0], path))
            if call.parameters and call.module == path
            else call
            for call in self.recorder.calls
        ]

    def remove_last(self) -> None:
        """Remove the last call."""
        if self._rows:
            self._rows.pop()
            self._annotations.pop(len(self._rows), None)
        else:
            self.recorder.calls.pop()
            self.recorder.seconds.pop(len(self.recorder.calls), None)

    def module_of(self, parameter: Tensor) -> str:
        """Return the path of the module that first read a parameter."""
        self.flush()
        return self._modules.get(self.identities.parameter_of(parameter), "")

    def _number(self, template: CallTemplate, plan: OperatorPlan) -> int:
        number = self._numbers[template] = len(self._templates)
        layer = self.recorder.intern(template.layer)
        pick = _picker([3 + at if at >= 0 else -1 for at in template.inputs + template.outputs])
        names, n_inputs = (plan.type, plan.shown, plan.overload), len(template.inputs)
        self._templates.append((layer, *names, template.strided, template.learned, pick, n_inputs))
        return number

    def _annotation(self, template: CallTemplate, phase: str, reading: Reading | None) -> Annotation:
        where = "" if template.is_supported and not self.recorder.tracebacks else user_traceback("torch")
        function, given = ("", ()) if self._spellings is None else self._spellings.facts()
        module_call = 0 if self.module_calls is None or phase == "backward" else self.module_calls.innermost
        return reading, where, function, given, module_call

    def _template(
        self,
        plan: OperatorPlan,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[Any],
    ) -> CallTemplate:
        """Translate a call into a layer, by the rows of its operator."""
        bound = plan.bind(args, kwargs)
        translation = self._translate(Native(plan.row, bound, results))
        if not translation.has_row and plan.row != plan.native:
            translation = self._translate(Native(plan.native, bound, results))
        if translation.layer.op in PRODUCTS and any(map(is_twice_ragged, (*tensors, *results))):
            translation = self._translate(Native(f"{plan.native} of ragged matrices", bound, results))
        position = {id(tensor): i for i, tensor in reversed(list(enumerate(tensors)))}
        returned = {id(value): i for i, value in enumerate(v for v in results if isinstance(v, Tensor))}
        layer = translation.layer
        inputs = [_unwrapped(value) for value in translation.inputs]
        supported = calculators()
        return CallTemplate(
            layer,
            tuple(-1 if type(value) is Number else position[id(value)] for value in inputs),
            tuple(len(tensors) + returned[id(value)] for value in translation.outputs),
            translation.has_row and (layer.op in supported or plan.native in supported),
            tuple(i for i, value in enumerate(inputs) if isinstance(value, Tensor) and not is_contiguous(value)),
            {i for i, tensor in enumerate(tensors) if self.identities.of(tensor)[2] == LEARNED},
        )

    def _operand(self, value: Any, role: Role) -> Operand | None:
        """Return the operand of a value; its origin decides whether it is a parameter."""
        if type(value) is DataOperand:
            value, role = value.value, "data"
        if isinstance(value, Tensor):
            origin = self.identities.of(value)[2]
            if origin == LEARNED:
                role = "param"
            elif origin == COMPUTED and role != "data":
                role = "data"
            elif role == "param" and origin in (BUFFER, GIVEN):
                role = "state" if origin == BUFFER else "data"
        return operand(value, role)


def _picker(places: Sequence[int]) -> Picker:
    """Return what picks these places from a row; ``itemgetter`` returns a tuple only for two or more."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple([row[at] for at in places])


def _unwrapped(value: Any) -> Any:
    return value.value if type(value) is DataOperand else value
