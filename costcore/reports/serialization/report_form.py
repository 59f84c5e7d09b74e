"""The form of every part of a report file; ``costcore/reports/report.schema.json`` describes it for other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from costcore.errors import CostError
from costcore.ir import BITS, OPERATION_CLASSES, Cost, Layer, Operations, Pattern, Tensor
from costcore.ledger.ledger import flops_of
from costcore.numbers.dims import Dim
from costcore.reports.serialization import forms
from costcore.reports.serialization.codec import Decoder, malformed
from costcore.reports.serialization.forms import (
    AMOUNT,
    AS_IS,
    DIMENSION,
    FLAG,
    IDS,
    INTEGER,
    NUMBER,
    PAIRS,
    SHAPE,
    TEXT,
    TEXTS,
    Field,
    Form,
    by_name,
    checked,
    choice,
    converted,
    entry,
    keyed,
    listed,
    many,
    only,
    reference,
)
from costcore.trace.call import PHASES, Assumption, Call, Module, ModuleCall, Uncounted
from costcore.trace.dataflow import Dataflow, Step, Value
from costcore.trace.memory_ledger import KINDS, Block, MemoryLedger
from costcore.trace.run import FLOPS, LEVELS, Fusion, GraphNodes, Rank
from costcore.trace.trace import CallCost

SCHEMA = "costcore.report/1"
"""Name and version of the format."""

FOUND_BY_FRONTENDS = (Uncounted.NO_SHAPES, Uncounted.OTHER_THREADS)
"""The reasons for which a frontend, not a calculator, leaves a call uncounted; the call itself carries them."""


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


ATTRIBUTES = by_name(forms.VALUE)
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


class StatedCost(NamedTuple):
    """A cost with its FLOPs, as files state them.

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
    def of(cls, cost: Cost, fma_1flop: bool) -> StatedCost:
        """Return a cost as files state it."""
        operations = cost.flops if isinstance(cost.flops, Operations) else None
        return cls(flops_of(cost, fma_1flop), operations, *cost[1:])

    def cost(self) -> Cost:
        """Return the cost, as calculators return it."""
        return Cost(self.flops if self.operations is None else self.operations, *self[2:])


COST = entry(
    StatedCost,
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
        **_of_call(forms.REQUIRED, name=TEXT, type=TEXT),
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
)


class _Memory(NamedTuple):
    """The memory of a run, with the device of most blocks stated once."""

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
"""The form of each record of a run that has a field of the file of its own. All others are in the field ``records``."""

_ALWAYS = "schema versions status settings total assumptions notes parameters modules layers costs calls symbols"
FILE = entry(
    dict,
    **dict.fromkeys(_ALWAYS.split(), AS_IS),
    **dict.fromkeys(("n_params_model", "analyses", "records", *RECORDS), Field(AS_IS, None)),
)
"""The fields of a file, whose parts are read one after another."""
