"""One recorder's view of a run: operator calls become :class:`~costcore.trace.call.Call` objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from costcore.ir import Layer, Role
from costcore.ir import Tensor as Operand
from costcore.registry.calculators import calculators
from costcore.trace.call import Call
from costcore.trace.gc_paused import collector_off
from costcore.trace.recorder import Recorder
from costcore.trace.source import user_traceback
from costcore.translate import Native, Translator

from ..operators.call_cache import CachedCall, CallTemplate
from ..operators.plan import OperatorPlan
from ..tensors import Given, Number, is_twice_ragged, operand
from .identity import COMPUTED, LEARNED, Identities

PRODUCTS = frozenset(("attention", "einsum", "linear", "matmul"))
"""Operators whose cost does not follow from the number of elements: unknown where that is all that is known."""


class CallLog:
    """Writes a run into one recorder.

    While the run lasts, a call is a row of small numbers and strings, which costs little and holds nothing alive:
    the number of its template, module, phase, then the numbers of the values it was given and of those it returned.
    The recorder gets its calls when somebody looks.
    """

    def __init__(self, recorder: Recorder, translator: Translator) -> None:
        self.recorder = recorder
        self.identities = Identities(recorder)
        self._rows: list[tuple[Any, ...]] = []
        self._extra: dict[int, tuple[float | None, str]] = {}
        """Measured time and place in the user's code of those rows that have them."""
        self._numbers: dict[CallTemplate, int] = {}
        self._templates: list[tuple[CallTemplate, OperatorPlan, Layer]] = []
        self._translate = translator.by(self._operand)
        self._homes: dict[int, str] = {}
        recorder.pending.append(self.write)

    def note(
        self,
        entry: CachedCall,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        results: Sequence[Any],
        module: str,
        phase: str,
        seconds: float | None,
    ) -> None:
        """Record one call: ``tensors`` are all tensors among its arguments, ``results`` all that it returned."""
        identities = self.identities
        known = identities.known
        values: list[int] = []
        origins = 1
        for tensor in tensors:
            found = known.get(id(tensor))
            if found is None or found[0]() is not tensor:
                found = identities.meet(tensor)
            values.append(found[1])
            origins = 3 * origins + found[2]
        for value in results:
            if isinstance(value, Tensor):
                found = identities.made(value)
                values.append(found[1])
                origins = 3 * origins + found[2]
        template = entry.templates.get(origins)
        if template is None:
            template = entry.templates[origins] = self._template(entry.plan, tensors, args, kwargs or {}, results)
        number = self._numbers.get(template)
        if number is None:
            number = self._number(template, entry.plan)
        for i in template.learned:
            if not identities.parameters[values[i]]:
                identities.learn(tensors[i], values[i])
        if seconds is not None or not template.is_known or self.recorder.tracebacks:
            self._extra[len(self._rows)] = seconds, self._where(template)
        self._rows.append((number, module, phase, *values))

    def write(self) -> None:
        """Hand the calls that were noted to the recorder."""
        rows, extra = self._rows, self._extra
        if not rows:
            return
        self._rows, self._extra = [], {}
        calls = self.recorder.calls
        first = len(calls)
        self.recorder.seconds.update({first + i: time for i, (time, _) in extra.items() if time is not None})
        with collector_off():
            calls += [self._call(row, extra[i][1] if i in extra else "") for i, row in enumerate(rows)]

    def _call(self, row: tuple[Any, ...], where: str) -> Call:
        number, module, phase, *values = row
        values.append(0)  # no value: where a position is -1
        template, plan, layer = self._templates[number]
        identities = self.identities
        operands, storages = identities.operands, identities.storages
        read: tuple[int, ...] = ()
        if template.learned:
            read = tuple([identities.parameters[values[at]] for at in template.learned])
            for parameter in read:
                if parameter not in self._homes:
                    self._homes[parameter] = module
        return Call(
            layer,
            plan.type,
            plan.native,
            "",
            module,
            phase,
            1,
            "",
            tuple([operands[values[at]] for at in template.inputs]),
            tuple([operands[values[at]] for at in template.outputs]),
            tuple([storages[values[at]] for at in template.places]),
            read,
            (),
            where,
        )

    def close(self) -> None:
        """Hand over what is left; nothing more will come."""
        self.write()
        self.recorder.pending.remove(self.write)

    def forget_last(self) -> None:
        """Take back the last call."""
        if self._rows:
            self._rows.pop()
            self._extra.pop(len(self._rows), None)
        else:
            self.recorder.calls.pop()
            self.recorder.seconds.pop(len(self.recorder.calls), None)

    def home_of(self, tensor: Tensor) -> str:
        """Path of the module that first read a parameter."""
        self.write()
        return self._homes.get(self.identities.parameter_of(tensor), "")

    def _number(self, template: CallTemplate, plan: OperatorPlan) -> int:
        number = self._numbers[template] = len(self._templates)
        self._templates.append((template, plan, self.recorder.intern(template.layer)))
        return number

    def _where(self, template: CallTemplate) -> str:
        return "" if template.is_known and not self.recorder.tracebacks else user_traceback()

    def _template(
        self,
        plan: OperatorPlan,
        tensors: Sequence[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[Any],
    ) -> CallTemplate:
        bound = plan.bind(args, kwargs)
        translation = self._translate(Native(plan.row, bound, results))
        if not translation.known and plan.row != plan.native:
            translation = self._translate(Native(plan.native, bound, results))
        if translation.layer.op in PRODUCTS and any(map(is_twice_ragged, (*tensors, *results))):
            translation = self._translate(Native(f"{plan.native} of ragged matrices", bound, results))
        position = {id(tensor): i for i, tensor in reversed(list(enumerate(tensors)))}
        returned = {id(value): i for i, value in enumerate(v for v in results if isinstance(v, Tensor))}
        layer = translation.layer
        priced = calculators()
        return CallTemplate(
            layer,
            tuple(-1 if type(value) is Number else position[id(_bare(value))] for value in translation.inputs),
            tuple(len(tensors) + returned[id(value)] for value in translation.outputs),
            translation.known and (layer.op in priced or plan.native in priced),
        )

    def _operand(self, value: Any, role: Role) -> Operand | None:
        if type(value) is Given:
            value, role = value.value, "data"
        if isinstance(value, Tensor):
            origin = self.identities.of(value)[2]
            if origin == LEARNED:
                role = "param"
            elif origin == COMPUTED and role != "data":
                role = "data"
        return operand(value, role)


def _bare(value: Any) -> Any:
    return value.value if type(value) is Given else value
