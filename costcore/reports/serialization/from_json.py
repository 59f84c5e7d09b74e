"""Reports read back from JSON. Files are not trusted: every field is validated, and errors state where they are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.dims import Dim
from costcore.errors import CostError
from costcore.ir import BITS, OPERATION_CLASSES, Cost, Layer, Operations, Tensor
from costcore.memory.ledger import KINDS, Block, MemoryLedger
from costcore.messages import error_text, short_repr
from costcore.reports.ledger import Ledger, flops_of, multiplied
from costcore.reports.serialization.codec import Decoder, Encoder, malformed
from costcore.reports.serialization.expression_parts import MOST_BITS
from costcore.reports.serialization.to_json import SCHEMA, total_entry
from costcore.symbolic import expanded_sum
from costcore.trace.call import PHASES, Assumption, Call, Module, ModuleCall, Uncounted
from costcore.trace.dataflow import Dataflow, Step, Value
from costcore.trace.gc_paused import collector_off
from costcore.trace.run import FLOPS, Regrouping, Run
from costcore.trace.trace import CallCost, Trace

ROLES = ("data", "param", "state", "const")
LAYOUTS = ("framework", "free")

FOUND_BY_FRONTENDS = (Uncounted.NO_SHAPES, Uncounted.OTHER_THREADS)
"""The reasons for which a frontend, not a calculator, leaves a call uncounted; the call itself carries them."""

MOST_DIGITS = len(str(1 << MOST_BITS))
"""The maximum number of digits of a number."""

_REQUIRED: Any = object()


class Contents(NamedTuple):
    """The contents of a report file.

    Attributes:
        trace: the run with the cost of every call.
        total: the total as the file states it, not yet compared with the sum of the calls.
        source: the path of the file, or ``the report``, for messages.
        keys: the key of each symbol in the file.
        flops: the FLOPs of each cost in the file, by its id.
    """

    trace: Trace
    total: Mapping[str, Any]
    source: str
    keys: Mapping[Any, str]
    flops: Mapping[int, Dim]

    @property
    def is_consistent(self) -> bool:
        """True if the total is the sum of the calls."""
        sums = (self._sums, lambda: Ledger(self.trace).total)  # a ledger sums in another order, and takes longer
        return any(total_entry(total(), Encoder(self.keys)) == self.total for total in sums)

    def _sums(self) -> dict[str, Dim]:
        """Return the sums of all calls, as a ledger has them, but without an entry for each call."""
        counted = [(call, cost) for call, cost, _, _, _ in self.trace.records if cost is not None]
        parameters = {parameter for call, _ in counted for parameter in call.parameters}
        amounts: dict[Any, tuple[Dim, ...]] = {}
        for call, cost in counted:
            key = id(cost), call.times
            if key not in amounts:
                once = self.flops[id(cost)], cost.macs, cost.mread, cost.mwrite
                amounts[key] = tuple([multiplied(amount, call.times) for amount in once])
        of_calls = zip(*(amounts[id(cost), call.times] for call, cost in counted), strict=True)
        flops, macs, mread, mwrite = map(expanded_sum, of_calls if counted else [()] * 4)
        sizes = (self.trace.run.parameters[parameter] for parameter in parameters)
        return {
            "flops": flops,
            "macs": macs,
            "mread": mread,
            "mwrite": mwrite,
            "mrw": expanded_sum((mread, mwrite)),
            "n_layers": len(counted),
            "n_params": expanded_sum(sizes),
        }


def read(source: str | bytes | PathLike[str]) -> Contents:
    """Return the contents of a report.

    Args:
        source: JSON text, or a path; a string that does not start with a brace is a path.

    Raises:
        CostError: if the file cannot be read, is not JSON, or is not a report; the message contains the path and the
            location in the file.
    """
    text, name = source, "the report"
    if isinstance(source, PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{")):
        name = str(source)
        try:
            text = Path(source).read_bytes()
        except (OSError, ValueError) as error:
            raise CostError(f"{name} cannot be read: {error_text(error)}") from error
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"expected a report as JSON text or as a path (got {source!r})")
    try:
        with collector_off():
            data = json.loads(text, parse_constant=_reject_constant, parse_int=_integer)
            return _contents(_Object(data, ""), name)
    except CostError as error:
        raise CostError(f"{name} is not a {SCHEMA} report: {error}") from error
    except RecursionError as error:
        raise CostError(f"{name} is not a {SCHEMA} report: it is nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError, _ConstantError) as error:
        raise CostError(f"{name} is not JSON: {error}") from error


def _integer(digits: str) -> int:
    """Return an integer of the file.

    Raises:
        CostError: if it is larger than any amount; sums and products of such numbers could not be printed.
    """
    if len(digits) > MOST_DIGITS:
        raise CostError(f"a number of {len(digits)} digits is too large (expected at most {MOST_DIGITS})")
    return int(digits)


class _ConstantError(ValueError):
    """A constant of JavaScript that JSON does not have, such as ``NaN``."""


def _reject_constant(constant: str) -> None:
    raise _ConstantError(f"{constant} is not a JSON number")


class _Object:
    """A JSON object of the file. Each field is read once; :meth:`end` reports the fields that were not read.

    Attributes:
        where: location of the object in the file; empty for the file itself.
    """

    def __init__(self, data: Any, where: str) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise malformed(where or "the file", "wrong type", data, "an object")
        self._unread = dict(data)

    def field(self, key: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """Return the value of a field of exactly this type; true is not an integer."""
        value = self._unread.pop(key, default)
        if value is _REQUIRED:
            raise CostError(f"{self.where or 'the file'}: {key!r} is missing")
        if value is not default and type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise malformed(self.path_of(key), "wrong type", value, _type_names(kind))
        return value

    def choice(self, key: str, choices: tuple[str, ...] | Mapping[str, Any], default: Any = _REQUIRED) -> str:
        """Return a string that must be one of ``choices``."""
        value: str = self.field(key, str, default)
        if value not in choices:
            raise malformed(self.path_of(key), "unknown value", value, f"one of {', '.join(choices)}")
        return value

    def amount(self, key: str, decoder: Decoder, default: Any = _REQUIRED) -> Dim:
        """Return an integer of at least 0, or a symbolic expression."""
        return _amount(self.field(key, (int, str, list), default), self.path_of(key), decoder)

    def objects(self, key: str, default: Any = _REQUIRED) -> list[_Object]:
        """Return a list of objects."""
        return [_Object(data, f"{self.path_of(key)}[{i}]") for i, data in enumerate(self.field(key, list, default))]

    def shapes(self, key: str, decoder: Decoder) -> tuple[tuple[Dim, ...], ...]:
        """Return a list of shapes; empty if the field is omitted."""
        where, shapes = self.path_of(key), self.field(key, list, [])
        if any(type(shape) is not list for shape in shapes):
            raise malformed(where, "wrong type", shapes, "lists of sizes")
        return tuple(tuple(_amount(size, where, decoder) for size in shape) for shape in shapes)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers; empty if the field is omitted."""
        values = self.field(key, list, [])
        if any(type(value) is not int for value in values):
            raise malformed(self.path_of(key), "wrong type", values, "integers")
        return tuple(values)

    def pairs(self, key: str) -> tuple[tuple[int, int], ...]:
        """Return a list of pairs of integers; empty if the field is omitted."""
        values = self.field(key, list, [])
        for value in values:
            if type(value) is not list or len(value) != 2 or any(type(each) is not int for each in value):
                raise malformed(self.path_of(key), "wrong type", value, "pairs of integers")
        return tuple((first, second) for first, second in values)

    def strings(self, key: str, default: Any = _REQUIRED) -> list[str]:
        """Return a list of strings."""
        values: list[str] = self.field(key, list, default)
        if any(type(value) is not str for value in values):
            raise malformed(self.path_of(key), "wrong type", values, "strings")
        return values

    def attributes(self, key: str, decoder: Decoder) -> dict[str, Any]:
        """Return the attributes of an operator by name."""
        where = self.path_of(key)
        return {name: decoder.value(value, f"{where}.{name}") for name, value in self.field(key, dict).items()}

    def end(self) -> None:
        """Check that every field was read.

        Raises:
            CostError: if the object has a field that the schema does not define.
        """
        if self._unread:
            raise CostError(f"{self.where or 'the file'}: unknown {', '.join(map(short_repr, self._unread))}")

    def path_of(self, key: str) -> str:
        """Return the location of a field in the file."""
        return f"{self.where}.{key}" if self.where else key


