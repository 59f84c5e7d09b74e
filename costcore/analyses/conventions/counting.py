"""Count a run by a convention: a line per counted call, and a report with the amounts of the convention.

Rules may depend on more than the operator: whether PyTorch fuses attention, which operands are trained, whether the
outputs depend on a call, and which API function the code called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from os import PathLike
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.analyses.conventions.convention import (
    UNIT_NAMES,
    Convention,
    Expression,
    Pass,
    count_module_calls,
    count_whole,
    find_convention,
)
from costcore.analyses.conventions.quantities import ModuleIndex, Quantities
from costcore.counting import substitute_values
from costcore.errors import CostError
from costcore.ir import Cost, Layer, prod
from costcore.ledger.ledger import Ledger
from costcore.numbers import Dim, as_text, expanded_sum, floor_div, magnitude
from costcore.tables.answer import Content, Figure
from costcore.tables.quantity import Quantity
from costcore.tables.result import OfReport, Table
from costcore.text.amounts import check_digits, check_unit, prefix_for, scaled
from costcore.text.output import Column
from costcore.trace.call import Call
from costcore.trace.run import FLOPS
from costcore.trace.trace import CallCost, Trace

# Fused self-attention: PyTorch's fast path without gradients.


def fused_attention(trace: Trace, modules: ModuleIndex, only_frozen: bool = False) -> frozenset[str]:
    """Return the paths of modules that PyTorch runs as one fused operator if gradients are off.

    These are batch-first self-attention modules, and encoder layers around them.

    Args:
        trace: the run.
        modules: its modules.
        only_frozen: only modules in evaluation mode that need no gradient even in a run with gradients: neither they
            nor their inputs depend on a trained parameter.
    """
    calls: dict[str, list[Call]] = {}
    activated: set[str] = set()
    for call in trace.calls:
        if modules.types(call.module)[:1] == ("nn.MultiheadAttention",):
            calls.setdefault(call.module, []).append(call)
        elif call.layer.op in ("relu", "gelu"):  # as a function, or as a submodule nn.ReLU
            activated |= {call.module, call.module.rpartition(".")[0]}
    needs_gradient: frozenset[str] = frozenset()
    training: frozenset[str] = frozenset()
    if only_frozen and calls:
        needs_gradient = _with_ancestors(modules, compress(trace.calls, learned_inputs(trace)))
        training = _with_ancestors(modules, (call for call in trace.calls if call.layer.attrs.get("training")))
    fused: set[str] = set()
    for path, own in calls.items():
        if (scores := _self_attention_scores(own)) is None:
            continue
        parent = path.rpartition(".")[0]
        is_layer = path and parent in activated and modules.types(parent)[:1] == ("nn.TransformerEncoderLayer",)
        if path in needs_gradient or path in training or (path and parent in training):
            continue
        if is_layer and parent not in needs_gradient:
            fused |= {path, parent}
        elif _has_no_float_mask(own, scores):
            fused.add(path)
    return frozenset(fused)


def _with_ancestors(modules: ModuleIndex, calls: Iterable[Call]) -> frozenset[str]:
    return frozenset(path for call in calls for path in (call.module, *modules.ancestors(call.module)))


def _self_attention_scores(calls: Iterable[Call]) -> Call | None:
    # The fast path needs: batch first (transposed before the packed projection), packed projection with bias, an even
    # number of heads, and as many keys as queries (``add_bias_kv`` and ``add_zero_attn`` add some).
    is_transposed = False
    batch: Dim = 0
    for call in calls:
        layer = call.layer
        if call.operator == "aten::transpose" and batch == 0:
            is_transposed = True
        elif layer.op == "linear" and batch == 0:
            x, w = layer.get("x"), layer.get("w")
            if x is None or w is None:
                return None
            if not (is_transposed and x.ndim == 3 and w.shape[0] == 3 * x.shape[-1] and "b" in layer):
                return None
            batch = x.shape[1]
        elif layer.op in ("attention", "matmul") and batch != 0:
            queries, keys, *_ = (tensor.shape for tensor in layer.inputs.values())
            n_keys = keys[-2] if layer.op == "attention" else keys[-1]
            heads = floor_div(prod(queries[:-2]), batch)
            return call if heads % 2 == 0 and n_keys == queries[-2] else None
    return None


def _has_no_float_mask(calls: Iterable[Call], scores: Call) -> bool:
    # With ``is_causal``, the trace does not show the mask that the model passed. Assume a floating-point mask, which
    # PyTorch generates by default; a bool mask would show as the masked_fill that converts it.
    if scores.layer.attrs.get("causal"):
        return False
    made: set[int] = set()
    for call in calls:
        if call.operator == "aten::masked_fill" or (call.inputs and made.issuperset(call.inputs)):
            made.update(call.outputs)
    operands = zip(scores.layer.inputs, scores.inputs, strict=False)
    return all(each in made for name, each in operands if name in ("mask", "b"))


# Trained operands: whether an operand needs a gradient decides which operators PyTorch runs.


def learned_inputs(trace: Trace) -> list[tuple[int, ...]]:
    """Return, for each call, the positions of its inputs that are trained parameters or computed from them."""
    frozen = {parameter for module in trace.run.modules.values() for parameter in module.frozen}
    learned: set[int] = set()
    found: list[tuple[int, ...]] = []
    for call in trace.calls:
        parameters = iter(call.parameters)
        own = []
        for i, (tensor, each) in enumerate(zip(call.layer.inputs.values(), call.inputs, strict=False)):
            if (next(parameters, 0) not in frozen) if tensor.role == "param" else each in learned:
                own.append(i)
        if own:
            learned.update(each for each in call.outputs if each)
        found.append(tuple(own))
    return found


# Liveness: tracing tools drop calls that no output depends on.


def live_calls(trace: Trace) -> set[int] | None:
    """Return the positions of the calls that the outputs depend on; None if the outputs of the run are unknown.

    A call that writes to a storage that is needed later counts as live; so in-place calls are included.
    """
    if not trace.run.returned:
        return None
    returned = set(trace.run.returned)
    needed: set[int] = set()
    live: set[int] = set()
    for position in range(len(trace.records) - 1, -1, -1):
        call = trace.records[position].call
        ids = (*call.inputs, *call.outputs)
        storage = dict(zip(ids, call.storages, strict=False))
        # A tensor without a recorded storage is its own storage, with a negative key.
        keys = {each: storage.get(each, 0) or -each for each in ids if each}
        needed |= {key for each, key in keys.items() if each in returned}
        if any(keys[each] in needed for each in call.outputs if each):
            live.add(position)
            needed |= {keys[each] for each in call.inputs if each}
    return live


# API functions of calls.


_FUNCTIONAL = "F."

_PREFIXES = {"torch.nn.functional.": _FUNCTIONAL}


def has_api_calls(trace: Trace) -> bool:
    """Return whether the capture recorded API calls."""
    return any(call.function for call in trace.calls)


def short_function(qualified: str) -> str:
    """Return the short name of a function in rules: ``F.relu`` for ``torch.nn.functional.relu``."""
    for prefix, short in _PREFIXES.items():
        if qualified.startswith(prefix):
            return short + qualified.removeprefix(prefix)
    return qualified


_USUAL_FUNCTIONS: Mapping[str, str] = {
    **{
        name: f"{_FUNCTIONAL}{name}"
        for name in (
            *("linear", "conv1d", "conv2d", "conv3d", "batch_norm", "layer_norm", "group_norm", "instance_norm"),
            *("rms_norm", "softmax", "relu", "relu6", "gelu", "silu", "elu", "leaky_relu", "prelu", "hardtanh"),
            *("hardswish", "sigmoid", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d"),
            *("avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "embedding"),
            *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "scaled_dot_product_attention"),
        )
    },
    **{f"conv_transpose{n}d": f"{_FUNCTIONAL}conv_transpose{n}d" for n in (1, 2, 3)},
    **{
        f"upsample_{mode}": f"{_FUNCTIONAL}interpolate"
        for mode in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    },
    "matmul": "torch.matmul",
    "bmm": "torch.bmm",
    "mm": "torch.mm",
    "addmm": "torch.addmm",
    "baddbmm": "torch.baddbmm",
    "einsum": "torch.einsum",
    "add": "operator.add",
    "mul": "operator.mul",
}
"""The usual API function of an operator, by its native name."""


_ONLY_IN_MODULES = frozenset((f"{_FUNCTIONAL}relu", f"{_FUNCTIONAL}sigmoid"))
"""Functions that only ``torch.nn`` modules usually call; other code calls a method, or ``torch.relu``."""


def guessed_function(call: Call, types: tuple[str, ...]) -> str:
    """Return the function that most models call for an operator; empty if there is no usual one.

    Args:
        call: the call.
        types: the types of its module; see :meth:`ModuleIndex.types`.
    """
    function = _USUAL_FUNCTIONS.get(call.operator.partition("::")[2], "")
    in_torch_module = bool(types) and types[0].startswith("nn.")
    return "" if function in _ONLY_IN_MODULES and not in_torch_module else function


class Line(NamedTuple):
    """An amount that a rule of a convention gives.

    Attributes:
        position: the position of the call in the trace; None for a term of the network as a whole.
        rule: the key of the rule.
        expression: its expression as text.
        amount: the amount of all executions of the call.
    """

    position: int | None
    rule: str
    expression: str
    amount: Dim


@dataclass(frozen=True)
class Counts:
    """The counts of a run by a convention.

    Attributes:
        convention: the convention.
        lines: the amounts of its rules, in order of execution.
        notes: parts that could not be reproduced in this run.
    """

    convention: Convention
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class _RunFacts:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.modules = ModuleIndex(trace.run)
        self.has_api_calls = has_api_calls(trace)
        self._quantities: dict[tuple[Any, ...], tuple[Layer, Quantities]] = {}
        self._values: dict[tuple[int, str], Dim] = {}

    @cached_property
    def _learned(self) -> list[tuple[int, ...]]:
        return learned_inputs(self.trace)

    def value(self, expression: Expression, position: int) -> Dim:
        """Return the value of an expression for a call, cached for equal layers."""
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

    Without a release in the convention, the rules of the installed release of the tool apply.

    Raises:
        CostError: if the run lacks data that the convention needs, such as the types of modules.
    """
    convention = convention.of_release(trace.run.frameworks.get(convention.tool, ""))
    facts = _RunFacts(trace)
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
    types = set(re.findall(r"\bnn\.\w+", note))
    return not types or any(not types.isdisjoint(modules.types(path)) for path in modules)


