"""Report files: a report in plain JSON types, and its validated reader.

Each part declares its form by combinators, which both write a value and read it; errors state the location in the file.
``costcore/reports/report.schema.json`` describes the format for other programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress, pairwise
from operator import attrgetter, ne
from os import PathLike
from typing import Any, NamedTuple, get_args

from costcore.errors import CostError, short_repr
from costcore.files import check_values, read_file
from costcore.ir import BITS, OPERATION_CLASSES, Cost, Layer, Operations, Pattern, Tensor
from costcore.ledger.ledger import Ledger, flops_of, multiplied
from costcore.numbers import Dim, expanded_sum
from costcore.reports.codec import MOST_BITS, Decoder, Encoder, UniqueEntries, malformed
from costcore.text.output import Target, save
from costcore.trace.call import DECLARED, PHASES, Assumption, Call, Module, ModuleCall, Uncounted
from costcore.trace.interrupts import collector_off
from costcore.trace.run import (
    FLOPS,
    KINDS,
    LEVELS,
    Block,
    Dataflow,
    Fusion,
    GraphNodes,
    MemoryLedger,
    Rank,
    Regrouping,
    Run,
    Step,
    Value,
)
from costcore.trace.trace import CallCost, Trace

TOTAL = ("flops", "macs", "mread", "mwrite", "mrw", "mcomm", "n_layers", "n_params")
"""The keys of the total in a file."""


def to_dict(trace: Trace, total: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report in plain JSON types, as ``report.schema.json`` describes them.

    Equal layers and equal costs are written once; calls refer to them by index.

    Raises:
        CostError: if an attribute is of a type that a report file cannot contain.
    """
    run, encoder = trace.run, Encoder()
    layers = encoder.tables["layers"] = UniqueEntries(LAYER.write)
    costs = encoder.tables["costs"] = UniqueEntries(
        lambda cost, encoder: COST.write(SerializedCost.of(cost, run.fma_1flop), encoder)
    )
    calls = []
    for record in trace:
        try:
            calls.append(CALL.write(record, encoder))
        except CostError as error:
            raise CostError(f"operator {record.call.layer.op!r}: {error}") from error

    def records(*names: str) -> dict[str, Any]:
        return {name: RECORDS[name].write(run.records[name], encoder) for name in names if run.records.get(name)}

    return {
        "schema": SCHEMA,
        "versions": VERSIONS.write(run, encoder),
        "status": trace.status,
        "settings": SETTINGS.write(run, encoder),
        "total": total_entry(total, encoder),
        "assumptions": ASSUMPTIONS.write(run.assumptions, encoder),
        "notes": [*run.notes, *map(str, run.regrouped)],
        "parameters": PARAMETERS.write(run.parameters, encoder),
        "n_params_model": encoder.dim(run.n_params_model),
        **records("inputs", "buffers", "returned"),
        "modules": MODULES.write(run.modules, encoder),
        "layers": layers.entries,
        "costs": costs.entries,
        "calls": calls,
        **records("memory"),
        "symbols": encoder.symbols,
        **records("module_calls", "dataflow", "nodes", "patterns", "fusion", "rank", "ranges"),
        **_further_records(run, encoder),
    }


def _further_records(run: Run, encoder: Encoder) -> dict[str, Any]:
    excluded = {"regrouped", *RECORDS, *(name for name, record in DECLARED.items() if not record.is_kept)}
    others = {name: value for name, value in run.records.items() if name not in excluded}
    return {"records": ATTRIBUTES.write(others, encoder)} if others else {}


