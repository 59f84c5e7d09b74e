"""Readings of a number: a convention, times changes that people make, each with a price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from costcore.analyses.conventions.catalog import conventions
from costcore.analyses.conventions.view import View
from costcore.errors import CostError
from costcore.numbers.dims import is_symbolic
from costcore.reports.report import Report
from costcore.studies.explanations.number import PrintedNumber
from costcore.trace.call import Call

PRICES: Mapping[str, int] = {
    "macs": 0,
    "owner": 0,
    "tool": 1,
    "unprinted": 2,
    "costcore": 3,
    "other amount": 3,
    "doubled": 1,
    "halved": 1,
    "one operator": 2,
    "without an operator": 2,
    "without the head": 2,
    "without a module": 2,
    "batch": 2,
    "other size": 3,
    "MACs cut off": 2,
    "cut off": 3,
    "training": 4,
    "binary prefix": 4,
}
"""How far-fetched a base or a change is; the price of a reading is the sum."""

ANOTHER_NETWORK = 4
"""Readings of this price or more are less likely than that the number belongs to another network."""

MAX_BATCH = 1024
"""The largest batch that is tried."""

MOST_COINCIDENCE = Fraction(1, 20)
"""How much of the total all values may cover together that are printed as the number without one part or another."""

CUT = "cut, not rounded"

OWNERS = {
    "ultralytics": "ultralytics-thop",
    **dict.fromkeys(("mmcls", "mmdet", "mmpose", "mmpretrain", "mmseg", "mmaction", "mmcv"), "mmengine"),
}
"""The tools with which libraries make the tables of their networks, if they have other names than the libraries."""


@dataclass(frozen=True)
class Reading:
    """A way to get a number.

    Attributes:
        value: the value before rounding.
        price: how far-fetched it is; 0 for plain MACs.
        base: the convention, or ``parameters``.
        unit: what it counts.
        changes: what was done to it, in words.
        view: the report under the convention; None for other amounts.
        size: the input size, if it is not that of the report.
    """

    value: Fraction
    price: int
    base: str
    unit: str
    changes: tuple[str, ...] = ()
    view: View | None = field(default=None, compare=False)
    size: str = ""


class Base:
    """A convention applied to a report, from which readings are made.

    Args:
        name: the convention.
        view: the report under it.
        size: the input size, if it is not that of the report.
        is_owner: whether it is the convention of the library that has the network, or of the table with the number.
    """

    def __init__(self, name: str, view: View, size: str = "", is_owner: bool = False) -> None:
        self.name = name
        self.view = view
        self.size = size
        self.is_owner = is_owner
        self.total = int(view.total)
        convention = view.counts.convention
        kind = "macs" if name == "macs" else "owner" if is_owner else convention.tool
        if kind not in PRICES:  # costcore is younger than the numbers that people ask about
            kind = "tool" if convention.is_printed else "unprinted"
        self.price = PRICES[kind] + (PRICES["other size"] if size else 0)
        self.price_of_cut = PRICES["MACs cut off" if name == "macs" else "cut off"]

    def readings(self, number: PrintedNumber) -> Iterator[Reading]:
        """Yield all readings whose value is printed as the number."""
        for reading in self.candidates(number):
            if number.rounds(reading.value):
                yield reading
            elif number.cuts(reading.value):
                yield replace(reading, price=reading.price + self.price_of_cut, changes=(*reading.changes, CUT))

    def candidates(self, number: PrintedNumber, within: Fraction = Fraction(0)) -> Iterator[Reading]:
        """Yield all readings, whatever their values; of other batches those that may give about the number.

        Args:
            number: the number.
            within: the largest distance from it, as a part of it.
        """
        for amount, price, changes in self._parts(number):
            for factor, more, words in self._factors(number, amount, within, is_whole=not changes):
                yield self._reading(amount * factor, price + more, (*changes, *words))

    def _reading(self, value: Fraction, price: int, changes: tuple[str, ...]) -> Reading:
        return Reading(value, self.price + price, self.name, self.view.unit, changes, self.view, self.size)

    def _factors(
        self, number: PrintedNumber, amount: int, within: Fraction, is_whole: bool
    ) -> Iterator[tuple[Fraction, int, tuple[str, ...]]]:
        """Yield what an amount can be multiplied by; a part of the total only by what the unit suggests."""
        yield Fraction(1), 0, ()
        if self.view.unit == "MAC":
            yield Fraction(2), PRICES["doubled"], ("doubled",)
        elif self.view.unit == "FLOP":
            yield Fraction(1, 2), PRICES["halved"], ("halved",)
        if not is_whole:
            return
        yield Fraction(3), PRICES["training"], ("times 3, for a training step",)
        yield Fraction(10**9, 2**30), PRICES["binary prefix"], ("divided by 2^30, not 10^9",)
        nearest, fewest, most = (round(number.value * (1 + part) / amount) for part in (0, -within, within))
        if 2 * number.half < amount / 2:
            for items in range(max(2, min(nearest, fewest)), min(MAX_BATCH, max(nearest, most)) + 1):
                yield Fraction(items), PRICES["batch"], (f"batch of {items}",)

    def _parts(self, number: PrintedNumber) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield the total, and parts of it that differ from it by more than the number says."""
        yield self.total, 0, ()
        width = 2 * number.half
        for op, amount in self.by_operator.items() if self._are_told_apart(self.by_operator, width) else ():
            if width <= amount < self.total:
                yield amount, PRICES["one operator"], (f"{op} only",)
                if 2 * amount < self.total:
                    yield self.total - amount, PRICES["without an operator"], (f"without {op}",)
        modules = self._by_top_module
        for module, amount in modules.items() if self._are_told_apart(modules, width) else ():
            if width <= amount and 2 * amount < self.total:
                yield self.total - amount, PRICES["without a module"], (f"without module {module!r}",)
        if width <= self._head and 2 * self._head < self.total:
            yield self.total - self._head, PRICES["without the head"], ("without the last linear and pooling",)

    def _are_told_apart(self, parts: Mapping[str, int], width: Fraction) -> bool:
        """Return whether it would be a coincidence if the total without one of the parts were the number."""
        return len(parts) * width < MOST_COINCIDENCE * self.total

    @cached_property
    def by_operator(self) -> dict[str, int]:
        """The amounts by operator, those that are not 0."""
        return self._sums(lambda call: call.layer.op)

    @cached_property
    def _by_top_module(self) -> dict[str, int]:
        sums = self._sums(lambda call: call.module.partition(".")[0])
        sums.pop("", None)
        return sums if len(sums) > 1 else {}

    def _sums(self, key: Callable[[Call], str]) -> dict[str, int]:
        sums: dict[str, int] = {}
        for call, amount in zip(self.view.calls, self.view.amounts, strict=True):
            if amount:
                sums[key(call)] = sums.get(key(call), 0) + int(amount)
        return sums

    @cached_property
    def _head(self) -> int:
        """The amount of the last linear layer and the last average pool."""
        last = {call.layer.op: call for call in self.view.calls if call.phase == "forward"}
        pool = last.get("avg_pool") or last.get("reduce_mean")
        calls = [call for call in (last.get("linear"), pool) if call is not None]
        if "linear" not in last:
            return 0
        return sum(int(self.view.by_call.get(call.name, 0)) for call in calls)