EXPORTED = (
    "the graph counts as it was exported: norms that the exporter folded are missing, and a decomposed operator counts "
    "by its parts unless you pass regroup=True"
)


def _notes(facts: _RunFacts, each: Pass) -> Iterator[str]:
    if "onnx" in facts.trace.run.frameworks and len(each.rules) > 1:
        yield EXPORTED
    if each.live and not facts.trace.run.returned:
        yield "unused calls are counted too: the run did not record its outputs"
    if any("training" in rule.names for rule in each.rules.values()) and _is_training(facts.trace):
        yield "batch_norm ran in training mode, which counts more. Numbers are usually published for model.eval()."
    if each.by != "whole" and "backward" not in each.phases and any(c.phase == "backward" for c in facts.trace.calls):
        yield "the backward pass is not counted: this convention counts forward passes only"
    if each.by == "function" and not facts.has_api_calls:
        yield (
            "functions are assumed to be called by torch.nn modules. To record the calls, pass record_api_calls=True."
        )
    if each.by == "module call" and not facts.trace.run.module_calls:
        yield ("a module that is called twice in a row counts once. To count each call, pass record_api_calls=True.")


def _is_training(trace: Trace) -> bool:
    forward = (call.layer for call in trace.calls if call.phase == "forward")
    return any(layer.op == "batch_norm" and layer.attrs.get("training") for layer in forward)


