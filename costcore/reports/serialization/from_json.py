"""Reports read back from JSON. Files are not trusted: every field is validated, and errors state where they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.files import check_values, read_file
from costcore.ledger.ledger import Ledger, flops_of, multiplied
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum
from costcore.reports.serialization.codec import Decoder, Encoder, malformed
from costcore.reports.serialization.expression_parts import MOST_BITS
from costcore.reports.serialization.forms import (
    AMOUNT,
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    TEXTS,
    Form,
    by_name,
    choice,
    entry,
    many,
)
from costcore.reports.serialization.report_form import (
    ASSUMPTIONS,
    ATTRIBUTES,
    CALL,
    COST,
    FILE,
    LAYER,
    MODULES,
    PARAMETERS,
    RECORDS,
    SCHEMA,
    SETTINGS,
    VERSIONS,
)
from costcore.reports.serialization.to_json import total_entry
from costcore.trace.gc_paused import collector_off
from costcore.trace.run import Regrouping, Run
from costcore.trace.trace import Trace

MOST_VALUES = 10_000_000
"""The most values of a report; a call has twenty."""

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
        text = read_file(source)
        check_values(text, source, MOST_VALUES)
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"expected a report as JSON text or as a path (got {source!r})")
    try:
        with collector_off():
            data = json.loads(text, parse_constant=_reject_constant, parse_int=_integer)
            return _contents(data, name)
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
    layers, stated = part("layers", many(LAYER)), part("costs", many(COST))
    costs = [each.cost() for each in stated]
    for i, (cost, each) in enumerate(zip(costs, stated, strict=True)):
        if flops_of(cost, run.fma_1flop) != each.flops:
            raise CostError(f"costs[{i}]: 'flops' is not the sum of 'operations'")
    decoder.tables = {"layers": layers, "costs": costs}
    trace = Trace(part("calls", many(CALL)), run)
    if len({call.name for call in trace.calls}) != len(trace):
        raise CostError("calls: two calls have the same name")
    status = part("status", choice(("complete", "assumed", "partial")))
    if (status == "partial") == trace.is_complete:  # earlier versions called assumed reports complete
        raise malformed("status", "it contradicts the calls", status, repr(trace.status))
    flops = {id(cost): each.flops for cost, each in zip(costs, stated, strict=True)}
    return Contents(trace, part("total", OBJECT), source, decoder.keys, flops)
