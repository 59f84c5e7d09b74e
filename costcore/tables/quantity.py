"""Quantities: numbers or texts of a run, a call or a group of calls. They are the columns of all tables.

A :class:`Quantity` defines how it is computed per call and combined for groups. Then follow the registry, and the
quantities of every run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import fsum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, did_you_mean, short_repr, unknown
from costcore.ledger.ledger import Ledger, flops_of, memory, multiplied, nodes_by_call
from costcore.numbers import expanded_sum, floor_div, maximum, share
from costcore.plugins import cached, objects_from_plugins, with_plugin_hint
from costcore.text.output import Column
from costcore.trace.call import NONZERO_WEIGHTS, Call, computed_pairs

Combination: TypeAlias = "str | Callable[[Ledger, Sequence[Call]], Any]"

NUMERIC = ("flops", "bytes", "count", "percent", "seconds", "duration", "ratio")
"""The kinds of numeric quantities and columns."""


class Quantity(NamedTuple):
    """One number, or text, about a run, a call, or a group of calls.

    ::

        def cycles(ledger):
            return [ceil_div(cost.macs, 256) * call.times for call, cost in ledger.counted]

        Quantity("cycles", "Cycles", "count", "cycles of an array of 16 x 16 multipliers", cycles)

    If values are unavailable, the function raises a :class:`costcore.CostError` that says how to get them. ``None`` is
    an unknown value.

    Attributes:
        name: its name. A parameter follows ``@``, as in ``bound_seconds@l4``; the quantity that takes it is named
            ``bound_seconds@DEVICE``, and has ``at``.
        title: the title of its column.
        kind: its format and order: ``flops`` and ``bytes`` (with a prefix, of 1000 or 1024), ``count``,
            ``duration`` and ``seconds`` (in seconds; ``seconds`` are written as milliseconds), ``percent``, ``ratio``,
            or ``text``, ``shape``, ``shapes``, ``names`` and ``attributes``.
        doc: its definition in one phrase, with the unit.
        of_calls: returns the value of every counted call, in the order of :attr:`Ledger.counted`; None for a quantity
            of the whole run only.
        combine: how to combine the values of calls for a group: ``sum``, ``max``, ``first``, ``last``, ``same`` (the
            common value; empty if they differ), or a function of the ledger and the calls.
        of_run: returns the value of the whole run; default: the value of the group of all calls.
        at: returns the quantity for a parameter.
        needs: options of :func:`costcore.estimate` that it requires.
        certainty: ``exact``, ``bound`` (a lower bound), ``calibrated`` or ``measured``.
        words: its name in running text; default: the title.
        remarks: returns lines that explain its values.
        missing: returns lines on unknown parts that its values do not include.
    """

    name: str
    title: str
    kind: str
    doc: str
    of_calls: Callable[[Ledger], Sequence[Any]] | None = None
    combine: Combination = "sum"
    of_run: Callable[[Ledger], Any] | None = None
    at: Callable[[str], Quantity] | None = None
    needs: Mapping[str, Any] = MappingProxyType({})
    certainty: str = "exact"
    words: str = ""
    remarks: Callable[[Ledger], Sequence[str]] = lambda _: ()
    missing: Callable[[Ledger], Sequence[str]] = lambda _: ()

    @property
    def column(self) -> Column:
        """The column of its values."""
        return Column(self.name, self.title, self.kind, self.certainty)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers, which can be limited, compared and drawn."""
        return self.kind in NUMERIC

    @property
    def has_share(self) -> bool:
        """Whether ``NAME%`` exists: the share of the total, for quantities that add up."""
        return self.is_number and self.combine == "sum" and self.of_calls is not None

    @property
    def is_of_run_only(self) -> bool:
        """Whether it only has a value for the whole run."""
        return self.of_calls is None and not callable(self.combine)

    @property
    def in_words(self) -> str:
        """Its name in running text."""
        return self.words or self.title

    def by_call(self, ledger: Ledger) -> Sequence[Any]:
        """Return the value of every counted call, cached in the ledger.

        Raises:
            CostError: if the run lacks it, or if it is a quantity of the whole run only.
        """
        if self.of_calls is None:
            raise CostError(f"{self.name} is known of the whole run only, not of calls: see report.table('run')")
        of_calls = self.of_calls
        values: Sequence[Any] = ledger.cached((self.name, of_calls), lambda: of_calls(ledger))
        if len(values) != len(ledger.counted):
            raise CostError(
                f"quantity {self.name!r}: of_calls must return a value for each of the {len(ledger.counted)} counted "
                f"calls (got {len(values)})"
            )
        return values

    def of(self, ledger: Ledger, calls: Sequence[Call]) -> Any:
        """Return the value of a group of counted calls.

        Raises:
            CostError: see :meth:`by_call`.
        """
        if callable(self.combine):
            return self.combine(ledger, calls)
        values = self.by_call(ledger)
        of_group = [values[ledger.position[call.name]] for call in calls]
        return of_group[0] if len(of_group) == 1 else _COMBINED[self.combine](of_group)

    def total(self, ledger: Ledger) -> Any:
        """Return the value of the whole run, cached in the ledger.

        Raises:
            CostError: if the run lacks it.
        """
        of_run = self.of_run
        if of_run is not None:
            return ledger.cached((self.name, of_run), lambda: of_run(ledger))
        return ledger.cached((self.name, self.combine, "total"), lambda: self.of(ledger, ledger.calls))

    def of_values(self, values: Sequence[Any]) -> Any:
        """Combine the values of several groups; empty if that is not possible."""
        return "" if callable(self.combine) else _COMBINED[self.combine](values)

    def share(self, part: Any, ledger: Ledger) -> float | None:
        """Return the value of a part in percent of the total; None if it depends on symbolic sizes."""
        whole = self.total(ledger)
        ratio = None if part is None or whole is None else share(part, whole)
        return None if ratio is None else 100 * ratio