def _amount(value: Any, where: str, decoder: Decoder) -> Dim:
    return _check_sign(decoder.dim(value, where), where)


def _check_sign(amount: Dim, where: str) -> Dim:
    if isinstance(amount, int) and amount < 0:
        raise malformed(where, "negative", amount, "at least 0")
    return amount


def _type_names(kind: type | tuple[type, ...]) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        int: "an integer",
        bool: "true or false",
        float: "a number",
    }
    return " or ".join(names[each] for each in (kind if isinstance(kind, tuple) else (kind,)))


def _contents(file: _Object, source: str) -> Contents:
    schema = file.field("schema", str)
    if schema != SCHEMA:
        raise malformed("schema", "unknown schema", schema, repr(SCHEMA))
    symbols = {}
    for key, data in file.field("symbols", dict).items():
        entry = _Object(data, f"symbols.{short_repr(key)}")
        assumptions = entry.field("assumptions", dict)
        if any(type(value) is not bool for value in assumptions.values()):
            raise malformed(entry.path_of("assumptions"), "wrong type", assumptions, "true or false for each")
        symbols[key] = entry.field("name", str), assumptions
        entry.end()
    decoder = Decoder(symbols)
    run = _run(file, decoder)
    layers = [_layer(entry, decoder) for entry in file.objects("layers")]
    costs, flops = [], {}
    for entry in file.objects("costs"):
        cost, amount = _cost(entry, run.fma_1flop, decoder)
        costs.append(cost)
        flops[id(cost)] = amount
    records = tuple(_call(entry, layers, costs, run, decoder) for entry in file.objects("calls"))
    trace = Trace(records, replace(run, memory=_memory(file, len(records))))
    if len({call.name for call in trace.calls}) != len(trace):
        raise CostError("calls: two calls have the same name")
    stated = file.choice("status", ("complete", "assumed", "partial"))
    if (stated == "partial") == trace.is_complete:  # earlier versions called assumed reports complete
        raise malformed("status", "it contradicts the calls", stated, repr(trace.status))
    total = file.field("total", dict)
    file.end()
    return Contents(trace, total, source, decoder.keys, flops)