def total_entry(total: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    """Return the total in plain JSON types."""
    return {key: encoder.dim(total[key]) for key in TOTAL if key in total}


def to_json(report: Mapping[str, Any], target: Target, indent: int | None) -> str:
    """Return the result of :func:`to_dict` as text, and write it to ``target`` if given."""
    separators = (",", ":") if indent is None else None
    return save(json.dumps(report, indent=indent, separators=separators, allow_nan=False) + "\n", target)


# Forms: combinators that write a value, and read it back validated.


REQUIRED: Any = object()
"""Stands for the missing default of a required field."""


class Form(NamedTuple):
    """The form of a value in a file: its writer and its reader.

    Attributes:
        write: returns the value in plain JSON types.
        read: returns the value from plain JSON types, given their location in the file; raises a ``CostError`` if they
            are not in this form.
        is_plain: whether the value is its own JSON value.
    """

    write: Callable[[Any, Encoder], Any]
    read: Callable[[Any, str, Decoder], Any]
    is_plain: bool = False


class Field(NamedTuple):
    """A field of an object of the file.

    Attributes:
        form: the form of its value.
        absent: the value if a file lacks the field.
        of: the attribute of the written object, if its name differs from the key; ``call.native`` for a nested one.
        is_written: whether it is written even if the value is ``absent``.
    """

    form: Form
    absent: Any = REQUIRED
    of: str = ""
    is_written: bool = False


def plain(kind: type, expected: str) -> Form:
    """Return the form of a value of exactly this JSON type; a bool is not an integer."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        if type(data) is not kind:
            raise malformed(where, "wrong type", data, expected)
        return data

    return Form(lambda value, encoder: value, read, is_plain=True)


TEXT, INTEGER, NUMBER = plain(str, "a string"), plain(int, "an integer"), plain(float, "a number")

FLAG, OBJECT, LIST = plain(bool, "true or false"), plain(dict, "an object"), plain(list, "a list")

AS_IS = Form(lambda value, encoder: value, lambda data, where, decoder: data)

VALUE = Form(lambda value, encoder: encoder.value(value), lambda data, where, decoder: decoder.value(data, where))


def converted(form: Form, back: Callable[[Any, str, Decoder], Any], to: Callable[[Any], Any] | None = None) -> Form:
    """Return a form of converted values: ``to`` converts a value before writing, ``back`` after reading."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        return back(form.read(data, where, decoder), where, decoder)

    return Form(form.write if to is None else lambda value, encoder: form.write(to(value), encoder), read)


def checked(form: Form, check: Callable[[Any, Decoder], bool], expected: str, problem: str = "wrong value") -> Form:
    """Return a form that rejects values that fail a check."""

    def read(value: Any, where: str, decoder: Decoder) -> Any:
        if not check(value, decoder):
            raise malformed(where, problem, value, expected)
        return value

    return converted(form, read)._replace(is_plain=form.is_plain)


def choice(names: Collection[str]) -> Form:
    """Return the form of a string that is one of ``names``."""
    return checked(TEXT, lambda value, _: value in names, f"one of {', '.join(names)}", "unknown value")


def _dimension(data: Any, where: str, decoder: Decoder) -> Any:
    if type(data) not in (int, str, list):
        raise malformed(where, "wrong type", data, "an integer or a string or a list")
    return decoder.dim(data, where)


def _amount(data: Any, where: str, decoder: Decoder) -> Any:
    value = _dimension(data, where, decoder)
    if isinstance(value, int) and value < 0:
        raise malformed(where, "negative", value, "at least 0")
    return value


def _shape(data: Any, where: str, decoder: Decoder) -> Any:
    if type(data) is not list:
        raise malformed(where, "wrong type", data, "a list of sizes")
    shape = decoder.shape(data, where)
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise malformed(where, "negative", size, "at least 0")
    return shape


DIMENSION = Form(lambda value, encoder: encoder.dim(value), _dimension)

AMOUNT = Form(DIMENSION.write, _amount)

SHAPE = Form(lambda shape, encoder: [encoder.dim(size) for size in shape], _shape)


def many(form: Form) -> Form:
    """Return the form of a list of values, which are read as a tuple."""

    def write(value: Any, encoder: Encoder) -> list[Any]:
        return [*value] if form.is_plain else [form.write(item, encoder) for item in value]

    def read(data: Any, where: str, decoder: Decoder) -> tuple[Any, ...]:
        LIST.read(data, where, decoder)
        return tuple([form.read(item, f"{where}[{i}]", decoder) for i, item in enumerate(data)])

    return Form(write, read)


def listed(kinds: tuple[type, ...], expected: str, n: int | None = None) -> Form:
    """Return the form of a list of items of these types: one type for all, or one each if there are ``n``."""

    def read(data: Any, where: str, decoder: Decoder) -> tuple[Any, ...]:
        if type(data) is not list or [*map(type, data)] != [*kinds] * (len(data) if n is None else 1):
            raise malformed(where, "wrong type", data, expected)
        return tuple(data)

    return Form(lambda value, encoder: [*value], read)


IDS, TEXTS = listed((int,), "integers"), listed((str,), "strings")

PAIRS = many(listed((int, int), "a pair of integers", 2))


def by_name(form: Form, make: Callable[[Any], Any] = dict) -> Form:
    """Return the form of an object with values of one form; ``make`` builds the result from all pairs."""

    def write(value: Any, encoder: Encoder) -> dict[str, Any]:
        for name in dict(value):
            if not isinstance(name, str):
                raise CostError(f"names of attributes must be strings (got {name!r})")
        return {name: form.write(item, encoder) for name, item in dict(value).items()}

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        OBJECT.read(data, where, decoder)
        return make((name, form.read(item, f"{where}.{name}", decoder)) for name, item in data.items())

    return Form(write, read)


def entry(make: Callable[..., Any], /, **fields: Form | Field) -> Form:
    """Return the form of an object with fields, in the order in which they are written.

    Args:
        make: builds the value from its fields, passed by attribute name (``native`` for ``call.native``).
        fields: the fields by key, at least two.
    """
    all_fields = {key: each if isinstance(each, Field) else Field(each) for key, each in fields.items()}
    paths = [field.of or key for key, field in all_fields.items()]
    values_of = attrgetter(*paths)
    names = {key: path.rpartition(".")[2] for key, path in zip(all_fields, paths, strict=True)}
    absent = {names[key]: field.absent for key, field in all_fields.items() if field.absent is not REQUIRED}
    required = [key for key, field in all_fields.items() if field.absent is REQUIRED]
    writers = [None if field.form.is_plain else field.form.write for field in all_fields.values()]
    left_out = [REQUIRED if field.is_written else field.absent for field in all_fields.values()]
    readers = {key: (field.form.read, names[key]) for key, field in all_fields.items()}

    def write(value: Any, encoder: Encoder) -> dict[str, Any]:
        values = values_of(value)
        written = compress(zip(all_fields, writers, values, strict=True), map(ne, values, left_out))
        return {key: item if to_json is None else to_json(item, encoder) for key, to_json, item in written}

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        OBJECT.read(data, where, decoder)
        for key in required:
            if key not in data:
                raise CostError(f"{where}: {key!r} is missing")
        values = dict(absent)
        for key, item in data.items():
            if key not in readers:
                raise CostError(f"{where}: unknown {short_repr(key)}")
            of_json, name = readers[key]
            values[name] = of_json(item, f"{where}.{key}", decoder)
        return make(**values)

    return Form(write, read)


def keyed(key: str, key_form: Form, form: Form, noun: str) -> Form:
    """Return the form of a mapping as a list of objects: a field with the key, then the fields of the value.

    ``noun`` names the keys in errors.
    """

    def write(value: Mapping[Any, Any], encoder: Encoder) -> list[dict[str, Any]]:
        return [{key: name, **form.write(item, encoder)} for name, item in value.items()]

    def read(data: Any, where: str, decoder: Decoder) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for i, item in enumerate(LIST.read(data, where, decoder)):
            at = f"{where}[{i}]"
            fields = dict(OBJECT.read(item, at, decoder))
            name = key_form.read(fields.pop(key, None), f"{at}.{key}", decoder)
            if name in found:
                raise CostError(f"{at}: duplicate {noun} {short_repr(name)}")
            found[name] = form.read(fields, at, decoder)
        return found

    return Form(write, read)


def only(key: str, form: Form) -> Form:
    """Return the form of a value that is the only field of an object."""
    inside = entry(dict, **{key: form})
    return Form(
        lambda value, encoder: {key: form.write(value, encoder)},
        lambda data, where, decoder: inside.read(data, where, decoder)[key],
    )


def reference(table: str) -> Form:
    """Return the form of an object as its index in a table of the file, where it is written once."""

    def read(data: Any, where: str, decoder: Decoder) -> Any:
        found = decoder.tables[table]
        if not 0 <= INTEGER.read(data, where, decoder) < len(found):
            raise malformed(where, "index out of range", data, f"less than {len(found)}, at least 0")
        return found[data]

    return Form(lambda value, encoder: encoder.tables[table].index_of(value, encoder), read)


# Reader. Files are not trusted: every field is validated, and errors state where they are.


MOST_VALUES = 10_000_000
"""The maximum number of values of a report; a call has twenty."""

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
        # The sums of a ledger, without an entry for each call.
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
        text = read_file(source)
        check_values(text, source, MOST_VALUES)
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"expected a report as JSON text or as a path (got {source!r})")
    try:
        if not text.strip():
            raise CostError("it is empty. Write it again: report.to_json(path)")
        with collector_off():
            data = json.loads(text, parse_constant=_reject_constant, parse_int=_bounded_integer)
            if other := _other_content(data, name):
                raise CostError(f"it is {other}")
            return _contents(data, name)
    except CostError as error:
        raise CostError(f"{name} is not a {SCHEMA} report: {error}") from error
    except RecursionError as error:
        raise CostError(f"{name} is not a {SCHEMA} report: it is nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError, _ConstantError) as error:
        raise CostError(f"{name} is not JSON: {error}") from error


def _other_content(data: Any, name: str) -> str:
    """Return the kind of a JSON object that is not a report, and the fix; empty if unknown."""
    if not isinstance(data, dict) or data.get("schema") == SCHEMA:
        return ""
    schema = data.get("schema")
    if isinstance(schema, str) and schema.startswith(("costcore-", "costcore.")):
        return f"a file of {schema}. Pass one that report.to_json wrote." if "report" not in schema else ""
    if "model_type" in data or "architectures" in data:
        path = name if name.endswith(".json") else "config.json"
        return f"a configuration of transformers. Pass it with its library, as hf:{path}."
    if {"title", "figures", "tables"} <= data.keys():
        return "a saved result. Pass a report that report.to_json wrote."
    keys = ", ".join(map(str, [*data][:4]))
    return f"another JSON file, with {keys:.80}. Pass the model, or a report that report.to_json wrote." if keys else ""


def _bounded_integer(digits: str) -> int:
    # Sums and products of larger numbers could not be printed.
    if len(digits) > MOST_DIGITS:
        raise CostError(f"a number of {len(digits)} digits is too large (expected at most {MOST_DIGITS})")
    return int(digits)


class _ConstantError(ValueError):
    pass


def _reject_constant(constant: str) -> None:
    raise _ConstantError(f"{constant} is not a JSON number")


SYMBOL = entry(dict, name=TEXT, assumptions=by_name(FLAG))


def _contents(data: Any, source: str) -> Contents:
    file = FILE.read(data, "the file", Decoder({}))
    if file["schema"] != SCHEMA:
        raise malformed("schema", "unknown schema", file["schema"], repr(SCHEMA))
    declared = by_name(SYMBOL).read(file["symbols"], "symbols", Decoder({}))
    decoder = Decoder({key: (symbol["name"], symbol["assumptions"]) for key, symbol in declared.items()})

    def part(key: str, form: Form) -> Any:
        return form.read(file[key], key, decoder)

    decoder.parameters = part("parameters", PARAMETERS)
    versions, settings = part("versions", VERSIONS), part("settings", SETTINGS)
    decoder.n_calls = len(part("calls", LIST))
    records = {name: part(name, form) for name, form in RECORDS.items() if file[name] is not None}
    notes = [(note, Regrouping.parse(note)) for note in part("notes", TEXTS)]
    run = Run(
        **versions,
        **settings,
        parameters=decoder.parameters,
        n_params_model=None if file["n_params_model"] is None else part("n_params_model", AMOUNT),
        modules=part("modules", MODULES),
        assumptions=part("assumptions", ASSUMPTIONS),
        notes=tuple(note for note, regrouping in notes if regrouping is None),
    ).recording(
        **records,
        regrouped=tuple(regrouping for _, regrouping in notes if regrouping is not None),
        **({} if file["records"] is None else part("records", ATTRIBUTES)),
    )
    layers, serialized = part("layers", many(LAYER)), part("costs", many(COST))
    costs = [each.cost() for each in serialized]
    for i, (cost, each) in enumerate(zip(costs, serialized, strict=True)):
        if flops_of(cost, run.fma_1flop) != each.flops:
            raise CostError(f"costs[{i}]: 'flops' is not the sum of 'operations'")
    decoder.tables = {"layers": layers, "costs": costs}
    trace = Trace(part("calls", many(CALL)), run)
    if len({call.name for call in trace.calls}) != len(trace):
        raise CostError("calls: two calls have the same name")
    status = part("status", choice(("complete", "assumed", "partial")))
    if (status == "partial") == trace.is_complete:  # earlier versions called assumed reports complete
        raise malformed("status", "it contradicts the calls", status, repr(trace.status))
    flops = {id(cost): each.flops for cost, each in zip(costs, serialized, strict=True)}
    return Contents(trace, part("total", OBJECT), source, decoder.keys, flops)


# Forms of every part of a report file.


SCHEMA = "costcore.report/1"
"""Name and version of the format."""

FOUND_BY_FRONTENDS = (Uncounted.NO_SHAPES, Uncounted.OTHER_THREADS)
"""Reasons for uncounted calls that come from the frontend, not from a calculator; files store them with the call."""


def _declared(ids: tuple[int, ...], where: str, decoder: Decoder) -> tuple[int, ...]:
    for identity in ids:
        if identity not in decoder.parameters:
            raise CostError(f"{where}: parameter {identity} is not declared in 'parameters'")
    return ids


def _hashable(layer: Layer, where: str, decoder: Decoder) -> Layer:
    try:
        hash(layer)
    except TypeError as error:
        raise CostError(f"{where}.attrs: attributes of a layer must be immutable: {error}") from error
    return layer


ATTRIBUTES = by_name(VALUE)

PARAMETER_IDS = converted(IDS, _declared)

POSITION = checked(INTEGER, lambda i, file: 0 <= i < file.n_calls, "the index of a call")

VERSIONS = entry(dict, costcore=Field(TEXT, of="version"), convention=TEXT, frameworks=by_name(TEXT))

SETTINGS = entry(dict, fma_1flop=FLAG, layout=choice(("framework", "free")), unit=Field(TEXT, FLOPS))

TIMES = checked(INTEGER, lambda n, _: n >= 1, "at least 1")

ASSUMPTIONS = many(
    entry(Assumption, what=TEXT, where=TEXT, line=Field(TEXT, "", "", True), times=Field(TIMES, 1, "", True))
)

PARAMETERS = keyed("id", INTEGER, only("size", AMOUNT), "parameter")

MODULE = entry(
    Module,
    type=TEXT,
    parameters=PARAMETER_IDS,
    frozen=PARAMETER_IDS,
    buffers=AMOUNT,
    same_as=TEXT,
    bases=Field(TEXTS, ()),
    own=Field(by_name(AMOUNT, tuple), ()),
    kernel_is_int=Field(FLAG, False),
)

MODULES = keyed("path", TEXT, MODULE, "module")

ROLES = "data", "param", "state", "const"

TENSOR = entry(Tensor, shape=SHAPE, dtype=choice(BITS), role=choice(ROLES), stored=Field(AMOUNT, None))

OPERANDS = keyed("name", TEXT, TENSOR, "operand")

LAYER = converted(entry(Layer, op=TEXT, inputs=OPERANDS, outputs=many(TENSOR), attrs=ATTRIBUTES), _hashable)


class SerializedCost(NamedTuple):
    """A cost with its FLOPs, as in files.

    Attributes:
        flops: the FLOPs.
        operations: the operations by class; None if the calculator returns a number.
        mread, mwrite, params, macs, mcomm: as in :class:`Cost`.
    """

    flops: Dim
    operations: Operations | None
    mread: Dim
    mwrite: Dim
    params: Mapping[str, Any]
    macs: Dim
    mcomm: Dim

    @classmethod
    def of(cls, cost: Cost, fma_1flop: bool) -> SerializedCost:
        """Return the form of a cost for files."""
        operations = cost.flops if isinstance(cost.flops, Operations) else None
        return cls(flops_of(cost, fma_1flop), operations, *cost[1:])

    def cost(self) -> Cost:
        """Return the cost, as calculators return it."""
        return Cost(self.flops if self.operations is None else self.operations, *self[2:])


COST = entry(
    SerializedCost,
    flops=DIMENSION,
    operations=Field(entry(Operations, **dict.fromkeys(OPERATION_CLASSES, Field(DIMENSION, 0))), None),
    **dict.fromkeys(("mread", "mwrite", "macs"), DIMENSION),
    mcomm=Field(DIMENSION, 0),
    params=ATTRIBUTES,
)


def _call(fields: dict[str, Any], where: str, decoder: Decoder) -> CallCost:
    cost, reason, seconds, layer = (fields.pop(key) for key in ("cost", "reason", "seconds", "layer"))
    uncounted = Uncounted.of(reason, layer.op) if cost is None else None
    if any(not 0 <= position < len(layer.inputs) for position in fields["strided"]):
        raise malformed(f"{where}.strided", "wrong value", list(fields["strided"]), "positions of inputs")
    inputs, outputs = fields["inputs"], fields["outputs"]
    for key, n in (("inputs", len(layer.inputs)), ("outputs", len(layer.outputs))):
        if len(fields[key]) not in (0, n):
            raise malformed(f"{where}.{key}", "wrong length", list(fields[key]), f"none or {n}, as the layer has")
    if len(fields["storages"]) not in (0, len(inputs) + len(outputs)):
        expected = f"none or {len(inputs) + len(outputs)}, one per input and output"
        raise malformed(f"{where}.storages", "wrong length", list(fields["storages"]), expected)
    if cost is None and not reason:
        raise CostError(f"{where}: expected 'cost', or 'reason' if the call could not be counted")
    of_call = uncounted if uncounted in FOUND_BY_FRONTENDS else None
    return CallCost(Call(layer=layer, uncounted=of_call, **fields), cost, uncounted, reason, seconds)


def _of_call(absent: Any, **by_key: Form) -> dict[str, Field]:
    return {key: Field(form, absent, f"call.{key}") for key, form in by_key.items()}


NUMBER_OF_CALL = checked(INTEGER, lambda n, file: 0 <= n <= file.n_module_calls, "the number of a module call")

SECONDS = checked(
    NUMBER, lambda s, _: math.isfinite(s) and s >= 0, "a finite number of at least 0", problem="invalid time"
)

CALL = converted(
    entry(
        dict,
        **_of_call(REQUIRED, name=TEXT, type=TEXT),
        **_of_call("", native=TEXT, overload=TEXT, function=TEXT, module=TEXT, region=TEXT, where=TEXT),
        **_of_call("forward", phase=choice(PHASES)),
        reason=Field(TEXT, ""),
        **_of_call((), inputs=IDS, outputs=IDS, storages=IDS, parameters=PARAMETER_IDS, saved=IDS, strided=IDS),
        **_of_call((), given=TEXTS),
        **_of_call(0, module_call=NUMBER_OF_CALL),
        **_of_call(1, times=AMOUNT),
        seconds=Field(SECONDS, None),
        layer=Field(reference("layers"), of="call.layer"),
        cost=Field(reference("costs"), None),
    ),
    _call,
)


def _in_order(calls: tuple[ModuleCall, ...], where: str, decoder: Decoder) -> tuple[ModuleCall, ...]:
    for i, call in enumerate(calls):
        if not 0 <= call.parent <= i:
            expected = "the number of an earlier module call"
            raise malformed(f"{where}[{i}].parent", "wrong value", call.parent, expected)
    decoder.n_module_calls = len(calls)
    return calls


SHAPES = Field(many(SHAPE), ())

MODULE_CALL = entry(ModuleCall, module=TEXT, parent=Field(INTEGER, 0), inputs=SHAPES, outputs=SHAPES)

VALUES = Field(many(entry(Value, id=INTEGER, nbytes=AMOUNT, name=Field(TEXT, ""))), ())

SOME_PAIRS = Field(PAIRS, ())

STEP = entry(
    Step,
    at=INTEGER,
    reads=Field(IDS, ()),
    makes=VALUES,
    takes=SOME_PAIRS,
    overwrites=SOME_PAIRS,
    views=SOME_PAIRS,
    name=Field(TEXT, ""),
)

DATAFLOW = entry(
    Dataflow,
    inputs=VALUES,
    stored=VALUES,
    steps=Field(many(STEP), ()),
    views=SOME_PAIRS,
    spans=SOME_PAIRS,
    unknown=Field(TEXTS, ()),
    unplanned=Field(IDS, ()),
    structure=Field(checked(INTEGER, lambda n, _: n >= 0, "0 or more"), 0),
)


class _Memory(NamedTuple):
    # A ledger as in files: the device of most blocks is written once.

    device: str
    calls: tuple[int, ...]
    blocks: Sequence[Any]
    notes: tuple[str, ...]
    approximations: tuple[str, ...]


def _with_device(ledger: MemoryLedger) -> _Memory:
    device = ledger.devices[0] if ledger.devices else ""
    blocks: list[Any] = [
        tuple.__new__(Block, (*block[:9], None)) if block.device == device else block for block in ledger.blocks
    ]
    return _Memory(device, ledger.calls, blocks, ledger.notes, ledger.approximations)


def _ledger(memory: _Memory, where: str, decoder: Decoder) -> MemoryLedger:
    n_calls, n_events = decoder.n_calls, len(memory.calls)
    if any(not 0 <= call <= n_calls for call in memory.calls) or any(a > b for a, b in pairwise(memory.calls)):
        raise CostError(f"{where}.events: expected indices of calls in order, at most {n_calls}")
    for i, block in enumerate(memory.blocks):
        last = n_events if block.died is None else block.died
        if not 0 <= block.born <= last <= n_events or block.nbytes < 0 or not -1 <= block.call <= n_calls:
            raise CostError(f"{where}.blocks[{i}]: size, events or call of the block are impossible")
    blocks = (block._replace(device=memory.device) if block.device is None else block for block in memory.blocks)
    return MemoryLedger(tuple(blocks), memory.calls, memory.notes, memory.approximations)


BLOCK = entry(
    Block,
    id=INTEGER,
    nbytes=INTEGER,
    kind=choice(KINDS),
    born=INTEGER,
    died=Field(INTEGER, None),
    call=INTEGER,
    shape=IDS,
    dtype=TEXT,
    name=Field(TEXT, ""),
    device=Field(TEXT, None),
)

MEMORY = entry(
    _Memory,
    device=Field(TEXT, "", is_written=True),
    events=Field(IDS, of="calls"),
    blocks=many(BLOCK),
    notes=TEXTS,
    approximations=TEXTS,
)


def _fusion(fusion: Fusion, where: str, decoder: Decoder) -> Fusion:
    if sorted(i for group in fusion.groups for i in group) != [*range(decoder.n_calls)] or not all(fusion.groups):
        raise CostError(f"{where}.groups: expected lists of indices of calls, with every call in exactly one of them")
    return fusion


FUSION = entry(Fusion, level=choice(LEVELS), groups=many(IDS), unfused_mrw=Field(AMOUNT, of="unfused"))

MESH = many(listed((str, int), "the name of a dimension and its number of processes", 2))

LIMITS = "the smallest and the largest value"

RANGE = checked(listed((int, int), LIMITS, 2), lambda limits, _: limits[0] <= limits[1], LIMITS, "no range")

RECORDS: Mapping[str, Form] = {
    "inputs": IDS,
    "buffers": IDS,
    "returned": IDS,
    "memory": converted(MEMORY, _ledger, _with_device),
    "module_calls": converted(many(MODULE_CALL), _in_order),
    "dataflow": DATAFLOW,
    "nodes": keyed("call", POSITION, entry(GraphNodes, nodes=Field(TEXTS, of="names"), outputs=TEXTS), "call"),
    "patterns": keyed("call", POSITION, only("pattern", choice(get_args(Pattern))), "call"),
    "fusion": converted(FUSION, _fusion),
    "rank": entry(Rank, mesh=MESH, rank=INTEGER, n_params=INTEGER),
    "ranges": by_name(RANGE),
}
"""The form of each record with a field of its own in the file. All others are in the field ``records``."""

_ALWAYS = "schema versions status settings total assumptions notes parameters modules layers costs calls symbols"

FILE = entry(
    dict,
    **dict.fromkeys(_ALWAYS.split(), AS_IS),
    **dict.fromkeys(("n_params_model", "analyses", "records", *RECORDS), Field(AS_IS, None)),
)
"""The fields of a file; its parts are read one after another."""
