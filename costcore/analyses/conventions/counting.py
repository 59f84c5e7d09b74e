"""Count a run by a convention: one line for every call that a rule counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from costcore.analyses.conventions.convention import Convention, Pass
from costcore.analyses.conventions.expression import Expression
from costcore.analyses.conventions.fused_attention import fused_attention
from costcore.analyses.conventions.learned import learned_inputs
from costcore.analyses.conventions.live import live_calls
from costcore.analyses.conventions.module_calls import count_module_calls
from costcore.analyses.conventions.modules import ModuleIndex
from costcore.analyses.conventions.quantities import Quantities
from costcore.analyses.conventions.spelling import guessed_function, is_spelled, short_function
from costcore.analyses.conventions.whole import count_whole
from costcore.errors import CostError
from costcore.ir import Layer
from costcore.numbers.dims import Dim, floor_div
from costcore.numbers.symbolic import expanded_sum
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace


class Line(NamedTuple):
    """An amount that a rule of a convention gives.

    Attributes:
        position: position of the call in the trace; None for a term of the network as a whole.
        rule: the key of the rule.
        expression: the text of its expression.
        amount: the amount, of all executions of the call.
    """

    position: int | None
    rule: str
    expression: str
    amount: Dim


@dataclass(frozen=True)
class Counts:
    """A run as a convention counts it.

    Attributes:
        convention: the convention.
        lines: what its rules count, in order of execution.
        notes: what could not be reproduced in this run.
    """

    convention: Convention
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class _Facts:
    """What is known of a run and shared by all passes."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.modules = ModuleIndex(trace.run)
        self.is_spelled = is_spelled(trace)
        self._quantities: dict[tuple[Any, ...], tuple[Layer, Quantities]] = {}
        self._values: dict[tuple[int, str], Dim] = {}

    @cached_property
    def _learned(self) -> list[tuple[int, ...]]:
        return learned_inputs(self.trace)

    def value(self, expression: Expression, position: int) -> Dim:
        """Return the value of an expression for a call; equal layers are computed once."""
        record = self.trace.records[position]
        call = record.call
        learned = () if expression.names.isdisjoint(("learned", "runs_mm")) else self._learned[position]
        module = self.modules.get(call.module)
        is_int = None if module is None or not module.bases else module.kernel_is_int
        in_place = "in_place" in expression.names and _is_in_place(call)
        key = id(call.layer), call.strided, is_int, learned, in_place
        found = self._quantities.get(key)
        if found is None:
            quantities = Quantities(call.layer, record.cost, call.strided, is_int, learned, in_place)
            found = self._quantities[key] = call.layer, quantities
        memo = id(found[1]), expression.text
        if memo not in self._values:
            self._values[memo] = expression(found[1])
        return self._values[memo]


def _is_in_place(call: Call) -> bool:
    storages = dict(zip((*call.inputs, *call.outputs), call.storages, strict=False))
    written = [storages.get(each, 0) for each in (*call.inputs[:1], *call.outputs[:1])]
    return len(written) == 2 and written[0] == written[1] != 0


def count(trace: Trace, convention: Convention) -> Counts:
    """Count a run by a convention.

    Its rules are those of the release of the tool that made the run, unless the convention is of one release.

    Raises:
        CostError: if the convention needs what this run does not know, such as the types of modules.
    """
    convention = convention.of_release(trace.run.frameworks.get(convention.tool, ""))
    facts = _Facts(trace)
    if convention.needs_modules and not facts.modules.has_types:
        frameworks = ", ".join(trace.run.frameworks) or "this kind"
        raise CostError(
            f"convention {convention.name!r} counts by the modules and functions of PyTorch, which a capture of "
            f"{frameworks} lacks. Use one that counts by operators, such as fvcore or torch."
        )
    namespaces = {_namespace(call) for call in trace.calls}
    if convention.native_namespaces and namespaces.isdisjoint(convention.native_namespaces):
        frameworks = ", ".join(trace.run.frameworks) or "this kind"
        raise CostError(
            f"convention {convention.name!r} counts operators of {', '.join(sorted(convention.native_namespaces))}, "
            f"which a capture of {frameworks} lacks. Use one that counts by canonical operators, such as macs."
        )
    lines: list[Line] = []
    notes: list[str] = []
    for each in convention.counts:
        lines += _COUNTERS[each.by](facts, each)
        notes += _notes(facts, each)
    known = (note for note in convention.notes if _applies(note, facts.modules))
    return Counts(convention, tuple(lines), (*known, *dict.fromkeys(notes)))