def _parameters(file: _Object, decoder: Decoder) -> dict[int, Dim]:
    parameters = {}
    for entry in file.objects("parameters"):
        identity = entry.field("id", int)
        if identity in parameters:
            raise CostError(f"{entry.where}: duplicate parameter {identity}")
        parameters[identity] = entry.amount("size", decoder)
        entry.end()
    return parameters


def _modules(file: _Object, parameters: Mapping[int, Dim], decoder: Decoder) -> dict[str, Module]:
    modules = {}
    for entry in file.objects("modules"):
        path = entry.field("path", str)
        if path in modules:
            raise CostError(f"{entry.where}: duplicate module {short_repr(path)}")
        owned, frozen = (_parameter_ids(entry, key, parameters) for key in ("parameters", "frozen"))
        kind, buffers, same_as = entry.field("type", str), entry.amount("buffers", decoder), entry.field("same_as", str)
        own = entry.field("own", dict, {})
        modules[path] = Module(
            kind,
            owned,
            frozen,
            buffers,
            same_as,
            tuple(entry.strings("bases", [])),
            tuple((name, _amount(size, f"{entry.path_of('own')}.{name}", decoder)) for name, size in own.items()),
            entry.field("kernel_is_int", bool, False),
        )
        entry.end()
    return modules


def _module_calls(file: _Object, decoder: Decoder) -> tuple[ModuleCall, ...]:
    calls: list[ModuleCall] = []
    for entry in file.objects("module_calls", []):
        parent = entry.field("parent", int, 0)
        if not 0 <= parent <= len(calls):
            raise malformed(entry.path_of("parent"), "wrong value", parent, "the number of an earlier module call")
        inputs, outputs = (entry.shapes(key, decoder) for key in ("inputs", "outputs"))
        calls.append(ModuleCall(entry.field("module", str), parent, inputs, outputs))
        entry.end()
    return tuple(calls)


def _assumptions(file: _Object) -> tuple[Assumption, ...]:
    assumptions = []
    for entry in file.objects("assumptions"):
        what, where, line = entry.field("what", str), entry.field("where", str), entry.field("line", str, "")
        times = entry.field("times", int, 1)
        if times < 1:
            raise malformed(entry.path_of("times"), "wrong value", times, "at least 1")
        assumptions.append(Assumption(what, where, line, times))
        entry.end()
    return tuple(assumptions)


