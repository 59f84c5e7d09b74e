"""Explain a number printed for a network: which convention, with which changes, gives it.

A *reading* is a convention with changes that people make, such as MACs counted twice. Its *price* is a number that says
how unlikely it is. The cheapest reading that gives the number wins, if few numbers nearby have a reading as cheap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple

from costcore.analyses.conventions.convention import UNIT_NAMES, conventions
from costcore.analyses.conventions.counting import View
from costcore.errors import CostError, short_repr, unknown
from costcore.files import read_toml
from costcore.numbers import is_symbolic
from costcore.reports.report import Report
from costcore.studies.reconcile import rule_in_words
from costcore.tables.answer import Content
from costcore.tables.result import Result, Table
from costcore.text.output import Column
from costcore.trace.call import Call

# Answers as data.


MOST_CHANCE = 0.05
"""A reading is decisive if at most this share of nearby numbers has a reading as plausible."""

NEAR = Fraction(1, 50)
"""The maximum relative distance of nearby numbers."""

MOST_DIGITS = 12
"""The maximum number of digits to try."""

FEW_DIGITS = 2
"""Up to this many digits, all readings of a tool or of plain MACs are equally likely."""


@dataclass(frozen=True)
class Answer:
    """One or several conventions that give the same value, with equal changes and price.

    Attributes:
        value: the value before rounding.
        price: how unlikely it is; see :data:`costcore.studies.explain.PRICES`.
        readings: the readings, the most common first.
    """

    value: Fraction
    price: int
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class ExplanationData:
    """The explanation of a printed number, as data.

    Attributes:
        number: the printed number.
        macs: the MACs of the network.
        answers: all readings that give the number, best first.
        nearest: the three nearest readings, if none gives it.
        coincidence: the share of the numbers with as many digits, within 2 % of this one, that have a reading as
            plausible as the best one.
        digits_needed: the number of digits at which such a reading is no coincidence; None if 12 do not suffice.
        hints: known facts about this number and network.
    """

    number: PrintedNumber
    macs: int
    answers: tuple[Answer, ...]
    nearest: tuple[Reading, ...]
    hints: tuple[Hint, ...]
    coincidence: float = 0.0
    digits_needed: int | None = None

    @property
    def decides(self) -> bool:
        """Whether the best reading is more than a coincidence; readings of price 0 (plain MACs) need less evidence."""
        if self.is_another_network:
            return False
        return self.coincidence <= MOST_CHANCE * (2 if self.answers[0].price == 0 else 1)

    @property
    def best(self) -> Reading | None:
        """The best reading, which need not be right (:attr:`decides`); None if another network is more plausible."""
        return None if self.is_another_network else self.answers[0].readings[0]

    @property
    def is_another_network(self) -> bool:
        """Whether the number more likely belongs to another network."""
        return not self.answers or self.answers[0].price >= ANOTHER_NETWORK

    @property
    def likely(self) -> tuple[Answer, ...]:
        """The answers that the digits of the number cannot tell apart."""
        if not self.answers:
            return ()
        most = self.answers[0].price
        if self.number.digits <= FEW_DIGITS:
            most = max(1, most)
        return tuple(answer for answer in self.answers if answer.price <= most)

    @property
    def is_ambiguous(self) -> bool:
        """Whether the digits do not suffice to decide between several readings, or between one and a coincidence."""
        return len(self.likely) > 1 or not (self.is_another_network or self.decides)


# Coincidence: the density of readings around a number.


def coincidence(
    tried: Sequence[Base], others: Iterable[Reading], number: PrintedNumber, price: int
) -> tuple[float, int | None]:
    """Return the share of nearby numbers with a reading up to a price, and the number of digits that would decide.

    All numbers with as many digits within :data:`NEAR` are equally likely. Each reading explains one or two of them:
    its rounded value and, if cheap enough, its truncated value.

    Args:
        tried: the conventions that are tried.
        others: other readings.
        number: the number.
        price: the highest price.
    """
    others = [*others]
    chance = _explained(tried, others, number, price)
    if chance <= MOST_CHANCE:
        return chance, number.digits
    for digits in range(number.digits + 1, MOST_DIGITS + 1):
        finer = replace(number, half=number.half / 10 ** (digits - number.digits), digits=digits)
        if _explained(tried, others, finer, price) <= MOST_CHANCE:
            return chance, digits
    return chance, None


def _explained(tried: Iterable[Base], others: Iterable[Reading], number: PrintedNumber, price: int) -> float:
    step = 2 * number.half
    first, last = ceil(number.value * (1 - NEAR) / step), floor(number.value * (1 + NEAR) / step)
    printed = {k for k in _printed(tried, others, number, price, step) if first <= k <= last}
    return len(printed) / (last - first + 1)


def _printed(
    tried: Iterable[Base], others: Iterable[Reading], number: PrintedNumber, price: int, step: Fraction
) -> Iterator[int]:
    for base in tried:
        if base.price > price:
            continue
        for reading in base.candidates(number, NEAR):
            if reading.price <= price:
                yield round(reading.value / step)
            if reading.price + base.price_of_cut <= price:
                yield floor(reading.value / step)
    yield from (round(reading.value / step) for reading in others if reading.price <= price)


MOST_USED = ("macs", "torch", "fvcore", "timm", "thop", "ptflops", "ptflops-modules", "deepspeed", "torchvision")
"""The conventions to name first, among equal or equally likely ones."""


class Explanation(Result, ExplanationData):
    """The explanation of a printed number; ``str`` of it gives the answer in sentences."""

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        best = "another network" if self.best is None else self.best.base
        return f"<Explanation of {self.number.text}: {best}>"

    def _content(self) -> Content:
        first, *others = lines(self)
        rows = [_plain(reading) for answer in self.answers for reading in answer.readings]
        columns = [Column(key, key.capitalize(), kind) for key, kind in _KINDS.items()]
        readings = Table("Readings that give the number, the cheapest first", columns, rows).part([])
        return Content(first, (), [readings], [line.strip() for line in others])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in plain JSON types."""
        return {
            **super().to_dict(),
            "number": self.number.text,
            "low": float(self.number.low),
            "high": float(self.number.high),
            "digits": self.number.digits,
            "macs": self.macs,
            "another_network": self.is_another_network,
            "ambiguous": self.is_ambiguous,
            "decides": self.decides,
            "coincidence": self.coincidence,
            "digits_needed": self.digits_needed,
            "answers": [[_plain(reading) for reading in answer.readings] for answer in self.answers],
            "nearest": [_plain(reading) for reading in self.nearest],
            "hints": [hint.text for hint in self.hints],
        }