def _applies(note: str, modules: ModuleIndex) -> bool:
    """Return whether a note names no type of modules, or one that the model has."""
    types = set(re.findall(r"\bnn\.\w+", note))
    return not types or any(not types.isdisjoint(modules.types(path)) for path in modules)


EXPORTED = (
    "the graph counts as it was exported: norms that the exporter folded are gone, and an operator that it took apart "
    "counts by its parts unless regroup=True puts them together"
)


def _notes(facts: _Facts, each: Pass) -> Iterator[str]:
    if "onnx" in facts.trace.run.frameworks and len(each.rules) > 1:
        yield EXPORTED
    if each.live and not facts.trace.run.returned:
        yield "calls on which no returned value depends are counted too: the run lacks what was returned"
    if any("training" in rule.names for rule in each.rules.values()) and _is_training(facts.trace):
        yield "batch_norm ran in training mode, which counts more. Numbers are usually published for model.eval()."
    if each.by != "whole" and "backward" not in each.phases and any(c.phase == "backward" for c in facts.trace.calls):
        yield "the backward pass is not counted: it counts forward passes only"
    if each.by == "function" and not facts.is_spelled:
        yield "functions are taken as torch.nn modules spell them. For those that the model calls, pass spelled=True."
    if each.by == "module call" and not facts.trace.run.module_calls:
        yield "a module that is called twice in a row counts once. To count each of its calls, pass spelled=True."


def _is_training(trace: Trace) -> bool:
    """Return whether a batch norm of the forward pass ran in training mode."""
    forward = (call.layer for call in trace.calls if call.phase == "forward")
    return any(layer.op == "batch_norm" and layer.attrs.get("training") for layer in forward)


def _count_calls(facts: _Facts, each: Pass, keys: Callable[[CallCost], Iterator[str]]) -> Iterator[Line]:
    live = live_calls(facts.trace) if each.live else None
    fused = _fused(facts, each)
    items = _items(facts.trace) if each.per_item else 1
    if items == 0:
        raise CostError("the tool divides by the batch size, which is 0 here. Pass at least one item.")
    rest: Dim = 0
    for position, record in enumerate(facts.trace.records):
        call = record.call
        if call.phase not in each.phases or (live is not None and position not in live):
            continue
        if each.outside and _is_inside(facts.modules, call.module, each.outside):
            continue
        if fused and not fused.isdisjoint((call.module, *facts.modules.ancestors(call.module))):
            continue
        key = next((key for key in keys(record) if key in each.rules), None)
        expression = each.default if key is None else each.rules[key]
        if expression is None:
            continue
        amount = facts.value(expression, position)
        if each.alias:
            amount = amount * facts.modules.n_paths(call.module) ** each.alias
        amount = amount * call.times
        if each.per_item:  # the tool divides the sum: what one call leaves over is added to the next
            whole = amount + rest
            amount = floor_div(whole, items)
            rest = whole - amount * items
        yield Line(position, key or "", expression.text, amount)


def _fused(facts: _Facts, each: Pass) -> frozenset[str]:
    if each.skip_self_attention:
        return fused_attention(facts.trace, facts.modules)
    return fused_attention(facts.trace, facts.modules, only_frozen=True) if each.skip_frozen_attention else frozenset()


