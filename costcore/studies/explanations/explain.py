"""Explain a number that somebody printed for a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from costcore.analyses.conventions.catalog import conventions
from costcore.errors import CostError
from costcore.messages import unknown
from costcore.numbers.dims import is_symbolic
from costcore.renamed import renamed
from costcore.reports.report import Report
from costcore.studies.explanations import sentences
from costcore.studies.explanations.answers import Answer, ExplanationData, coincidence
from costcore.studies.explanations.known import hints
from costcore.studies.explanations.number import PrintedNumber, read_number
from costcore.studies.explanations.readings import ANOTHER_NETWORK, CUT, OWNERS, Base, Reading, bases, other_amounts
from costcore.tables import answer as results
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

MOST_USED = ("macs", "torch", "fvcore", "timm", "thop", "ptflops", "ptflops-modules", "deepspeed", "torchvision")
"""The conventions to name first, of several that give the same or are equally likely."""


class Explanation(Result, ExplanationData):
    """Why somebody printed a number for a network; ``str`` of it gives the answer in sentences."""

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(sentences.lines(self))

    def __repr__(self) -> str:
        best = "another network" if self.best is None else self.best.base
        return f"<Explanation of {self.number.text}: {best}>"

    def _answer(self) -> results.Answer:
        first, *others = sentences.lines(self)
        rows = [_plain(reading) for answer in self.answers for reading in answer.readings]
        columns = [Column(key, key.capitalize(), kind) for key, kind in _KINDS.items()]
        readings = Table("Readings that give the number, the cheapest first", columns, rows).part([])
        return results.Answer(first, (), [readings], [line.strip() for line in others])

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


@renamed(digits="significant")
def explain(
    report: Report,
    number: str | int | float,
    significant: int | None = None,
    *,
    sizes: Mapping[str, Callable[[], Report]] | None = None,
    source: str | None = None,
    year: int | None = None,
) -> Explanation:
    """Return the explanation of a number that somebody printed for this network.

    ::

        report = costcore.estimate(net, (1, 3, 224, 224), spelled=True)
        print(costcore.explain(report, "4.14G"))

    Every convention is tried, with changes that people make: MACs counted twice, one operator left out, without the
    head, a batch, cut digits. Each has a price, and the cheapest reading comes first. Few digits fit many readings:
    ``coincidence`` says how many numbers near this one have a reading as plausible, ``digits_needed`` how many digits
    would decide.

    Args:
        report: the network, best captured with ``spelled=True``: some conventions depend on how code calls functions.
        number: the number, ``"4.14 GFLOPs"``, ``4.14e9`` or ``4089184256``.
        significant: its significant digits; default: those that are written.
        sizes: reports of the same network at other input sizes, as functions by name of the size. They are tried if
            nothing cheaper fits.
        source: the tool or library whose table has the number, ``"timm"``; default: the library of the network.
        year: the year of the number. Tools that are younger cannot have printed it.

    Raises:
        TypeError, ValueError: if ``report`` is not a report, ``number`` cannot be read, or nothing is known of
            ``source``.
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
"""The kinds of what is written of a reading."""


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
    """Return the readings with equal values as one answer, by price, then by distance from the number."""
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