def _run(file: _Object, decoder: Decoder) -> Run:
    parameters = _parameters(file, decoder)
    modules = _modules(file, parameters, decoder)
    assumptions = _assumptions(file)
    settings = _Object(file.field("settings", dict), "settings")
    versions = _Object(file.field("versions", dict), "versions")
    frameworks = versions.field("frameworks", dict)
    if any(type(version) is not str for version in frameworks.values()):
        raise malformed("versions.frameworks", "wrong type", frameworks, "strings")
    n_params_model = file.field("n_params_model", (int, str, list), None)
    notes = [(note, Regrouping.parse(note)) for note in file.strings("notes")]
    run = Run(
        fma_1flop=settings.field("fma_1flop", bool),
        layout=settings.choice("layout", LAYOUTS),
        unit=settings.field("unit", str, FLOPS),
        parameters=parameters,
        n_params_model=None if n_params_model is None else _amount(n_params_model, "n_params_model", decoder),
        modules=modules,
        frameworks=frameworks,
        assumptions=assumptions,
        notes=tuple(note for note, regrouping in notes if regrouping is None),
        regrouped=tuple(regrouping for _, regrouping in notes if regrouping is not None),
        version=versions.field("costcore", str),
        convention=versions.field("convention", str),
        returned=file.integers("returned"),
        module_calls=_module_calls(file, decoder),
        inputs=file.integers("inputs"),
        buffers=file.integers("buffers"),
        dataflow=_dataflow(file, decoder),
    )
    settings.end()
    versions.end()
    return run


def _memory(file: _Object, n_calls: int) -> MemoryLedger | None:
    """Return the memory of the run; None if the file has none."""
    data = file.field("memory", dict, None)
    if data is None:
        return None
    entry = _Object(data, "memory")
    events = entry.integers("events")
    if any(not 0 <= call <= n_calls for call in events) or any(a > b for a, b in pairwise(events)):
        raise CostError(f"memory.events: expected indices of calls in order, at most {n_calls}")
    blocks = tuple(_block(block, events, n_calls) for block in entry.objects("blocks"))
    notes, approximations = (tuple(entry.strings(key)) for key in ("notes", "approximations"))
    entry.end()
    return MemoryLedger(blocks, events, notes, approximations)


def _block(entry: _Object, events: Sequence[int], n_calls: int) -> Block:
    block = Block(
        id=entry.field("id", int),
        nbytes=entry.field("nbytes", int),
        kind=entry.choice("kind", KINDS),
        born=entry.field("born", int),
        died=entry.field("died", int, None),
        call=entry.field("call", int),
        shape=entry.integers("shape"),
        dtype=entry.field("dtype", str),
        name=entry.field("name", str, ""),
    )
    entry.end()
    last = len(events) if block.died is None else block.died
    if not 0 <= block.born <= last <= len(events) or block.nbytes < 0 or not -1 <= block.call <= n_calls:
        raise CostError(f"{entry.where}: size, events or call of the block are impossible")
    return block


def _parameter_ids(entry: _Object, key: str, parameters: Mapping[int, Dim]) -> tuple[int, ...]:
    """Return a list of parameter ids, each of which must be declared in the file."""
    identities = entry.integers(key)
    for identity in identities:
        if identity not in parameters:
            raise CostError(f"{entry.path_of(key)}: parameter {identity} is not declared in 'parameters'")
    return identities


def _dataflow(file: _Object, decoder: Decoder) -> Dataflow | None:
    data = file.field("dataflow", dict, None)
    if data is None:
        return None
    entry = _Object(data, "dataflow")
    flow = Dataflow(
        inputs=_values(entry, "inputs", decoder),
        stored=_values(entry, "stored", decoder),
        steps=tuple(_step(each, decoder) for each in entry.objects("steps", [])),
        views=entry.pairs("views"),
        spans=entry.pairs("spans"),
        unknown=tuple(entry.strings("unknown", [])),
    )
    entry.end()
    return flow


def _step(entry: _Object, decoder: Decoder) -> Step:
    step = Step(
        at=entry.field("at", int),
        reads=entry.integers("reads"),
        makes=_values(entry, "makes", decoder),
        takes=entry.pairs("takes"),
        overwrites=entry.pairs("overwrites"),
        views=entry.pairs("views"),
        name=entry.field("name", str, ""),
    )
    entry.end()
    return step


def _values(entry: _Object, key: str, decoder: Decoder) -> tuple[Value, ...]:
    values = []
    for each in entry.objects(key, []):
        values.append(Value(each.field("id", int), each.amount("nbytes", decoder), each.field("name", str, "")))
        each.end()
    return tuple(values)


