"""Reports read back from JSON. Nothing in a file is trusted: every field is checked, and what is wrong is told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.dims import Dim
from costcore.errors import CostError
from costcore.ir import BITS, KINDS, Cost, Layer, Operations, Tensor
from costcore.messages import shortly, why
from costcore.reports.ledger import flops_of
from costcore.reports.serialization.codec import Decoder
from costcore.reports.serialization.to_json import SCHEMA
from costcore.trace.call import PHASES, Assumption, Call, Module, Uncounted
from costcore.trace.run import Regrouping, Run
from costcore.trace.trace import CallCost, Trace

ROLES = ("data", "param", "state", "const")
LAYOUTS = ("framework", "free")

FOUND_BY_FRONTENDS = (Uncounted.NO_SHAPES, Uncounted.OTHER_THREADS)
"""The reasons that a call itself carries, as its frontend recorded it."""

_REQUIRED: Any = object()


class Contents(NamedTuple):
    """The trace of a file, and the total it states."""

    trace: Trace
    total: Mapping[str, Any]


def read(source: str | bytes | PathLike[str]) -> Contents:
    """The report in a JSON text, or in the file of that path (a string without a brace at its start is a path).

    Raises:
        CostError: for a file that cannot be read, is no JSON, or no report; names the file and the place in it.
    """
    text, name = source, "the report"
    if isinstance(source, PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{")):
        name = str(source)
        try:
            text = Path(source).read_bytes()
        except (OSError, ValueError) as error:
            raise CostError(f"{name} cannot be read: {why(error)}") from error
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"expected the text or the path of a report, got {source!r}")
    try:
        data = json.loads(text, parse_constant=_refuse)
        return _contents(_Place(data, ""))
    except CostError as error:
        raise CostError(f"{name} is no report of the form {SCHEMA!r}: {error}") from error
    except RecursionError as error:
        raise CostError(f"{name} is no report of the form {SCHEMA!r}: it is nested too deeply") from error
    except ValueError as error:
        raise CostError(f"{name} is no JSON: {error}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


class _Place:
    """An object of the file and where it stands. Its fields are taken one by one; none may be left over."""

    def __init__(self, data: Any, where: str) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise CostError(f"{where or 'the file'}: expected an object, got {shortly(data)}")
        self._data = dict(data)

    def __call__(self, key: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """A field of exactly that JSON type (true is no integer)."""
        value = self._data.pop(key, default)
        if value is _REQUIRED:
            raise CostError(f"{self.where or 'the file'}: {key!r} is missing")
        if value is not default and type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise CostError(f"{self.at(key)}: expected {_named(kind)}, got {shortly(value)}")
        return value

    def word(self, key: str, known: tuple[str, ...] | Mapping[str, Any], default: Any = _REQUIRED) -> str:
        """One of some words."""
        value: str = self(key, str, default)
        if value not in known:
            raise CostError(f"{self.at(key)}: expected one of {', '.join(known)}, got {shortly(value)}")
        return value

    def dim(self, key: str, code: Decoder, default: Any = _REQUIRED) -> Dim:
        """A whole number of at least 0, or an expression."""
        return _amount(self(key, (int, str, list), default), self.at(key), code)

    def places(self, key: str) -> list[_Place]:
        """The objects of a list."""
        return [_Place(data, f"{self.at(key)}[{i}]") for i, data in enumerate(self(key, list))]

    def ids(self, key: str) -> tuple[int, ...]:
        """A list of integers; none where it is left out."""
        values = self(key, list, [])
        if any(type(value) is not int for value in values):
            raise CostError(f"{self.at(key)}: expected integers, got {shortly(values)}")
        return tuple(values)

    def strings(self, key: str) -> list[str]:
        """A list of strings."""
        values: list[str] = self(key, list)
        if any(type(value) is not str for value in values):
            raise CostError(f"{self.at(key)}: expected strings, got {shortly(values)}")
        return values

    def settings(self, key: str, code: Decoder) -> dict[str, Any]:
        """Settings by name."""
        return {name: code.value(value, f"{self.at(key)}.{name}") for name, value in self(key, dict).items()}

    def end(self) -> None:
        """Refuse what no field of this schema is called."""
        if self._data:
            raise CostError(f"{self.where or 'the file'}: unknown {', '.join(map(shortly, self._data))}")

    def at(self, key: str) -> str:
        """The place of a field."""
        return f"{self.where}.{key}" if self.where else key


def _amount(value: Any, where: str, code: Decoder) -> Dim:
    amount = code.dim(value, where)
    if isinstance(amount, int) and amount < 0:
        raise CostError(f"{where}: expected at least 0, got {shortly(value)}")
    return amount


def _named(kind: type | tuple[type, ...]) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        int: "an integer",
        bool: "true or false",
        float: "a number",
    }
    return " or ".join(names[each] for each in (kind if isinstance(kind, tuple) else (kind,)))


def _contents(file: _Place) -> Contents:
    schema = file("schema", str)
    if schema != SCHEMA:
        raise CostError(f"schema: it says {shortly(schema)}")
    symbols = {}
    for word, data in file("symbols", dict).items():
        entry = _Place(data, f"symbols.{shortly(word)}")
        assumptions = entry("assumptions", dict)
        if any(type(value) is not bool for value in assumptions.values()):
            raise CostError(f"{entry.at('assumptions')}: expected true or false, got {shortly(assumptions)}")
        symbols[word] = entry("name", str), assumptions
        entry.end()
    code = Decoder(symbols)
    run = _run(file, code)
    layers = [_layer(entry, code) for entry in file.places("layers")]
    costs = [_cost(entry, run.fma_1flop, code) for entry in file.places("costs")]
    trace = Trace(tuple(_call(entry, layers, costs, run, code) for entry in file.places("calls")), run)
    if len({call.name for call in trace.calls}) != len(trace):
        raise CostError("calls: two calls have the same name")
    status = "complete" if trace.is_complete else "partial"
    if file.word("status", ("complete", "partial")) != status:
        raise CostError(f"status: its calls make it {status}")
    total = file("total", dict)
    file.end()
    return Contents(trace, total)


def _run(file: _Place, code: Decoder) -> Run:
    parameters = {}
    for entry in file.places("parameters"):
        identity = entry("id", int)
        if identity in parameters:
            raise CostError(f"{entry.where}: parameter {identity} stands there twice")
        parameters[identity] = entry.dim("size", code)
        entry.end()
    modules = {}
    for entry in file.places("modules"):
        path = entry("path", str)
        if path in modules:
            raise CostError(f"{entry.where}: module {shortly(path)} stands there twice")
        held, frozen = (_known(entry.ids(key), parameters, entry.at(key)) for key in ("parameters", "frozen"))
        modules[path] = Module(entry("type", str), held, frozen, entry.dim("buffers", code), entry("same_as", str))
        entry.end()
    assumptions = []
    for entry in file.places("assumptions"):
        assumptions.append(Assumption(entry("what", str), entry("where", str)))
        entry.end()
    settings, versions = _Place(file("settings", dict), "settings"), _Place(file("versions", dict), "versions")
    frameworks = versions("frameworks", dict)
    if any(type(version) is not str for version in frameworks.values()):
        raise CostError(f"versions.frameworks: expected strings, got {shortly(frameworks)}")
    n_params_model = file("n_params_model", (int, str, list), None)
    notes = [(note, Regrouping.parse(note)) for note in file.strings("notes")]
    run = Run(
        fma_1flop=settings("fma_1flop", bool),
        layout=settings.word("layout", LAYOUTS),
        parameters=parameters,
        n_params_model=None if n_params_model is None else _amount(n_params_model, "n_params_model", code),
        modules=modules,
        frameworks=frameworks,
        assumptions=tuple(assumptions),
        notes=tuple(note for note, regrouping in notes if regrouping is None),
        regrouped=tuple(regrouping for _, regrouping in notes if regrouping is not None),
        version=versions("costcore", str),
        convention=versions("convention", str),
    )
    settings.end()
    versions.end()
    return run


def _known(identities: tuple[int, ...], parameters: Mapping[int, Dim], where: str) -> tuple[int, ...]:
    for identity in identities:
        if identity not in parameters:
            raise CostError(f"{where}: {identity} is not among the parameters of the file")
    return identities


def _layer(entry: _Place, code: Decoder) -> Layer:
    inputs: dict[str, Tensor] = {}
    for each in entry.places("inputs"):
        name = each("name", str)
        if name in inputs:
            raise CostError(f"{each.where}: operand {shortly(name)} stands there twice")
        inputs[name] = _tensor(each, code)
    outputs = [_tensor(each, code) for each in entry.places("outputs")]
    layer = Layer(entry("op", str), inputs, outputs, entry.settings("attrs", code))
    entry.end()
    try:
        hash(layer)
    except TypeError as error:
        raise CostError(f"{entry.at('attrs')}: settings of a layer do not change: {error}") from error
    return layer


def _tensor(entry: _Place, code: Decoder) -> Tensor:
    where = entry.at("shape")
    shape = tuple(_amount(size, where, code) for size in entry("shape", list))
    role: Any = entry.word("role", ROLES)
    tensor = Tensor(shape, entry.word("dtype", BITS), role)
    entry.end()
    return tensor


def _cost(entry: _Place, fma_1flop: bool, code: Decoder) -> Cost:
    flops, counted = code.dim(entry("flops", (int, str, list)), entry.at("flops")), entry("operations", dict, None)
    by_kind: Any = flops
    if counted is not None:
        kinds = _Place(counted, entry.at("operations"))
        amounts = {kind: kinds(kind, (int, str, list), 0) for kind in KINDS}
        kinds.end()
        by_kind = Operations(**{kind: code.dim(n, kinds.at(kind)) for kind, n in amounts.items()})
    mread, mwrite, macs = (code.dim(entry(key, (int, str, list)), entry.at(key)) for key in ("mread", "mwrite", "macs"))
    cost = Cost(by_kind, mread, mwrite, entry.settings("params", code), macs)
    entry.end()
    if flops_of(cost, fma_1flop) != flops:
        raise CostError(f"{entry.where}: its operations come to other FLOPs than it states")
    return cost


def _call(entry: _Place, layers: list[Layer], costs: list[Cost], run: Run, code: Decoder) -> CallCost:
    def one_of(key: str, things: list[Any], default: Any = _REQUIRED) -> Any:
        place = entry(key, int, default)
        if place is not None and not 0 <= place < len(things):
            raise CostError(f"{entry.at(key)}: there is no {key} {place}")
        return None if place is None else things[place]

    layer, cost, reason = one_of("layer", layers), one_of("cost", costs, None), entry("reason", str, "")
    uncounted = Uncounted.of(reason, layer.op) if cost is None else None
    call = Call(
        layer=layer,
        type=entry("type", str),
        native=entry("native", str, ""),
        name=entry("name", str),
        module=entry("module", str, ""),
        phase=entry.word("phase", PHASES, "forward"),
        times=entry.dim("times", code, 1),
        region=entry("region", str, ""),
        inputs=entry.ids("inputs"),
        outputs=entry.ids("outputs"),
        storages=entry.ids("storages"),
        parameters=_known(entry.ids("parameters"), run.parameters, entry.at("parameters")),
        saved=entry.ids("saved"),
        where=entry("where", str, ""),
        uncounted=uncounted if uncounted in FOUND_BY_FRONTENDS else None,
    )
    seconds = entry("seconds", float, None)
    entry.end()
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        raise CostError(f"{entry.at('seconds')}: expected at least 0, got {seconds}")
    if cost is None and not reason:
        raise CostError(f"{entry.where}: it has neither a cost nor a reason why not")
    return CallCost(call, cost, uncounted, reason, seconds)