def explain(
    report: Report,
    number: str | int | float,
    significant: int | None = None,
    *,
    sizes: Mapping[str, Callable[[], Report]] | None = None,
    source: str | None = None,
    year: int | None = None,
) -> Explanation:
    """Explain a number printed for this network.

    ::

        report = costcore.estimate(net, (1, 3, 224, 224), record_api_calls=True)
        print(costcore.explain(report, "4.14G"))

    Every convention is tried, with changes that people make: MACs counted twice, one operator left out, without the
    head, a batch, cut digits. Each has a price, and the cheapest reading comes first. Few digits fit many readings:
    ``coincidence`` is the share of nearby numbers with a reading as plausible, ``digits_needed`` the number of digits
    that would decide.

    Args:
        report: the network, best captured with ``record_api_calls=True``: some conventions depend on the
            functions that code calls.
        number: the number, ``"4.14 GFLOPs"``, ``4.14e9`` or ``4089184256``.
        significant: its significant digits; default: the written ones.
        sizes: reports of the same network at other input sizes, as functions by name of the size. They are tried if
            nothing cheaper fits.
        source: the tool or library that published the number, ``"timm"``; default: the library of the network.
        year: the year of the number. Tools that are younger cannot have printed it.

    Raises:
        TypeError, ValueError: if ``report`` is not a report, ``number`` cannot be read, or ``source`` is
            unknown.
        CostError: if the report has symbolic dimensions; bind them with ``subs`` first.
    """
    if not isinstance(report, Report):
        raise TypeError(f"explain expects a report, such as that of estimate (got {type(report).__name__})")
    printed = read_number(number, significant)
    macs = report.total_report["macs"]
    if is_symbolic(macs):
        raise CostError("a report with symbolic dimensions has no number to explain. Bind them first: report.subs(…).")
    if source is not None:
        known = dict.fromkeys(name for each in conventions().values() for name in (each.name, each.tool, *each.aliases))
        if source not in known and source not in OWNERS:
            raise ValueError(unknown("source", source, known))
    tried, others = bases(report, "", source, year), [*other_amounts(report)]
    found = [reading for base in tried for reading in base.readings(printed)]
    found += [reading for reading in others if printed.rounds(reading.value)]
    if not found or min(reading.price for reading in found) >= ANOTHER_NETWORK:
        at_sizes = [*_at_other_sizes(sizes or {}, source, year)]
        found += [reading for base in at_sizes for reading in base.readings(printed)]
        tried += at_sizes
    answers = _answers(found, printed)
    nearest = () if answers else _nearest([base for base in tried if not base.size], printed)
    chance, needed = coincidence(tried, others, printed, answers[0].price) if answers else (0.0, None)
    return Explanation(printed, int(macs), answers, nearest, tuple(hints(int(macs), printed)), chance, needed)


