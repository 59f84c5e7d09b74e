"""Reports read back from JSON. Files are not trusted: every field is validated, and errors state where they are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.ir import BITS, OPERATION_CLASSES, Cost, Layer, Operations, Tensor
from costcore.ledger.ledger import Ledger, flops_of, multiplied
from costcore.messages import error_text, short_repr
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum
from costcore.reports.serialization.codec import Decoder, Encoder, malformed
from costcore.reports.serialization.expression_parts import MOST_BITS
from costcore.reports.serialization.file_object import REQUIRED, FileObject, checked_amount, checked_sign
from costcore.reports.serialization.fusion_entry import fusion_of, patterns_of, position_of_call
from costcore.reports.serialization.memory_entries import dataflow_of, memory_of
from costcore.reports.serialization.to_json import SCHEMA, total_entry
from costcore.trace.call import PHASES, Assumption, Call, Module, ModuleCall, Uncounted
from costcore.trace.gc_paused import collector_off
from costcore.trace.run import FLOPS, GraphNodes, Rank, Regrouping, Run
from costcore.trace.trace import CallCost, Trace

ROLES = ("data", "param", "state", "const")
LAYOUTS = ("framework", "free")

FOUND_BY_FRONTENDS = (Uncounted.NO_SHAPES, Uncounted.OTHER_THREADS)
"""The reasons for which a frontend, not a calculator, leaves a call uncounted; the call itself carries them."""

MOST_DIGITS = len(str(1 << MOST_BITS))
"""The maximum number of digits of a number."""


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
                once = self.flops[id(cost)], cost.macs, cost.mread, cost.mwrite, cost.mcomm
                amounts[key] = tuple([multiplied(amount, call.times) for amount in once])
        of_calls = zip(*(amounts[id(cost), call.times] for call, cost in counted), strict=True)
        flops, macs, mread, mwrite, mcomm = map(expanded_sum, of_calls if counted else [()] * 5)
        sizes = (self.trace.run.parameters[parameter] for parameter in parameters)
        return {
            "flops": flops,
            "macs": macs,
            "mread": mread,
            "mwrite": mwrite,
            "mrw": expanded_sum((mread, mwrite)),
            **({"mcomm": mcomm} if any(cost.mcomm != 0 for _, cost in counted) else {}),
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
            return _contents(FileObject(data, ""), name)
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


def _contents(file: FileObject, source: str) -> Contents:
    schema = file.field("schema", str)
    if schema != SCHEMA:
        raise malformed("schema", "unknown schema", schema, repr(SCHEMA))
    symbols = {}
    for key, data in file.field("symbols", dict).items():
        entry = FileObject(data, f"symbols.{short_repr(key)}")
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
    memory, fusion = memory_of(file, len(records)), fusion_of(file, len(records), decoder)
    nodes, patterns = _nodes(file, len(records)), patterns_of(file, len(records))
    trace = Trace(records, replace(run, memory=memory, fusion=fusion, nodes=nodes, patterns=patterns))
    if len({call.name for call in trace.calls}) != len(trace):
        raise CostError("calls: two calls have the same name")
    stated = file.choice("status", ("complete", "assumed", "partial"))
    if (stated == "partial") == trace.is_complete:  # earlier versions called assumed reports complete
        raise malformed("status", "it contradicts the calls", stated, repr(trace.status))
    total = file.field("total", dict)
    file.end()
    return Contents(trace, total, source, decoder.keys, flops)


def _nodes(file: FileObject, n_calls: int) -> dict[int, GraphNodes]:
    """Return the nodes of a graph that calls stand for, by position of the call."""
    found = {}
    for entry in file.objects("nodes", []):
        position = position_of_call(entry, n_calls)
        found[position] = GraphNodes(tuple(entry.strings("nodes")), tuple(entry.strings("outputs")))
        entry.end()
    return found


def _parameters(file: FileObject, decoder: Decoder) -> dict[int, Dim]:
    parameters = {}
    for entry in file.objects("parameters"):
        identity = entry.field("id", int)
        if identity in parameters:
            raise CostError(f"{entry.where}: duplicate parameter {identity}")
        parameters[identity] = entry.amount("size", decoder)
        entry.end()
    return parameters


def _modules(file: FileObject, parameters: Mapping[int, Dim], decoder: Decoder) -> dict[str, Module]:
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
            tuple(
                (name, checked_amount(size, f"{entry.path_of('own')}.{name}", decoder)) for name, size in own.items()
            ),
            entry.field("kernel_is_int", bool, False),
        )
        entry.end()
    return modules


def _module_calls(file: FileObject, decoder: Decoder) -> tuple[ModuleCall, ...]:
    calls: list[ModuleCall] = []
    for entry in file.objects("module_calls", []):
        parent = entry.field("parent", int, 0)
        if not 0 <= parent <= len(calls):
            raise malformed(entry.path_of("parent"), "wrong value", parent, "the number of an earlier module call")
        inputs, outputs = (entry.shapes(key, decoder) for key in ("inputs", "outputs"))
        calls.append(ModuleCall(entry.field("module", str), parent, inputs, outputs))
        entry.end()
    return tuple(calls)


def _assumptions(file: FileObject) -> tuple[Assumption, ...]:
    assumptions = []
    for entry in file.objects("assumptions"):
        what, where, line = entry.field("what", str), entry.field("where", str), entry.field("line", str, "")
        times = entry.field("times", int, 1)
        if times < 1:
            raise malformed(entry.path_of("times"), "wrong value", times, "at least 1")
        assumptions.append(Assumption(what, where, line, times))
        entry.end()
    return tuple(assumptions)


def _run(file: FileObject, decoder: Decoder) -> Run:
    parameters = _parameters(file, decoder)
    modules = _modules(file, parameters, decoder)
    assumptions = _assumptions(file)
    settings = FileObject(file.field("settings", dict), "settings")
    versions = FileObject(file.field("versions", dict), "versions")
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
        n_params_model=None if n_params_model is None else checked_amount(n_params_model, "n_params_model", decoder),
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
        dataflow=dataflow_of(file, decoder),
        ranges=_ranges(file),
        rank=_rank(file),
    )
    settings.end()
    versions.end()
    return run


def _rank(file: FileObject) -> Rank | None:
    """Return which process of a mesh the run is."""
    content = file.field("rank", dict, None)
    if content is None:
        return None
    entry = FileObject(content, "rank")
    mesh = entry.field("mesh", list)
    if not all(isinstance(item, list) and [*map(type, item)] == [str, int] for item in mesh):
        raise malformed(entry.path_of("mesh"), "no mesh", mesh, "a list of names and numbers of processes")
    rank = Rank(tuple((name, size) for name, size in mesh), entry.field("rank", int), entry.field("n_params", int))
    entry.end()
    return rank


def _ranges(file: FileObject) -> dict[str, tuple[int, int]]:
    """Return the smallest and the largest value by symbol at which formulas were checked."""
    ranges = FileObject(file.field("ranges", dict, {}), "ranges")
    found = {}
    for name in list(ranges.names):
        limits = ranges.integers(name)
        if len(limits) != 2 or limits[0] > limits[1]:
            raise malformed(ranges.path_of(name), "no range", limits, "the smallest and the largest value")
        found[name] = limits
    return found


def _parameter_ids(entry: FileObject, key: str, parameters: Mapping[int, Dim]) -> tuple[int, ...]:
    """Return a list of parameter ids, each of which must be declared in the file."""
    identities = entry.integers(key)
    for identity in identities:
        if identity not in parameters:
            raise CostError(f"{entry.path_of(key)}: parameter {identity} is not declared in 'parameters'")
    return identities


def _layer(entry: FileObject, decoder: Decoder) -> Layer:
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


def _tensor(entry: FileObject, decoder: Decoder) -> Tensor:
    where = entry.path_of("shape")
    shape = decoder.shape(entry.field("shape", list), where)
    for size in shape:
        checked_sign(size, where)
    role: Any = entry.choice("role", ROLES)
    dtype, stored = entry.choice("dtype", BITS), entry.field("stored", (int, str, list), None)
    tensor = Tensor(
        shape, dtype, role, None if stored is None else checked_amount(stored, entry.path_of("stored"), decoder)
    )
    entry.end()
    return tensor


def _cost(entry: FileObject, fma_1flop: bool, decoder: Decoder) -> tuple[Cost, Dim]:
    """Return a cost and its FLOPs."""
    flops = decoder.dim(entry.field("flops", (int, str, list)), entry.path_of("flops"))
    operations = entry.field("operations", dict, None)
    flops_or_operations: Any = flops
    if operations is not None:
        by_class = FileObject(operations, entry.path_of("operations"))
        amounts = {name: by_class.field(name, (int, str, list), 0) for name in OPERATION_CLASSES}
        by_class.end()
        decoded = {name: decoder.dim(amount, by_class.path_of(name)) for name, amount in amounts.items()}
        flops_or_operations = Operations(**decoded)
    mread, mwrite, macs = (
        decoder.dim(entry.field(key, (int, str, list)), entry.path_of(key)) for key in ("mread", "mwrite", "macs")
    )
    mcomm = decoder.dim(entry.field("mcomm", (int, str, list), 0), entry.path_of("mcomm"))
    cost = Cost(flops_or_operations, mread, mwrite, entry.attributes("params", decoder), macs, mcomm)
    entry.end()
    if flops_of(cost, fma_1flop) != flops:
        raise CostError(f"{entry.where}: 'flops' is not the sum of 'operations'")
    return cost, flops


def _call(entry: FileObject, layers: list[Layer], costs: list[Cost], run: Run, decoder: Decoder) -> CallCost:
    def referenced(key: str, entries: list[Any], default: Any = REQUIRED) -> Any:
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
