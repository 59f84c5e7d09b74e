"""The sentences of an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from costcore.analyses.conventions.catalog import conventions
from costcore.analyses.conventions.convention import UNIT_NAMES
from costcore.studies.explanations.answers import Answer, ExplanationData
from costcore.studies.explanations.readings import ANOTHER_NETWORK, Reading
from costcore.studies.explanations.wording import rule_in_words

MOST_SHOWN = 5
"""The maximum number of readings that are shown."""

MOST_FAR_FETCHED = 3
"""The maximum number of far-fetched readings that are shown, where nothing better is known."""


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
        yield from (f"Also {_sentence(answer)}" for answer in answers[1:MOST_SHOWN] if answer.price < ANOTHER_NETWORK)
    for reading in explanation.nearest:
        away = float(reading.value / explanation.number.value - 1)
        gap = _nearest_operator(reading, explanation)
        yield f"Near: {_described(reading)}: {_amount(reading.value)}, {away:+.1%}. {gap}".rstrip()
    yield f"In MACs alone: {_amount(Fraction(explanation.macs))}."


def _doubts(explanation: ExplanationData) -> Iterator[str]:
    """Yield whether the digits decide, and how likely a coincidence is."""
    values, digits = [answer.value for answer in explanation.likely], explanation.number.digits
    if len(values) > 1:
        between = f"{_amount(min(values))} to {_amount(max(values))} are all printed so."
        yield f"Several rules give this. These digits do not decide: {between}"
    elif not explanation.decides:
        yield "It does not decide: other numbers near it have rules as plausible."
    chance, needed = explanation.coincidence, explanation.digits_needed
    share = "less than 0.1%" if chance < 0.001 else f"{chance:.{1 if chance < 0.1 else 0}%}"
    more = "" if needed == digits else f"; {needed} digits would decide" if needed else "; more digits do not decide"
    yield (
        f"Chance: of the numbers with {digits} digit{'s' * (digits != 1)} within 2% of it, {share} have a reading as "
        f"plausible{more}."
    )


def _sentence(answer: Answer) -> str:
    """Return what gives a value: the first reading in full, and the other conventions that give the same."""
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
    """Yield the parts of a total by operator, with their rules in words."""
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
    """Return the operator whose amount is about what the number lacks, or has too much; empty if there is none."""
    gap = abs(reading.value - explanation.number.value)
    view = reading.view
    amounts = {} if view is None or view.is_closed_form else {op: int(a) for op, a in view.by("op").items() if a}
    op = min(amounts, key=lambda name: abs(amounts[name] - gap), default=None)
    if op is None or abs(amounts[op] - gap) > gap / 10:
        return ""
    return f"The difference is about that of {op} ({_amount(Fraction(amounts[op]))})."


def _amount(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.0f}"
