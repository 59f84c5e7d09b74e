"""Reconcile two conventions: the differences by operator, which add up exactly, and the rules in words.

Also the common input sizes at which :mod:`explain` tries a network again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from costcore.analyses.conventions.counting import View
from costcore.analyses.conventions.quantities import Quantities
from costcore.errors import CostError, unknown
from costcore.ir import Tensor
from costcore.numbers import Dim, as_text, expanded_sum, is_symbolic, magnitude
from costcore.reports.report import Report
from costcore.studies.comparisons.matching import by_module, by_order
from costcore.tables.answer import Content, Figure
from costcore.tables.renderers import rendered
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted
from costcore.text.output import Column, Target, encodable, save
from costcore.trace.trace import CallCost

COLUMNS = (
    *(Column("name", "Convention or operator"), Column("amount", "Amount", "count")),
    *(Column("n_calls", "# Calls"), Column("rule", "Rule")),
)
"""The columns of the lines."""


class Difference(NamedTuple):
    """The part of one operator in the difference of two totals.

    Attributes:
        op: the operator, or the term of a closed form.
        amount: new amount minus old amount.
        n_calls: the number of calls that differ.
        old: how the old convention counts them, in words.
        new: how the new convention does.
        calls: their names.
    """

    op: str
    amount: Dim
    n_calls: int
    old: str
    new: str
    calls: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Reconciliation(Result):
    """Why two totals differ; the amounts of :attr:`lines` add up to the difference exactly.

    Attributes:
        names: the old and the new convention.
        totals: their totals.
        units: their units, ``MAC`` or ``FLOP``.
        lines: the differences by operator, the largest first.
        notes: limits of either convention.
    """

    names: tuple[str, str]
    totals: tuple[Dim, Dim]
    units: tuple[str, str]
    lines: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> Dim:
        """New total minus old total."""
        return expanded_sum((self.totals[1], -self.totals[0]))

    @property
    def summary(self) -> str:
        """The difference and the operator with the largest part of it, in one sentence."""
        return encodable(self._summary)

    @property
    def _summary(self) -> str:
        old, new = self.names
        if not self.lines:
            return f"{old} and {new} count the same."
        largest = self.lines[0]
        return (
            f"{new} differs from {old} by {_grouped(self.difference, '+')}; {largest.op} has the largest part, "
            f"{_grouped(largest.amount, '+')}: {largest.old} → {largest.new}."
        )

    def __repr__(self) -> str:
        operators = f"{len(self.lines)} operator{'s' * (len(self.lines) != 1)}"
        return encodable(f"<Reconciliation: {' → '.join(self.names)}, {_grouped(self.difference, '+')} in {operators}>")

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return self._table()._text(mode, unit, n_digits, is_whole=is_whole)

    def _content(self) -> Content:
        ends = zip(("old", "new"), self.names, self.totals, strict=True)
        figures = [Figure(side, name, Formatted(total, _grouped(total)), "count") for side, name, total in ends]
        figures.append(
            Figure("difference", "Difference", Formatted(self.difference, _grouped(self.difference, "+")), "count")
        )
        return Content(" → ".join(self.names), figures, [self._table()], [self._summary, *self.notes])

    def to_markdown(self, target: Target = None) -> str:
        """Return the lines as a Markdown table, and write it to ``target`` if given."""
        return save(rendered(self._table().text(), "md"), target)

    def to_dict(self) -> dict[str, Any]:
        """Return the reconciliation in plain JSON types; symbolic amounts are texts."""
        sides = zip(("old", "new"), self.names, self.units, self.totals, strict=True)
        ends = {side: {"convention": name, "unit": unit, "total": _plain(total)} for side, name, unit, total in sides}
        lines = [{**line._asdict(), "amount": _plain(line.amount), "calls": list(line.calls)} for line in self.lines]
        return {
            **super().to_dict(),
            **ends,
            "difference": _plain(self.difference),
            "lines": lines,
            "notes": list(self.notes),
        }

    def _table(self) -> Table:
        (old, new), (before, after) = self.names, self.totals
        rows: list[dict[str, Any]] = [{"name": old, "amount": Formatted(before, _grouped(before))}]
        for line in self.lines:
            calls = f"{line.n_calls} call{'s' * (line.n_calls != 1)}" if line.n_calls else ""
            rows.append(
                {
                    "name": Formatted(line.op, f"  {line.op}"),
                    "amount": Formatted(line.amount, _grouped(line.amount, "+")),
                    "n_calls": Formatted(line.n_calls, calls),
                    "rule": f"{line.old} → {line.new}",
                }
            )
        rows.append({"name": new, "amount": Formatted(after, _grouped(after))})
        return Table("By operator: the lines add up to the difference", COLUMNS, rows)


def reconcile(
    report: Report, old: str | View, new: str | View, other: Report | None = None, *, by: str | None = None
) -> Reconciliation:
    """Explain the difference between the totals of two conventions, for one report or for two.

    Args:
        report: a report.
        old: a convention, see :meth:`costcore.Report.under`.
        new: the convention to compare it with.
        other: the report for ``new``; default: ``report``. Its calls are matched as by :func:`costcore.compare`.
        by: ``module`` or ``order``, how the calls of two reports are matched; default: by module, or by order if the
            frameworks differ.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if a convention cannot be applied.
    """
    for each in (report, other):
        if not isinstance(each, Report | None) or report is None:
            raise TypeError(f"reconcile expects reports, as estimate returns them (got {type(each).__name__})")
    if by not in (None, "module", "order"):
        raise ValueError(unknown("matching", by, ("module", "order")))
    before = old if isinstance(old, View) else report.under(old)
    after = new if isinstance(new, View) else (other or report).under(new)
    views = before, after
    same: list[tuple[int | None, int | None]] = [(i, i) for i in range(len(report.trace))]
    pairs = same if other is None else _matched_calls(report, other, by)
    lines = [*_by_operator(_Side(report, views[0]), _Side(other or report, views[1]), pairs), *_terms(views)]
    lines.sort(key=lambda line: -abs(magnitude(line.amount)))
    return Reconciliation(
        (views[0].name, views[1].name),
        (views[0].total, views[1].total),
        (views[0].unit, views[1].unit),
        tuple(lines),
        tuple(dict.fromkeys((*views[0].notes, *views[1].notes))),
    )


class _Side:
    def __init__(self, report: Report, view: View) -> None:
        self.records = report.trace.records
        self.amounts = view.amounts
        self.expressions: dict[int, list[str]] = {}
        for line in view.counts.lines:
            if line.position is not None:
                self.expressions.setdefault(line.position, []).append(line.expression)

    def words(self, positions: Sequence[int]) -> str:
        """Return how the calls at these positions are counted."""
        if not positions:
            return "absent"
        records = [(self.records[i], self._once(i)) for i in positions]
        return rule_in_words(records, (text for i in positions for text in self.expressions.get(i, ())))

    def _once(self, position: int) -> Dim:
        times, amount = self.records[position].call.times, self.amounts[position]
        return amount // times if isinstance(times, int) and times and isinstance(amount, int) else amount


def _matched_calls(old: Report, new: Report, by: str | None) -> list[tuple[int | None, int | None]]:
    positions = [[i for i, record in enumerate(report.trace) if record.cost is not None] for report in (old, new)]
    entries = [list(report.ledger.entries.values()) for report in (old, new)]
    in_order = by == "order" or (by is None and old.trace.run.frameworks.keys() != new.trace.run.frameworks.keys())
    pairs = (by_order if in_order else by_module)(*entries)
    used = [{pair[side] for pair in pairs} for side in (0, 1)]
    # Calls without a cost do not take part in the matching.
    rest = [(i, None) for i in range(len(entries[0])) if i not in used[0]]
    rest_new = [(None, j) for j in range(len(entries[1])) if j not in used[1]]
    found = [*pairs, *rest, *rest_new]
    return [(None if i is None else positions[0][i], None if j is None else positions[1][j]) for i, j in found]


def _by_operator(old: _Side, new: _Side, pairs: Sequence[tuple[int | None, int | None]]) -> Iterator[Difference]:
    groups: dict[str, list[tuple[int | None, int | None]]] = {}
    for i, j in pairs:
        before = 0 if i is None else old.amounts[i]
        after = 0 if j is None else new.amounts[j]
        if before != after:
            record = old.records[i] if i is not None else new.records[j if j is not None else 0]
            groups.setdefault(record.call.layer.op, []).append((i, j))
    for op, group in groups.items():
        olds, news = [i for i, _ in group if i is not None], [j for _, j in group if j is not None]
        amount = expanded_sum([*(new.amounts[j] for j in news), *(-old.amounts[i] for i in olds)])
        names = [old.records[i].call.name for i in olds] or [new.records[j].call.name for j in news]
        if amount != 0:
            yield Difference(op, amount, len(group), old.words(olds), new.words(news), tuple(names))


def _terms(views: tuple[View, View]) -> Iterator[Difference]:
    # Terms of closed forms belong to no call.
    for view, sign in zip(views, (-1, 1), strict=True):
        for call, line in view.lines:
            if call is None:
                words = (NOT_COUNTED, line.expression)[::sign]
                yield Difference(f"{view.name}: {line.rule}", sign * line.amount, 0, words[0], words[1], ())


def _grouped(amount: Dim, sign: str = "") -> str:
    return f"{amount:{sign},}".replace("-", "\N{MINUS SIGN}") if isinstance(amount, int) else as_text(amount)


def _plain(amount: Dim) -> int | str:
    return amount if isinstance(amount, int) else as_text(amount)


# Rules in words: ``2 per input element``.


_PHRASES: Mapping[str, str] = {
    "y": "output element",
    "x": "input element",
    "q": "element of the queries",
    "scores": "attention score",
    "params": "parameter",
}
"""Quantities that amounts are expressed in, by preference."""

MOST_PER_ELEMENT = 64
"""A larger multiple of elements is a coincidence, unless a rule names them."""

MOST_CASES = 3
"""The maximum number of wordings for a rule with conditions."""

_AMOUNTS = {"macs": "MACs", "flops": "all operations"}

NOT_COUNTED = "not counted"

MINUS = "\N{MINUS SIGN}"


def rule_in_words(amounts: Sequence[tuple[CallCost, Dim]], expressions: Iterable[str]) -> str:
    """Return how calls of one operator are counted.

    The result is a multiple of MACs or elements, or of MACs and output elements, that holds for every call. Without
    such a multiple, it is the expressions of the rules.

    Args:
        amounts: calls with the amount of one execution.
        expressions: the expressions that gave these amounts; empty for calls without a rule.
    """
    texts = [*dict.fromkeys(expressions)]
    words = _words(amounts, texts)
    if words is None and len(texts) == 1:
        each = {_words([one], texts) for one in amounts}
        words = " or ".join(sorted(filter(None, each))) if None not in each and len(each) <= MOST_CASES else None
    return words or ", or ".join(re.sub(r"\b(macs|flops)\b", lambda match: _AMOUNTS[match[0]], text) for text in texts)


def _words(amounts: Sequence[tuple[CallCost, Dim]], texts: Sequence[str]) -> str | None:
    if all(amount == 0 for _, amount in amounts):
        return NOT_COUNTED
    for n_per_mac in (1, 2) if all(_quantity(record, "macs") for record, _ in amounts) else ():
        rest = [(record, amount - n_per_mac * _quantity(record, "macs")) for record, amount in amounts]
        products = "MACs" if n_per_mac == 1 else "2 per MAC"
        if all(amount == 0 for _, amount in rest):
            return products
        factor = _common_factor(rest, "y")
        if factor is not None and abs(factor) <= 2:
            return f"{products} {'+' if factor > 0 else MINUS} {abs(factor)} per output element"
    named = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    for name in sorted(_PHRASES, key=lambda name: name not in named):
        factor = _common_factor(amounts, name)
        if factor is not None and (name in named or 0 < factor <= MOST_PER_ELEMENT):
            return f"{factor} per {_PHRASES[name]}"
    return None


def _common_factor(amounts: Sequence[tuple[CallCost, Dim]], name: str) -> int | None:
    factors = set()
    for record, amount in amounts:
        quantity = _quantity(record, name)
        if is_symbolic(quantity) or is_symbolic(amount) or not quantity or amount % quantity:
            return None
        factors.add(amount // quantity)
    return factors.pop() if len(factors) == 1 else None


def _quantity(record: CallCost, name: str) -> Dim:
    try:
        return Quantities(record.call.layer, record.cost)(name)
    except CostError:  # only attention has scores
        return 0


# Common input sizes.


IMAGES = (224, 256, 288, 299, 320, 384, 448, 512, 640)
"""Image sides in papers and model zoos."""

SEQUENCES = (128, 256, 512, 1024, 2048)
"""Lengths of token sequences."""


def other_sizes(text: str, inputs: Any) -> Iterator[str]:
    """Yield the text of ``--input`` with other common sizes: square images, or other lengths of a sequence.

    Args:
        text: the text, ``1x3x224x224`` or ``ids=1x128:int64``.
        inputs: the parsed inputs.
    """
    tensor = _only_tensor(inputs)
    if tensor is None or not all(isinstance(size, int) for size in tensor.shape):
        return
    shape = tensor.shape
    if len(shape) == 4 and shape[2] == shape[3]:
        others: list[tuple[Any, ...]] = [(*shape[:2], side, side) for side in IMAGES if side != shape[2]]
    elif len(shape) == 2 and tensor.dtype.startswith("int"):
        others = [(shape[0], length) for length in SEQUENCES if length != shape[1]]
    else:
        return
    written = "x".join(map(str, shape))
    yield from (text.replace(written, "x".join(map(str, other)), 1) for other in others)


def _only_tensor(inputs: Any) -> Tensor | None:
    if isinstance(inputs, dict) and len(inputs) == 1:
        return _only_tensor(next(iter(inputs.values())))
    if isinstance(inputs, list) and len(inputs) == 1:
        return _only_tensor(inputs[0])
    if isinstance(inputs, Tensor):
        return inputs
    if isinstance(inputs, tuple) and inputs and all(isinstance(size, int) for size in inputs):
        return Tensor(inputs)
    return None