_KINDS = {
    "convention": "text",
    "unit": "text",
    "value": "ratio",
    "price": "count",
    "changes": "names",
    "size": "text",
}
"""Column kinds of a reading."""


def _plain(reading: Reading) -> dict[str, Any]:
    value = reading.value
    return {
        "convention": reading.base,
        "unit": reading.unit,
        "value": float(value) if value.denominator > 1 else int(value),
        "price": reading.price,
        "changes": list(reading.changes),
        "size": reading.size,
    }


def _at_other_sizes(sizes: Mapping[str, Callable[[], Report]], source: str | None, year: int | None) -> Iterator[Base]:
    for size, estimate in sizes.items():
        try:
            report = estimate()
        except CostError:  # the network does not take this size
            continue
        yield from bases(report, size, source, year)


def _answers(found: list[Reading], number: PrintedNumber) -> tuple[Answer, ...]:
    rank = {name: i for i, name in enumerate((*MOST_USED, *(name for name in conventions() if name not in MOST_USED)))}
    groups: dict[tuple[Fraction, int], list[Reading]] = {}
    cheapest: dict[Fraction, int] = {}
    for reading in found:
        cheapest[reading.value] = min(reading.price, cheapest.get(reading.value, reading.price))
    for reading in found:
        groups.setdefault((reading.value, cheapest[reading.value]), []).append(reading)
    answers = [
        Answer(value, price, tuple(sorted(readings, key=lambda r: (r.price, rank.get(r.base, len(rank))))))
        for (value, price), readings in groups.items()
    ]
    return tuple(sorted(answers, key=lambda answer: _order(answer, number)))


def _order(answer: Answer, number: PrintedNumber) -> tuple[int, bool, bool, Fraction]:
    first = answer.readings[0]
    return answer.price, CUT in first.changes, first.base not in MOST_USED, abs(answer.value - number.value)


def _nearest(tried: list[Base], number: PrintedNumber) -> tuple[Reading, ...]:
    usual = [base for base in tried if base.view.counts.convention.is_printed]
    readings = [Reading(Fraction(base.total), base.price, base.name, base.view.unit, (), base.view) for base in usual]
    by_value = {reading.value: reading for reading in sorted(readings, key=lambda r: -r.price)}
    return tuple(sorted(by_value.values(), key=lambda reading: abs(reading.value - number.value))[:3])


# Parse printed numbers: ``4.14G``, ``8.2 GOPS``, ``4.1e9``.