def check_quantity(quantity: Quantity) -> None:
    """Check the name, the kind and the combination of a quantity.

    Raises:
        ValueError: if one is invalid.
    """
    if not re.fullmatch(r"[A-Za-z]\w*(@\S+)?", quantity.name) or ("@" in quantity.name) != (quantity.at is not None):
        raise ValueError(
            f"{quantity.name!r} is not the name of a quantity (expected a word, or WORD@PARAMETER of one with at=…)"
        )
    kinds = (*NUMERIC, "text", "shape", "shapes", "names", "attributes")
    if quantity.kind not in kinds:
        raise ValueError(f"quantity {quantity.name!r}: unknown kind {short_repr(quantity.kind)} ({', '.join(kinds)})")
    if not callable(quantity.combine) and quantity.combine not in _COMBINED:
        expected = f"{', '.join(_COMBINED)}, or a function"
        raise ValueError(f"quantity {quantity.name!r}: unknown combination {quantity.combine!r} ({expected})")


def _sum(values: Sequence[Any]) -> Any:
    # Unknown values are ignored, unless all are unknown.
    known = [value for value in values if value is not None]
    if values and not known:
        return None
    return fsum(known) if any(isinstance(value, float) for value in known) else expanded_sum(known)


def _max(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return reduce(maximum, known) if known else (None if values else 0)


def _first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value not in (None, "")), "")  # () is the shape of a number


def _last(values: Sequence[Any]) -> Any:
    return _first(values[::-1])