def _layer(entry: _Object, decoder: Decoder) -> Layer:
    inputs: dict[str, Tensor] = {}
    for operand in entry.objects("inputs"):
        name = operand.field("name", str)
        if name in inputs:
            raise CostError(f"{operand.where}: duplicate operand {short_repr(name)}")
        inputs[name] = _tensor(operand, decoder)
    outputs = [_tensor(output, decoder) for output in entry.objects("outputs")]
    layer = Layer(entry.field("op", str), inputs, outputs, entry.attributes("attrs", decoder))
    entry.end()
    try:
        hash(layer)
    except TypeError as error:
        raise CostError(f"{entry.path_of('attrs')}: attributes of a layer must be immutable: {error}") from error
    return layer


def _tensor(entry: _Object, decoder: Decoder) -> Tensor:
    where = entry.path_of("shape")
    shape = decoder.shape(entry.field("shape", list), where)
    for size in shape:
        _check_sign(size, where)
    role: Any = entry.choice("role", ROLES)
    dtype, stored = entry.choice("dtype", BITS), entry.field("stored", (int, str, list), None)
    tensor = Tensor(shape, dtype, role, None if stored is None else _amount(stored, entry.path_of("stored"), decoder))
    entry.end()
    return tensor


def _cost(entry: _Object, fma_1flop: bool, decoder: Decoder) -> tuple[Cost, Dim]:
    """Return a cost and its FLOPs."""
    flops = decoder.dim(entry.field("flops", (int, str, list)), entry.path_of("flops"))
    operations = entry.field("operations", dict, None)
    flops_or_operations: Any = flops
    if operations is not None:
        by_class = _Object(operations, entry.path_of("operations"))
        amounts = {name: by_class.field(name, (int, str, list), 0) for name in OPERATION_CLASSES}
        by_class.end()
        decoded = {name: decoder.dim(amount, by_class.path_of(name)) for name, amount in amounts.items()}
        flops_or_operations = Operations(**decoded)
    mread, mwrite, macs = (
        decoder.dim(entry.field(key, (int, str, list)), entry.path_of(key)) for key in ("mread", "mwrite", "macs")
    )
    cost = Cost(flops_or_operations, mread, mwrite, entry.attributes("params", decoder), macs)
    entry.end()
    if flops_of(cost, fma_1flop) != flops:
        raise CostError(f"{entry.where}: 'flops' is not the sum of 'operations'")
    return cost, flops


def _call(entry: _Object, layers: list[Layer], costs: list[Cost], run: Run, decoder: Decoder) -> CallCost:
    def referenced(key: str, entries: list[Any], default: Any = _REQUIRED) -> Any:
        """Return the layer or cost to which the call refers by its index."""
        index = entry.field(key, int, default)
        if index is not None and not 0 <= index < len(entries):
            raise malformed(entry.path_of(key), "index out of range", index, f"less than {len(entries)}, at least 0")
        return None if index is None else entries[index]

    layer, cost = referenced("layer", layers), referenced("cost", costs, None)
    reason = entry.field("reason", str, "")
    uncounted = Uncounted.of(reason, layer.op) if cost is None else None
    module_call, strided = entry.field("module_call", int, 0), entry.integers("strided")
    if not 0 <= module_call <= len(run.module_calls):
        raise malformed(entry.path_of("module_call"), "wrong value", module_call, "the number of a module call")
    if any(not 0 <= position < len(layer.inputs) for position in strided):
        raise malformed(entry.path_of("strided"), "wrong value", list(strided), "positions of inputs")
    call = Call(
        layer=layer,
        type=entry.field("type", str),
        native=entry.field("native", str, ""),
        name=entry.field("name", str),
        module=entry.field("module", str, ""),
        phase=entry.choice("phase", PHASES, "forward"),
        times=entry.amount("times", decoder, 1),
        region=entry.field("region", str, ""),
        inputs=entry.integers("inputs"),
        outputs=entry.integers("outputs"),
        storages=entry.integers("storages"),
        parameters=_parameter_ids(entry, "parameters", run.parameters),
        saved=entry.integers("saved"),
        where=entry.field("where", str, ""),
        uncounted=uncounted if uncounted in FOUND_BY_FRONTENDS else None,
        overload=entry.field("overload", str, ""),
        strided=strided,
        function=entry.field("function", str, ""),
        given=tuple(entry.strings("given", [])),
        module_call=module_call,
    )
    seconds = entry.field("seconds", float, None)
    entry.end()
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise malformed(entry.path_of("seconds"), "invalid time", seconds, "a finite number of at least 0")
    if cost is None and not reason:
        raise CostError(f"{entry.where}: expected 'cost', or 'reason' if the call could not be counted")
    return CallCost(call, cost, uncounted, reason, seconds)