def _namespace(call: Call) -> str:
    return call.native.partition("::")[0].rpartition(".")[2]


def _operator_keys(call: Call) -> Iterator[str]:
    namespace, name = _namespace(call), call.operator.partition("::")[2]
    if call.overload:
        yield f"{namespace}:{name}.{call.overload}"
    yield f"{namespace}:{name}"
    yield call.layer.op


def _count_by_operator(facts: _Facts, each: Pass) -> Iterator[Line]:
    return _count_calls(facts, each, lambda record: _operator_keys(record.call))


def _count_by_module(facts: _Facts, each: Pass) -> Iterator[Line]:
    modules = facts.modules
    listed = {key.partition("/")[0] for key in each.rules} | set(each.listed)

    def types(path: str) -> tuple[str, ...]:
        known = modules.types(path)
        return known if each.types == "subclasses" else known[:1]

    def keys(record: CallCost) -> Iterator[str]:
        call = record.call
        own = next((kind for kind in types(call.module) if kind in listed), None)
        if own is None or (each.leaf and not modules.is_leaf(call.module)):
            return
        if each.closed and any(not listed.isdisjoint(types(path)) for path in modules.ancestors(call.module)):
            return
        for key in _operator_keys(call):
            yield f"{own}/{key}"

    lines = _count_calls(facts, each, keys)
    if not each.last_call:
        return lines
    records = facts.trace.records
    return iter({records[line.position or 0].call.module: line for line in lines}.values())


def _count_by_function(facts: _Facts, each: Pass) -> Iterator[Line]:
    def keys(record: CallCost) -> Iterator[str]:
        call = record.call
        function = (
            short_function(call.function)
            if facts.is_spelled
            else guessed_function(call, facts.modules.types(call.module))
        )
        if not function:
            return
        kinds = facts.modules.types(call.module)
        if any(function in each.bound.get(kind, ()) for kind in kinds):
            return
        for argument in call.given or ("scale_factor" if kinds[:1] == ("nn.Upsample",) else "size",):
            yield f"{function}({argument})"
        yield function

    return _count_calls(facts, each, keys)


def _is_inside(modules: ModuleIndex, path: str, types: tuple[str, ...]) -> bool:
    kinds = frozenset(types)
    return any(not kinds.isdisjoint(modules.types(each)) for each in (path, *modules.ancestors(path)))


def _items(trace: Trace) -> Dim:
    """Return the first dimension of the input of the model; 1 if it has several inputs, which are passed by name."""
    for module_call in trace.run.module_calls[:1]:
        shapes = module_call.inputs
        return shapes[0][0] if len(shapes) == 1 and shapes[0] else 1
    made: set[int] = set()
    given: dict[int, tuple[Dim, ...]] = {}
    for call in trace.calls:
        for (_, tensor), each in zip(call.layer.inputs.items(), call.inputs, strict=False):
            if tensor.role == "data" and tensor.shape and each not in made:
                given[each] = tensor.shape
        made.update(call.outputs)
    shapes = tuple(given.values())
    return shapes[0][0] if len(shapes) == 1 else 1


_COUNTERS: Mapping[str, Callable[[_Facts, Pass], Iterator[Line]]] = {
    "op": _count_by_operator,
    "module": _count_by_module,
    "function": _count_by_function,
    "module call": lambda facts, each: (
        Line(*found) for found in count_module_calls(facts.trace, facts.modules, each.rules)
    ),
    "whole": lambda facts, each: (Line(None, *found) for found in count_whole(facts.trace, each.rules)),
}


def amounts(counts: Counts, trace: Trace) -> list[Dim]:
    """Return the amount of every call of a trace."""
    parts: dict[int, list[Dim]] = {}
    for line in counts.lines:
        if line.position is not None:
            parts.setdefault(line.position, []).append(line.amount)
    found: list[Dim] = [0] * len(trace)
    for position, each in parts.items():
        found[position] = each[0] if len(each) == 1 else expanded_sum(each)
    return found
