"""A quantity: one number, or text, about a run, a call, or a group of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import fsum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.messages import short_repr
from costcore.numbers.dims import maximum
from costcore.numbers.symbolic import expanded_sum, share
from costcore.text.table import Column
from costcore.trace.call import Call

Combination: TypeAlias = "str | Callable[[Ledger, Sequence[Call]], Any]"

NUMERIC = ("flops", "bytes", "count", "percent", "seconds", "duration", "ratio")
"""The kinds of quantities and columns that are numbers."""


class Quantity(NamedTuple):
    """One number, or text, about a run, a call, or a group of calls.

    ::

        def cycles(ledger):
            return [ceil_div(cost.macs, 256) * call.times for call, cost in ledger.counted]

        Quantity("cycles", "Cycles", "count", "cycles of an array of 16 x 16 multipliers", cycles)

    A function that cannot return values raises a :class:`costcore.CostError` whose message says what is needed.
    ``None`` stands for a value that is unknown.

    Attributes:
        name: by which it is chosen. A parameter follows ``@``, ``bound_seconds@l4``: a quantity with parameters is
            named ``bound_seconds@DEVICE``, and has ``at``.
        title: the title of its column.
        kind: how it is written and sorted: ``flops`` and ``bytes`` (with a prefix, of 1000 or 1024), ``count``,
            ``duration`` and ``seconds`` (in seconds; ``seconds`` are written as milliseconds), ``percent``, ``ratio``,
            or ``text``, ``shape``, ``shapes``, ``names`` and ``attributes``.
        doc: what it is, in one phrase with its unit.
        of_calls: returns the value of every counted call, in the order of :attr:`Ledger.counted`; None if the
            quantity is one of the whole run only.
        combine: how the values of calls make that of a group: ``sum``, ``max``, ``first``, ``last``, ``same`` (the
            value that all share, otherwise empty), or a function of the ledger and the calls.
        of_run: returns the value of the whole run; default: that of the group of all calls.
        at: returns the quantity with a parameter.
        needs: options of :func:`costcore.estimate` without which a run does not have it.
        certainty: ``exact``, ``bound`` (never more than the truth), ``calibrated`` or ``measured``.
        words: its name in sentences; default: the title.
        remarks: returns what its values mean, one line each.
        missing: returns what its values leave out because it is unknown.
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
        """Whether its values can be limited, compared and drawn."""
        return self.kind in NUMERIC

    @property
    def has_share(self) -> bool:
        """Whether ``NAME%`` exists: the share of the total, for quantities that add up."""
        return self.is_number and self.combine == "sum" and self.of_calls is not None

    @property
    def is_of_run_only(self) -> bool:
        """Whether only the whole run has a value."""
        return self.of_calls is None and not callable(self.combine)

    @property
    def in_words(self) -> str:
        """Its name in sentences."""
        return self.words or self.title

    def by_call(self, ledger: Ledger) -> Sequence[Any]:
        """Return the value of every counted call; computed once per ledger.

        Raises:
            CostError: if the run does not have it, or if it is one of the whole run only.
        """
        if self.of_calls is None:
            raise CostError(f"{self.name} is known of the whole run only, not of calls: see report.table('run')")
        of_calls = self.of_calls
        values: Sequence[Any] = ledger.once((self.name, of_calls), lambda: of_calls(ledger))
        if len(values) != len(ledger.counted):
            raise CostError(
                f"quantity {self.name!r}: of_calls must return a value for each of the {len(ledger.counted)} counted "
                f"calls (got {len(values)})"
            )
        return values

    def of(self, ledger: Ledger, calls: Sequence[Call]) -> Any:
        """Return the value of a group of counted calls.

        Raises:
            CostError: as :meth:`by_call`.
        """
        if callable(self.combine):
            return self.combine(ledger, calls)
        values = self.by_call(ledger)
        of_group = [values[ledger.position[call.name]] for call in calls]
        return of_group[0] if len(of_group) == 1 else _COMBINED[self.combine](of_group)

    def total(self, ledger: Ledger) -> Any:
        """Return the value of the whole run; computed once per ledger.

        Raises:
            CostError: if the run does not have it.
        """
        of_run = self.of_run
        if of_run is not None:
            return ledger.once((self.name, of_run), lambda: of_run(ledger))
        return ledger.once((self.name, self.combine, "total"), lambda: self.of(ledger, ledger.calls))

    def of_values(self, values: Sequence[Any]) -> Any:
        """Return the value of several groups together; empty if it does not follow from theirs."""
        return "" if callable(self.combine) else _COMBINED[self.combine](values)

    def share(self, part: Any, ledger: Ledger) -> float | None:
        """Return the percentage that the value of a part is of the total; None if it depends on symbolic sizes."""
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
    """Return the sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    if values and not known:
        return None
    return fsum(known) if any(isinstance(value, float) for value in known) else expanded_sum(known)


def _max(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return reduce(maximum, known) if known else (None if values else 0)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple, list, Mapping)) and not value)


def _first(values: Sequence[Any]) -> Any:
    return next((value for value in values if not _is_empty(value)), "")


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