def _count_calls(facts: _RunFacts, each: Pass, keys: Callable[[CallCost], Iterator[str]]) -> Iterator[Line]:
    live = live_calls(facts.trace) if each.live else None
    fused = _fused(facts, each)
    items = _batch_size(facts.trace) if each.per_item else 1
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
        if each.per_item:  # the tool divides the total, so the remainder carries over
            whole = amount + rest
            amount = floor_div(whole, items)
            rest = whole - amount * items
        yield Line(position, key or "", expression.text, amount)


def _fused(facts: _RunFacts, each: Pass) -> frozenset[str]:
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


def _count_by_operator(facts: _RunFacts, each: Pass) -> Iterator[Line]:
    return _count_calls(facts, each, lambda record: _operator_keys(record.call))


def _count_by_module(facts: _RunFacts, each: Pass) -> Iterator[Line]:
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


def _count_by_function(facts: _RunFacts, each: Pass) -> Iterator[Line]:
    def keys(record: CallCost) -> Iterator[str]:
        call = record.call
        function = (
            short_function(call.function)
            if facts.has_api_calls
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


def _batch_size(trace: Trace) -> Dim:
    # The first dimension of the only input; 1 for a model with several inputs.
    for module_call in trace.run.module_calls[:1]:
        shapes = module_call.inputs
        return shapes[0][0] if len(shapes) == 1 and shapes[0] else 1
    made: set[int] = set()
    given: dict[int, tuple[Dim, ...]] = {}
    for call in trace.calls:
        for tensor, each in zip(call.layer.inputs.values(), call.inputs, strict=False):
            if tensor.role == "data" and tensor.shape and each not in made:
                given[each] = tensor.shape
        made.update(call.outputs)
    shapes = tuple(given.values())
    return shapes[0][0] if len(shapes) == 1 else 1


_COUNTERS: Mapping[str, Callable[[_RunFacts, Pass], Iterator[Line]]] = {
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


# A report with the amounts of a convention.


class View(OfReport):
    """A report counted by a convention; returned by :meth:`costcore.Report.under`.

    It has the calls of the report, which does not change. A call that the convention does not count has the amount 0. A
    call that costcore could not count is unknown here, too, and the status is ``partial``. All ``show_…`` and ``to_…``
    methods of reports, ``tree`` and ``plot`` work, with the amounts of the convention in the column of FLOPs.

    Args:
        counts: the counts of the convention.
        trace: the run.
        make_report: returns the report of a trace.

    Attributes:
        counts: the convention, and a line for every call that it counts.
    """

    def __init__(self, counts: Counts, trace: Trace, make_report: Callable[[Trace], Any]) -> None:
        self.counts = counts
        self._make_report = make_report
        self._trace = trace

    def __repr__(self) -> str:
        return f"<{as_text(self.total)} {UNIT_NAMES[self.unit]} as {self.counts.convention.label} counts>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("show_", "to_")) or name in ("tree", "plot"):
            return getattr(self.report, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _text(self, mode: str = "", unit: str | None = "auto", n_digits: int | None = None, **options: Any) -> str:
        return self.describe(unit, 3 if n_digits is None else n_digits)

    def _content(self) -> Content:
        convention, unit = self.counts.convention, UNIT_NAMES[self.unit]
        says = f"{convention.tool} calls them {convention.calls_it}" if convention.calls_it else ""
        parts = _largest_first(self.by_term if self.is_closed_form else self.by("op"))
        entries = [{"part": name, "amount": amount} for name, amount in parts if amount != 0]
        columns = [Column("part", "Term" if self.is_closed_form else "Operator"), Column("amount", unit, "flops")]
        ignored = [f"{op} ({len(names)} call{'s' * (len(names) > 1)})" for op, names in self.ignored.items()]
        lines = [f"not counted by {convention.tool}: {', '.join(ignored)}"] if ignored else []
        return Content(
            f"{unit} as {convention.label} counts them, {self.status}",
            [Figure("total", unit, self.total, "count", says)],
            [Table("Largest first", columns, entries, n_digits=3)],
            [*lines, *([self._why_no_lines] * self.is_closed_form), *self.notes],
        )

    @cached_property
    def report(self) -> Any:
        """The report with the amounts of the convention as FLOPs, a :class:`costcore.Report`.

        It is built on demand, because explanations try many conventions and only need totals.

        Raises:
            CostError: if the convention is a closed form, which has no amounts of calls.
        """
        if self.is_closed_form:
            raise CostError(f"{self._why_no_lines}. Use total and by_term.")
        unit = UNIT_NAMES[self.unit]
        return self._make_report(counted_trace(self._trace, self.amounts, self.name, unit))

    @property
    def _why_no_lines(self) -> str:
        return (
            f"convention {self.name!r} is a closed form of the whole network, computed from its sizes and not from its "
            "calls: it has no amounts per call, operator or module"
        )

    @property
    def name(self) -> str:
        """The name of the convention."""
        return self.counts.convention.name

    @property
    def unit(self) -> str:
        """The unit: ``MAC``, ``FLOP``, ``MULT``, ``BOP`` or ``OP``."""
        return self.counts.convention.unit

    @cached_property
    def total(self) -> Dim:
        """The number that the tool prints: an exact int, or an expression in the symbolic dimensions."""
        return expanded_sum(line.amount for line in self.counts.lines)

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``; see :attr:`costcore.Report.status`."""
        return self._trace.status

    @property
    def notes(self) -> list[str]:
        """Known differences from the tool, with their size if it is known."""
        return list(self.counts.notes)

    @cached_property
    def by_call(self) -> dict[str, Dim]:
        """The amount of every call by name; 0 if the convention does not count it."""
        return {
            record.call.name: amount
            for record, amount in zip(self._trace, self.amounts, strict=True)
            if record.cost is not None
        }

    @cached_property
    def by_term(self) -> dict[str, Dim]:
        """The terms of a closed form by name; for other conventions, the amounts by rule."""
        terms: dict[str, list[Dim]] = {}
        for line in self.counts.lines:
            terms.setdefault(line.rule, []).append(line.amount)
        return {term: expanded_sum(amounts) for term, amounts in terms.items()}

    def by(self, *keys: str) -> dict[Any, Dim]:
        """Return the amounts by one or several of ``type``, ``op``, ``module``, ``phase``, ``dtype``, ``native``.

        Raises:
            TypeError: if there is no key, or if a key is not a string.
            ValueError: if a key is unknown.
            CostError: if the convention is a closed form, which has no amounts of calls.
        """
        return {group: sums["flops"] for group, sums in self.report.by(*keys).items()}

    @cached_property
    def ignored(self) -> dict[str, list[str]]:
        """Calls that the convention does not count although they do arithmetic or have parameters, by operator."""
        ignored: dict[str, list[str]] = {}
        for record, amount in zip(self._trace, self.amounts, strict=True):
            call = record.call
            if record.cost is not None and amount == 0 and _does_arithmetic(record.cost):
                ignored.setdefault(call.layer.op, []).append(call.name)
        return {} if self.is_closed_form else ignored

    def subs(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> View:
        """Return this view with values for symbolic dimensions; see :meth:`costcore.Report.subs`."""
        report = self._make_report(substitute_values(self._trace, {**(values or {}), **named}))
        return view_of(report, self.counts.convention)

    def describe(self, unit: str | None = "auto", n_digits: int | None = 3) -> str:
        """Return the total, its parts, and the operators that the convention ignores, as text.

        Args:
            unit: the unit prefix; see :meth:`costcore.Report.show_report`.
            n_digits: digits after the decimal point.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        check_unit(unit)
        digits = check_digits(n_digits)
        parts = self.by_term if self.is_closed_form else self.by("op")
        prefix = prefix_for([self.total], "flops") if unit in ("auto", "autoaligned") else unit or ""

        def text(amount: Dim) -> str:
            return scaled(amount, prefix, "flops", digits, fixed=True)

        convention = self.counts.convention
        says = f" calls them {convention.calls_it}" if convention.calls_it else ""
        amounts = ", ".join(f"{name} {text(amount)}" for name, amount in _largest_first(parts) if amount != 0)
        lines = [
            f"{text(self.total)} {prefix}{UNIT_NAMES[self.unit]} ({convention.label}{says}): {amounts or 'nothing'}"
        ]
        if self.ignored:
            ignored = ", ".join(f"{op} {len(names)}" for op, names in self.ignored.items())
            lines.append(f"calls that {convention.tool} ignores: {ignored}")
        lines += [self._why_no_lines] * self.is_closed_form
        return "\n".join(lines)

    @cached_property
    def lines(self) -> list[tuple[Call | None, Line]]:
        """Every line with its call; None for a term of a closed form."""
        records = self._trace.records
        return [(None if line.position is None else records[line.position].call, line) for line in self.counts.lines]

    @cached_property
    def amounts(self) -> Sequence[Dim]:
        """The amount of every call, in the order of the trace; 0 for a call that is not counted."""
        return amounts(self.counts, self._trace)

    @property
    def records(self) -> tuple[CallCost, ...]:
        """The calls of the report with their costs; see :class:`costcore.Trace`."""
        return self._trace.records

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the report."""
        return self._trace.calls

    @property
    def is_closed_form(self) -> bool:
        """Whether the convention is computed from the sizes of the whole network, without amounts per call."""
        return any(line.position is None for line in self.counts.lines)


def under(report: ReportLike, convention: str | PathLike[str]) -> View:
    """Return a report counted by a convention, given by name or file; see :meth:`costcore.Report.under`."""
    return view_of(report, find_convention(convention))


def view_of(report: ReportLike, convention: Convention) -> View:
    """Return a :class:`costcore.Report` counted by a convention.

    Raises:
        CostError: if the capture lacks data that the convention needs.
    """
    return View(count(report.trace, convention), report.trace, type(report))


def _largest_first(parts: Mapping[str, Dim]) -> list[tuple[str, Dim]]:
    return sorted(parts.items(), key=lambda item: -magnitude(item[1]))


def _does_arithmetic(cost: Cost) -> bool:
    flops = cost.flops if not hasattr(cost.flops, "flops") else cost.flops.flops()
    return bool(flops != 0 or cost.macs != 0)


def counted_trace(trace: Trace, amounts: Sequence[Dim], convention: str, unit: str) -> Trace:
    """Return a trace whose FLOPs are the amounts of a convention; its run has the name and unit of the convention.

    The amount of a call covers all its executions, so ``times`` becomes 1.

    Args:
        trace: the run.
        amounts: the amount of every call.
        convention: the name of the convention.
        unit: its unit, in the plural.
    """
    records = [_counted(record, amount) for record, amount in zip(trace, amounts, strict=True)]
    unit = f"{unit} ({convention})"  # distinguishes them from the MACs of costcore
    return Trace(tuple(records), replace(trace.run, convention=convention, unit=unit))


def _counted(record: CallCost, amount: Dim) -> CallCost:
    call, cost = record.call, record.cost
    if cost is None:
        return record
    times = call.times
    if times == 1:
        return record._replace(cost=cost._replace(flops=amount))
    whole = Cost(amount, cost.mread * times, cost.mwrite * times, cost.params, cost.macs * times, cost.mcomm * times)
    return record._replace(call=call._replace(times=1), cost=whole)


# The quantity ``flops@CONVENTION``.


def _at(name: str) -> Quantity:
    convention = find_convention(name)

    def counts(ledger: Ledger) -> Counts:
        if ledger.trace.run.unit != FLOPS:
            raise CostError(f"this report shows {ledger.trace.run.unit}. Ask for {name} on the original report.")
        return ledger.cached(("counts", name), lambda: count(ledger.trace, find_convention(name)))  # type: ignore[no-any-return]

    def is_counted(ledger: Ledger) -> bool:
        return ledger.trace.run.convention == convention.name

    def of_calls(ledger: Ledger) -> Sequence[Any]:
        if is_counted(ledger):
            return [entry["flops"] for entry in ledger.entries.values()]
        by_position = zip(amounts(counts(ledger), ledger.trace), ledger.trace, strict=True)
        return [amount for amount, record in by_position if record.cost is not None]

    def of_run(ledger: Ledger) -> Any:
        if is_counted(ledger):
            return ledger.total["flops"]
        return expanded_sum(line.amount for line in counts(ledger).lines)

    is_closed_form = any(each.by == "whole" for each in convention.counts)
    words = f"{UNIT_NAMES[convention.unit]} ({name})"
    return Quantity(
        *(f"flops@{name}", words, "flops", f"{UNIT_NAMES[convention.unit]} as {convention.label} counts them"),
        of_calls=None if is_closed_form else of_calls,
        of_run=of_run,
        needs={"record_api_calls": True} if convention.needs_functions else {},
        remarks=lambda ledger: [] if is_counted(ledger) else [*counts(ledger).notes],
    )


QUANTITIES = (
    Quantity(
        "flops@CONVENTION",
        "FLOPs",
        "flops",
        "FLOPs by the rules of another tool: a name of costcore.conventions(), or a path",
        at=_at,
    ),
)