def _same(values: Sequence[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else ""


_COMBINED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "sum": _sum,
    "max": _max,
    "first": _first,
    "last": _last,
    "same": _same,
}


# Registry: quantities that are built in, of analyses, or of plug-ins.


@cached
def registered() -> Mapping[str, Quantity]:
    """Return every quantity by name; a quantity with a parameter is named ``bound_seconds@DEVICE``.

    Raises:
        CostError: if a plug-in fails, or if two quantities have the same name.
    """
    known = dict(COSTS)
    for quantities in objects_from_plugins("costcore_quantities", Quantity):
        for quantity in quantities:
            try:
                check_quantity(quantity)
            except ValueError as error:
                raise CostError(str(error)) from error
            if quantity.name in known:
                raise CostError(f"there are two quantities {quantity.name!r}. Rename the plug-in's quantity.")
            known[quantity.name] = quantity
    return known


def quantity(name: str) -> Quantity:
    """Return a quantity by name: ``flops``, or with a parameter ``flops@fvcore``, ``bound_seconds@l4:bfloat16``.

    Raises:
        ValueError: if the name is unknown, or if the parameter is missing or unknown.
        CostError, OSError: if the parameter is a file that cannot be read.
    """
    return COSTS[name] if name in COSTS else _found(name)


@cached
def _found(name: str) -> Quantity:
    known = registered()
    if name in known and "@" not in name:
        return known[name]
    stem, _, parameter = name.partition("@")
    family = _with_parameter(stem)
    if family is None or family.at is None:
        raise ValueError(with_plugin_hint(unknown("column", name, known)))
    if not parameter:
        raise ValueError(f"column {name!r} needs a parameter: {family.name}")
    return family.at(parameter)


def _with_parameter(stem: str) -> Quantity | None:
    return next((each for name, each in registered().items() if name.startswith(f"{stem}@")), None)


def is_quantity(name: object) -> bool:
    """Return whether this is a quantity or the name of one, possibly with a parameter after ``@``."""
    if isinstance(name, Quantity):
        return True
    if not isinstance(name, str):
        return False
    name = name.removesuffix("%")
    return name in COSTS or name in registered() or _with_parameter(name.partition("@")[0]) is not None


def column_of(name: str | Quantity) -> Column:
    """Return the column of a quantity, or of its share of the total: ``macs%``.

    Raises:
        ValueError, CostError, OSError: see :func:`quantity`; also if the quantity has no share.
    """
    if isinstance(name, Quantity):
        check_quantity(name)
        return name.column
    found = quantity(name.removesuffix("%"))
    if not name.endswith("%"):
        return found.column
    if not found.has_share:
        raise ValueError(f"{found.name} has no share of a total: its values do not add up")
    return Column(name, found.title, "percent", found.certainty)


def quantities_of(names: Iterable[str | Quantity]) -> list[Quantity]:
    """Return the distinct quantities of columns; a share (``macs%``) gives its quantity (``macs``).

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`.
    """
    found = (each if isinstance(each, Quantity) else quantity(each.removesuffix("%")) for each in names)
    return [*{each.name: each for each in found}.values()]


def numbers() -> list[str]:
    """Return the names of all numeric quantities."""
    return [name for name, each in registered().items() if each.is_number]


def numeric(name: str) -> Quantity:
    """Return a numeric quantity by name.

    Raises:
        ValueError, CostError, OSError: see :func:`quantity`; also if its values are text.
    """
    if not is_quantity(name):
        raise ValueError(with_plugin_hint(unknown("column", name, numbers())))
    found = quantity(name)
    if not found.is_number:
        raise ValueError(f"column {name!r} is text (expected a number, such as macs){did_you_mean([name], numbers())}")
    return found


def needed_options(names: Iterable[str]) -> dict[str, Any]:
    """Return the options of :func:`costcore.estimate` that some quantities need.

    Raises:
        ValueError, CostError, OSError: as :func:`quantity`.
    """
    return {option: value for each in quantities_of(names) for option, value in each.needs.items()}


# Quantities of every run: properties of a call, and its costs.


def _of_entries(key: str) -> Callable[[Ledger], Sequence[Any]]:
    return lambda ledger: [entry.get(key) for entry in ledger.entries.values()]


def _cost(name: str, title: str, kind: str, doc: str, words: str = "") -> Quantity:
    return Quantity(name, title, kind, doc, _of_entries(name), words=words)


def _text(name: str, title: str, doc: str, kind: str = "text", combine: str = "same") -> Quantity:
    return Quantity(name, title, kind, doc, _of_entries(name), combine)


def measured_seconds(ledger: Ledger) -> Sequence[Any]:
    """Return the measured seconds of every counted call; None if a call was not measured.

    Raises:
        CostError: if no call was measured.
    """
    if "seconds" not in ledger.total:
        raise CostError(
            "seconds were not measured. Pass measure_time=True to ComputationalCostHook, and run the model inside it, "
            "or the trace of a profiler to estimate."
        )
    return _of_entries("seconds")(ledger)


def time_of_uncounted(ledger: Ledger) -> Sequence[str]:
    """Return a line on the measured time of calls without a cost, which no row includes."""
    seconds = fsum(record.seconds or 0.0 for record in ledger.trace if record.cost is None)
    if not seconds:
        return []
    from costcore.text.amounts import duration  # imports fractions

    return [f"measured time: {duration(seconds)} of calls without a cost are left out"]


def _parameters(ledger: Ledger, calls: Sequence[Call]) -> Any:
    return ledger.n_params(parameter for call in calls for parameter in call.parameters)


def _shared(ledger: Ledger, calls: Sequence[Call]) -> Any:
    if not calls:
        return 0
    # A parameter belongs to the first call that reads it.
    earlier = {p for call in ledger.calls[: ledger.position[calls[0].name]] for p in call.parameters}
    return ledger.n_params({parameter for call in calls for parameter in call.parameters} & earlier)


def _learned(name: str, title: str, doc: str, is_frozen: bool) -> Quantity:
    def frozen(ledger: Ledger) -> Any:
        modules = ledger.trace.run.modules.values()
        return ledger.cached("frozen", lambda: {parameter for module in modules for parameter in module.frozen})

    def of_group(ledger: Ledger, calls: Sequence[Call]) -> Any:
        read = {parameter for call in calls for parameter in call.parameters}
        return ledger.n_params(read & frozen(ledger) if is_frozen else read - frozen(ledger))

    def of_run(ledger: Ledger) -> Any:
        from costcore.ledger.modules import build

        value = build(ledger.trace, ledger)[name]  # includes parameters that no call reads
        return of_group(ledger, ledger.calls) if value is None else value

    return Quantity(
        *(name, title, "count", doc),
        lambda ledger: [of_group(ledger, [call]) for call in ledger.calls],
        of_group,
        of_run,
    )


def _buffers(ledger: Ledger) -> Any:
    from costcore.ledger.modules import build

    value = build(ledger.trace, ledger)["n_buffers"]
    if value is None:
        raise CostError("n_buffers needs the modules of a model: pass the model to estimate (PyTorch, Chainer).")
    return value


PACKED = frozenset(("packed_linear",))
"""Operators with a packed weight (several values per element), which is counted as a dense weight."""


def _n_weights(ledger: Ledger, calls: Sequence[Call]) -> Any:
    found: dict[Any, Any] = {}
    for call in calls:
        layer = call.layer
        keys: Sequence[Any] = call.storages or call.inputs  # some frontends know no storages
        for place, (name, tensor) in enumerate(layer.inputs.items()):
            is_packed = layer.op in PACKED and name == "w"
            if is_packed or tensor.role == "param":
                key = keys[place] if place < len(keys) else (call.name, place)
                found[key] = layer["x"].shape[-1] * layer.out.shape[-1] if is_packed else tensor.size
    return expanded_sum(found.values())


def _weight_bytes(ledger: Ledger, calls: Sequence[Call]) -> Any:
    sizes, found = ledger.trace.run.parameters, dict[int, Any]()
    for call in calls:
        weights = {i: tensor for i, tensor in enumerate(call.layer.inputs.values()) if tensor.role == "param"}
        if not call.parameters:  # weights that are not learned, such as quantized ones
            found |= {-1 - call.inputs[i]: tensor.nbytes for i, tensor in weights.items() if i < len(call.inputs)}
        for parameter in call.parameters if weights else ():
            size = sizes[parameter]  # a call may read a part of it
            of_size = (tensor for tensor in weights.values() if tensor.size == size)
            found.setdefault(parameter, next(of_size, next(iter(weights.values()))).bytes_of(size))
    return expanded_sum(found.values())


def _attention_pairs(ledger: Ledger) -> Sequence[Any]:
    return [multiplied(computed_pairs(call.layer), call.times) for call in ledger.calls]


def _nonzero_macs(ledger: Ledger) -> Sequence[Any]:
    known = NONZERO_WEIGHTS.of(ledger.trace.run)
    if known is None:
        raise CostError("nonzero_macs needs estimate(..., nonzero=True) of a model with its weights")
    found = []
    for call, cost in ledger.counted:
        nonzero, size = known.get(call.module, (1, 1)) if "w" in call.layer else (1, 1)
        found.append(multiplied(floor_div(cost.macs * nonzero, size), call.times))
    return found


def _operations(ledger: Ledger, calls: Sequence[Call]) -> dict[str, Any]:
    of_calls = [ledger.entries[call.name]["operations"] for call in calls]
    classes = dict.fromkeys(name for operations in of_calls for name in operations)
    return {name: expanded_sum(each[name] for each in of_calls if name in each) for name in classes}


def _nodes(key: str) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        nodes = nodes_by_call(ledger.trace)
        return [nodes.get(call.name, {}).get(key, ()) for call in ledger.calls]

    return of_calls


def _shape(is_output: bool) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        layers = [call.layer for call in ledger.calls]
        tensors = [layer.outputs if is_output else tuple(layer.inputs.values()) for layer in layers]
        return [each[0].shape if each else "" for each in tensors]

    return of_calls


def _flops(fma_1flop: bool) -> Callable[[Ledger], Sequence[Any]]:
    return lambda ledger: [multiplied(flops_of(cost, fma_1flop), call.times) for call, cost in ledger.counted]


def _activations(ledger: Ledger) -> Sequence[Any]:
    return [memory(call, cost) if call.phase == "forward" else 0 for call, cost in ledger.counted]


AMOUNTS = ("flops", "macs", "mread", "mwrite", "mrw", "n_params", "mcomm")
"""The quantities in comparisons, files and pictures, which ``max_increase`` of a budget limits.

Runs without communication have no entry ``mcomm``; it is 0."""


COSTS: Mapping[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        _text("name", "Layer name", "name of the call"),
        _text("type", "Layer type", "the framework's own name of the operator"),
        _text("op", "Operator", "canonical name of the operator"),
        _text("module", "Module", "path of the module that makes the call"),
        _text("phase", "Phase", "forward, backward, recompute or optimizer"),
        _text("dtype", "Element type", "dtype of the first output"),
        Quantity(
            *("native", "Native operator", "text", "the framework's full name of the operator"),
            lambda ledger: [call.native for call in ledger.calls],
            "same",
        ),
        _text("input_shapes", "Input shapes", "shapes of all inputs", "shapes"),
        _text("output_shapes", "Output shapes", "shapes of all outputs", "shapes"),
        Quantity("input_shape", "Input shape", "shape", "shape of the first input", _shape(False), "first"),
        Quantity("output_shape", "Output shape", "shape", "shape of the first output", _shape(True), "last"),
        _text("params", "Attributes", "settings of the operator", "attributes"),
        _text("traceback", "Traceback", "where in the user's code the call was made, with tracebacks=True"),
        Quantity("nodes", "Nodes", "names", "nodes of the graph that the call stands for", _nodes("nodes"), "same"),
        Quantity("outputs", "Outputs", "names", "values of the graph that the call makes", _nodes("outputs"), "same"),
        Quantity(
            *("operations", "Operations", "attributes", "operations by class: fma, mul, add, div, cmp, special"),
            _of_entries("operations"),
            _operations,
        ),
        _cost("flops", "FLOPs", "flops", "floating-point operations"),
        _cost("macs", "MACs", "flops", "multiply-adds of matrix products and convolutions"),
        _cost("mread", "MemRead", "bytes", "bytes read, each needed element of an input once", "bytes read"),
        _cost("mwrite", "MemWrite", "bytes", "bytes written, each element of an output once", "bytes written"),
        _cost("mrw", "MemR+W", "bytes", "bytes read and written", "bytes read and written"),
        Quantity(
            *("mcomm", "MemSent", "bytes", "bytes that a process sends to others"),
            lambda ledger: [entry.get("mcomm", 0) for entry in ledger.entries.values()],
            words="bytes sent",
        ),
        Quantity(
            *("n_params", "# Params", "count", "elements of the learned parameters that are read, shared ones once"),
            _of_entries("n_params"),
            _parameters,
            words="parameters",
        ),
        Quantity(
            "n_params_model",
            "Params",
            "count",
            "elements of all parameters of the model; without a model, of those read",
            of_run=lambda ledger: ledger.total.get("n_params_model", ledger.total["n_params"]),
            words="parameters of the model",
        ),
        Quantity(
            *("n_shared", "# Shared", "count", "elements of the parameters that an earlier call or module has too"),
            lambda ledger: [_shared(ledger, [call]) for call in ledger.calls],
            _shared,
        ),
        Quantity(
            *("n_layers", "# Calls", "count", "calls with a cost"),
            lambda ledger: [1] * len(ledger.counted),
            words="calls",
        ),
        Quantity(
            *("n_unknown", "# Unknown", "count", "calls without a cost"),
            of_run=lambda ledger: len(ledger.trace) - len(ledger.counted),
            words="calls without a cost",
        ),
        _learned("n_trainable", "# Trainable", "elements of the parameters that are trained", is_frozen=False),
        _learned("n_frozen", "# Frozen", "elements of the parameters that are not trained", is_frozen=True),
        Quantity("n_buffers", "# Buffers", "count", "elements of the state that is not learned", of_run=_buffers),
        Quantity(
            *(
                "n_weights",
                "# Weights",
                "count",
                "values of the weights that are read, including values in packed elements",
            ),
            lambda ledger: [_n_weights(ledger, [call]) for call in ledger.calls],
            _n_weights,
            words="weights",
        ),
        Quantity(
            *("weight_bytes", "Weights", "bytes", "size of the weights that are read, shared ones once"),
            lambda ledger: [_weight_bytes(ledger, [call]) for call in ledger.calls],
            _weight_bytes,
            words="bytes of weights",
        ),
        Quantity(
            *("attention_pairs", "Pairs", "count", "pairs of queries and keys of attention, over all heads"),
            _attention_pairs,
            words="pairs of queries and keys",
        ),
        Quantity(
            *("nonzero_macs", "Nonzero MACs", "flops", "multiply-adds with weights that are not zero"),
            _nonzero_macs,
            needs={"nonzero": True},
            words="multiply-adds with nonzero weights",
        ),
        Quantity(
            "memory",
            "Memory",
            "bytes",
            "size of the outputs, 0 for views",
            lambda ledger: [memory(call, cost) for call, cost in ledger.counted],
            words="bytes of outputs",
        ),
        Quantity("activations", "Activations", "bytes", "size of the outputs of forward calls", _activations),
        Quantity("madd", "MAdd", "flops", "FLOPs with a fused multiply-add counted as two", _flops(False)),
        Quantity("flops_fma1", "Flops", "flops", "FLOPs with a fused multiply-add counted as one", _flops(True)),
        Quantity(
            *("seconds", "Measured", "seconds", "measured time, of a trace or a run with measure_time=True"),
            measured_seconds,
            certainty="measured",
            words="seconds measured",
            missing=time_of_uncounted,
        ),
    )
}
"""The quantities by name, in the order of documentation."""