def owners(report: Report, source: str | None) -> frozenset[str]:
    """Return the tools of a table: that of ``source`` if it is given, else of the library that defines the network."""
    root = report.trace.run.modules.get("")
    packages = [name.partition(".")[0] for name in root.bases[:1]] if root is not None else []
    # modules of torch itself, as nn.Sequential, are in everybody's networks
    named = [source] if source is not None else [name for name in packages if name != "torch"]
    return frozenset(OWNERS.get(name, name) for name in named)


def bases(report: Report, size: str = "", source: str | None = None, year: int | None = None) -> list[Base]:
    """Return all conventions that can be applied to a report.

    Args:
        report: a report without symbols.
        size: the input size to state, if it is not the one that was asked for.
        source: the tool or library whose table has the number; default: that of the network.
        year: the year of the number; tools that are younger cannot have printed it.
    """
    found = []
    frameworks = report.trace.run.frameworks.keys()
    tools = owners(report, source)
    for name, convention in conventions().items():
        if convention.frameworks and frameworks.isdisjoint(convention.frameworks):
            continue
        if year is not None and convention.year > year:
            continue
        try:
            view = report.under(name)
        except CostError:  # such as conventions of modules for an ONNX model
            continue
        if not is_symbolic(view.total) and view.total > 0:
            found.append(Base(name, view, size, bool(tools & {name, convention.tool, *convention.aliases})))
    return found


def other_amounts(report: Report) -> Iterator[Reading]:
    """Yield amounts that people take for FLOPs by mistake."""
    total = report.total_report
    activations = sum(out.size for call in report.trace.calls for out in call.layer.outputs if call.phase == "forward")
    amounts = {"parameters": total.get("n_params_model", total["n_params"]), "elements of all outputs": activations}
    for name, amount in amounts.items():
        if not is_symbolic(amount) and amount:
            yield Reading(Fraction(int(amount)), PRICES["other amount"], name, "")