MAX_LENGTH = 60
"""The maximum number of characters of a number with its unit."""

POWERS = {"": 0, "k": 3, "K": 3, "thousand": 3, "M": 6, "million": 6, "G": 9, "B": 9, "billion": 9}

POWERS |= {"T": 12, "trillion": 12, "P": 15, "E": 18}
"""Prefix or word to power of ten."""

UNITS = re.compile(
    r"(fl|b)?ops?|macs?|m(ul)?-?adds?|mult(iply)?-?adds?|mul(t|s|ts)?|fmas?|params?|parameters|operations",
    re.IGNORECASE,
)
"""The units that may follow a number."""

RATE = re.compile(r"(/|p)s(ec(onds?)?)?$", re.IGNORECASE)

_NUMBER = re.compile(
    r"(?P<digits>\d[\d,_']*(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,3}))?\s*"
    r"(?P<prefix>thousand|million|billion|trillion|[kKMGTPE](?!A[Cc]|ac|Add|ADD|[Uu][Ll][Tt])|B(?![Oo][Pp]))?\s*"
    r"(?P<word>[A-Za-z][A-Za-z/ -]*)?"
)


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number, and the values that print so.

    Attributes:
        text: the text.
        value: the value.
        half: half a unit of its last digit.
        digits: the number of its significant digits.
        word: the unit behind it, ``FLOPs``; empty if there is none.
    """

    text: str
    value: Fraction
    half: Fraction
    digits: int
    word: str = ""

    @property
    def low(self) -> Fraction:
        """The smallest value that is rounded to it."""
        return self.value - self.half

    @property
    def high(self) -> Fraction:
        """The largest value that is rounded to it."""
        return self.value + self.half

    def rounds(self, amount: int | Fraction) -> bool:
        """Return whether an amount rounds to this number."""
        return self.low <= amount <= self.high

    def cuts(self, amount: int | Fraction) -> bool:
        """Return whether an amount truncates to this number."""
        return self.value <= amount < self.value + 2 * self.half


def read_number(number: str | int | float, digits: int | None = None) -> PrintedNumber:
    """Return a printed number.

    Args:
        number: a text with an optional prefix and unit, ``"4.14 GFLOPs"``, or a number. An int is exact unless
            ``digits`` is given; trailing zeros of a float are unknown digits.
        digits: the significant digits; default: the written ones.

    Raises:
        TypeError, ValueError: if it is not a positive number.
    """
    if isinstance(number, bool) or not isinstance(number, (str, int, float)):
        raise TypeError(f"a number to explain must be a text such as '4.14G', or a number (got {short_repr(number)})")
    text = str(number) if isinstance(number, str) else repr(number)
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a number to explain has {len(text)} characters (expected at most {MAX_LENGTH})")
    match = _NUMBER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{short_repr(number)} is not a number (expected digits, a prefix and a unit: 4.14 GFLOPs)")
    if re.fullmatch(r"\d{1,3},(\d{1,2}|\d{4,})", match["digits"]):
        point = text.strip().replace(",", ".", 1)
        raise ValueError(f"{short_repr(number)}: a comma separates thousands. Did you mean {point!r}?")
    written = re.sub(r"[,_']", "", match["digits"])
    scale = Fraction(10) ** (POWERS[match["prefix"] or ""] + int(match["exponent"] or 0))
    value = Fraction(Decimal(written)) * scale
    if value <= 0:
        raise ValueError(f"{short_repr(number)} is not positive; only amounts above 0 can be explained")
    word = (match["word"] or "").strip()
    if word and not UNITS.fullmatch(word):
        if RATE.search(word):
            raise ValueError(f"{short_repr(number)} is a rate, operations per second; only amounts can be explained")
        raise ValueError(
            f"{short_repr(number)} has an unknown unit {word!r} (expected FLOPs, MACs, MAdds, OPs or params)"
        )
    return PrintedNumber(text.strip(), value, *_precision(number, written, value, scale, digits), word)


def _precision(
    number: str | int | float, written: str, value: Fraction, scale: Fraction, digits: int | None
) -> tuple[Fraction, int]:
    order = len(str(int(value))) if value >= 1 else 1
    if digits is None and isinstance(number, float):
        # A float does not show whether trailing zeros are significant.
        digits = len(str(int(value)).rstrip("0")) if value == int(value) else len(written.replace(".", "").lstrip("0"))
    if digits is not None:
        if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
            raise ValueError(f"digits must be at least 1 (got {digits!r})")
        return Fraction(10) ** (order - digits) / 2, digits
    decimals = len(written.partition(".")[2])
    significant = written.replace(".", "").lstrip("0")
    return scale / Fraction(10) ** decimals / 2, max(1, len(significant))


# Readings: a convention with the changes that people make, each with a price.


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
"""How unlikely a base or a change is; the price of a reading is the sum."""

ANOTHER_NETWORK = 4
"""Readings of this price or more are less likely than that the number belongs to another network."""

MAX_BATCH = 1024
"""The maximum batch to try."""

MOST_COINCIDENCE = Fraction(1, 20)
"""The maximum share of the total that readings without one of its parts may cover; more would match by chance."""

CUT = "cut, not rounded"

OWNERS = {
    "ultralytics": "ultralytics-thop",
    **dict.fromkeys(("mmcls", "mmdet", "mmpose", "mmpretrain", "mmseg", "mmaction", "mmcv"), "mmengine"),
}
"""The tool behind the tables of a library, if it has another name than the library."""


@dataclass(frozen=True)
class Reading:
    """A way to get a number.

    Attributes:
        value: the value before rounding.
        price: how unlikely it is; 0 for plain MACs.
        base: the convention, or ``parameters``.
        unit: the counted unit.
        changes: the changes, in words.
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

    total: int
    price: int
    price_of_cut: int

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
        """Yield all readings that print as the number."""
        for reading in self.candidates(number):
            if number.rounds(reading.value):
                yield reading
            elif number.cuts(reading.value):
                yield replace(reading, price=reading.price + self.price_of_cut, changes=(*reading.changes, CUT))

    def candidates(self, number: PrintedNumber, within: Fraction = Fraction(0)) -> Iterator[Reading]:
        """Yield all readings of any value; other batches only near the number.

        Args:
            number: the number.
            within: the maximum relative distance from it.
        """
        for amount, price, changes in self._parts(number):
            for factor, more, words in self._factors(number, amount, within, is_whole=not changes):
                yield self._reading(amount * factor, price + more, (*changes, *words))

    def _reading(self, value: Fraction, price: int, changes: tuple[str, ...]) -> Reading:
        return Reading(value, self.price + price, self.name, self.view.unit, changes, self.view, self.size)

    def _factors(
        self, number: PrintedNumber, amount: int, within: Fraction, is_whole: bool
    ) -> Iterator[tuple[Fraction, int, tuple[str, ...]]]:
        yield Fraction(1), 0, ()
        if self.view.unit == "MAC":
            yield Fraction(2), PRICES["doubled"], ("doubled",)
        elif self.view.unit == "FLOP":
            yield Fraction(1, 2), PRICES["halved"], ("halved",)
        # For a part of the total, only a change of unit is likely enough.
        if not is_whole:
            return
        yield Fraction(3), PRICES["training"], ("times 3, for a training step",)
        yield Fraction(10**9, 2**30), PRICES["binary prefix"], ("divided by 2^30, not 10^9",)
        nearest, fewest, most = (round(number.value * (1 + part) / amount) for part in (0, -within, within))
        # With a coarser number, several batches would match.
        if 2 * number.half < amount / 2:
            for items in range(max(2, min(nearest, fewest)), min(MAX_BATCH, max(nearest, most)) + 1):
                yield Fraction(items), PRICES["batch"], (f"batch of {items}",)

    def _parts(self, number: PrintedNumber) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        yield self.total, 0, ()
        # A part smaller than the unit of the last digit would not change the number.
        width = 2 * number.half
        for op, amount in self.by_operator.items() if self._can_tell_apart(self.by_operator, width) else ():
            if width <= amount < self.total:
                yield amount, PRICES["one operator"], (f"{op} only",)
                if 2 * amount < self.total:
                    yield self.total - amount, PRICES["without an operator"], (f"without {op}",)
        modules = self._by_top_module
        for module, amount in modules.items() if self._can_tell_apart(modules, width) else ():
            if width <= amount and 2 * amount < self.total:
                yield self.total - amount, PRICES["without a module"], (f"without module {module!r}",)
        if width <= self._head and 2 * self._head < self.total:
            yield self.total - self._head, PRICES["without the head"], ("without the last linear and pooling",)

    def _can_tell_apart(self, parts: Mapping[str, int], width: Fraction) -> bool:
        # Otherwise some part would match by coincidence.
        return len(parts) * width < MOST_COINCIDENCE * self.total

    @cached_property
    def by_operator(self) -> dict[str, int]:
        """The nonzero amounts by operator."""
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
        last = {call.layer.op: call for call in self.view.calls if call.phase == "forward"}
        pool = last.get("avg_pool") or last.get("reduce_mean")
        calls = [call for call in (last.get("linear"), pool) if call is not None]
        if "linear" not in last:
            return 0
        return sum(int(self.view.by_call.get(call.name, 0)) for call in calls)


def owners(report: Report, source: str | None) -> frozenset[str]:
    """Return the tools behind a table: by ``source`` if given, else by the library that defines the network."""
    root = report.trace.run.modules.get("")
    packages = [name.partition(".")[0] for name in root.bases[:1]] if root is not None else []
    # modules of torch itself, as nn.Sequential, are in everybody's networks
    named = [source] if source is not None else [name for name in packages if name != "torch"]
    return frozenset(OWNERS.get(name, name) for name in named)


def bases(report: Report, size: str = "", source: str | None = None, year: int | None = None) -> list[Base]:
    """Return all applicable conventions of a report.

    Args:
        report: a report without symbols.
        size: the input size to state, if it is not the original one.
        source: the tool or library that published the number; default: the library of the network.
        year: the year of the number; younger tools cannot have printed it.
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


# Known discrepancies: other variants of a network, errata of papers.


class Hint(NamedTuple):
    """A known fact about a number.

    Attributes:
        text: the fact, as a sentence.
        source: where it is from.
    """

    text: str
    source: str


@cache
def _facts() -> list[dict[str, Any]]:
    content, _ = read_toml(Path(__file__).with_name("known.toml"), CostError)
    facts: list[dict[str, Any]] = content["fact"]
    return facts


def hints(macs: int, number: PrintedNumber) -> Iterator[Hint]:
    """Yield the known facts about a number printed for a network with these MACs."""
    for fact in _facts():
        printed = read_number(fact["printed"])
        if fact["macs"] == macs and (number.rounds(printed.value) or printed.rounds(number.value)):
            yield Hint(fact["text"], fact["source"])


# Sentences.


MOST_SHOWN = 5
"""The maximum number of readings that are shown."""

MOST_FAR_FETCHED = 3
"""The maximum number of unlikely readings that are shown, without better ones."""


def lines(explanation: ExplanationData) -> Iterator[str]:
    """Yield the sentences, the best reading first."""
    number, answers = explanation.number.text, explanation.answers
    if explanation.is_another_network:
        yield (
            f"{number}: no known convention gives this for this network at this size; another network, or another "
            "variant of it?"
        )
        yield from (f"{hint.text} ({hint.source})" for hint in explanation.hints)
        yield from (f"Far-fetched: {_sentence(answer)}" for answer in answers[:MOST_FAR_FETCHED])
    else:
        yield f"{number} {'is' if explanation.decides else 'may be'} {_sentence(answers[0])}"
        yield from _breakdown(answers[0].readings[0])
        yield from (f"{hint.text} ({hint.source})" for hint in explanation.hints)
        yield from _doubts(explanation)
        for answer in answers[1:MOST_SHOWN]:
            if answer.price < ANOTHER_NETWORK:
                yield f"{'Also' if answer in explanation.likely else 'Less likely:'} {_sentence(answer)}"
    for reading in explanation.nearest:
        away = float(reading.value / explanation.number.value - 1)
        gap = _nearest_operator(reading, explanation)
        yield f"Near: {_described(reading)}: {_amount(reading.value)}, {away:+.1%}. {gap}".rstrip()
    yield f"In MACs alone: {_amount(Fraction(explanation.macs))}."


def _doubts(explanation: ExplanationData) -> Iterator[str]:
    values, digits = [answer.value for answer in explanation.likely], explanation.number.digits
    if len(values) > 1:
        between = f"{_amount(min(values))} to {_amount(max(values))}"
        yield f"{len(values)} rules are equally likely. They give {between}, which these digits do not tell apart."
    elif not explanation.decides:
        yield "It is not decisive: rules that are equally plausible give other numbers nearby."
    chance, needed = explanation.coincidence, explanation.digits_needed
    share = "less than 0.1%" if chance < 0.001 else f"{chance:.{1 if chance < 0.1 else 0}%}"
    more = "" if needed == digits else f"; {needed} digits would decide" if needed else "; more digits do not decide"
    yield (
        f"Chance: of the numbers with {digits} digit{'s' * (digits != 1)} within 2% of it, {share} have a reading as "
        f"plausible{more}."
    )


def _sentence(answer: Answer) -> str:
    first, *others = answer.readings
    names = [r.base for r in others if (r.changes == first.changes and r.size == first.size) or not r.changes]
    also = f" (also {', '.join(dict.fromkeys(names))})" if names else ""
    return f"{_described(first)}{also}: {_amount(answer.value)}."


def _described(reading: Reading) -> str:
    convention = conventions().get(reading.base)
    if convention is None:
        what = f"the number of {reading.base}"
    elif reading.base == "macs":
        what = "the MACs of all products"
    else:
        variant = f" ({convention.variant})" if convention.variant else ""
        what = f"what {convention.tool} {convention.version}".rstrip() + f"{variant} counts"
    size = f" at {reading.size}" if reading.size else ""
    return ", ".join((what + size, *reading.changes))


def _breakdown(reading: Reading) -> Iterator[str]:
    if reading.view is None or any(line.position is None for line in reading.view.counts.lines):
        return
    parts = []
    records, amounts = reading.view.records, reading.view.amounts
    expressions: dict[int, list[str]] = {}
    for line in reading.view.counts.lines:
        if line.position is not None:
            expressions.setdefault(line.position, []).append(line.expression)
    groups: dict[str, list[int]] = {}
    for position, amount in enumerate(amounts):
        if amount:
            groups.setdefault(records[position].call.layer.op, []).append(position)
    for op, positions in sorted(groups.items(), key=lambda item: -sum(amounts[i] for i in item[1])):
        calls = [(records[i], amounts[i]) for i in positions]
        words = rule_in_words(calls, (text for i in positions for text in expressions[i]))
        parts.append(f"{op} {_amount(Fraction(sum(amounts[i] for i in positions)))} ({words})")
    before = " before that" if reading.changes else ""
    yield f"  {UNIT_NAMES[reading.unit]}{before}: {'; '.join(parts)}"


def _nearest_operator(reading: Reading, explanation: ExplanationData) -> str:
    gap = abs(reading.value - explanation.number.value)
    view = reading.view
    amounts = {} if view is None or view.is_closed_form else {op: int(a) for op, a in view.by("op").items() if a}
    op = min(amounts, key=lambda name: abs(amounts[name] - gap), default=None)
    # Within 10 % of the gap.
    if op is None or abs(amounts[op] - gap) > gap / 10:
        return ""
    return f"The difference is about that of {op} ({_amount(Fraction(amounts[op]))})."


def _amount(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.0f}"
