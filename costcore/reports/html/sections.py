"""The sections of the page that need no script: totals, uncounted operators, assumptions, notes and versions."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from costcore.ledger.caveats import n_assumptions, remarks_on_mode, uncounted_operators
from costcore.ledger.intensity import intensity, multiply_add, total_peak_flops
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.tables.html import bytes_card, card, text
from costcore.text.amounts import exact, readable
from costcore.text.counted_units import per_byte
from costcore.text.units import rounded
from costcore.trace.call import Uncounted
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData


def status(report: ReportData) -> str:
    """Return badges that state whether every call is counted, and how many assumptions were made."""
    if report.status == "complete":
        return '<span class="badge good">✓ complete</span>'
    badges = []
    if uncounted := len(report.ignored_layers):
        badges.append(f'<a class="badge bad" href="#unknown">⚠ partial: {_calls(uncounted)} not counted</a>')
    if report.assumptions:
        badges.append(f'<a class="badge caution" href="#basis">≈ assumed: {n_assumptions(report.trace)}</a>')
    return " ".join(badges)


def settings(report: ReportData) -> str:
    """Return one line with the convention and the options of the run."""
    run = report.trace.run
    fma = "a fused multiply-add counts as one FLOP" if run.fma_1flop else "a fused multiply-add counts as two FLOPs"
    layout = "data movement is counted" if run.layout == "framework" else "data movement is ignored"
    if run.unit != FLOPS:
        fma = f"counts {run.unit}"
    fused = [] if run.fusion is None else [f"bytes after fusion at level {run.fusion.level}"]
    rank = [] if run.rank is None else [f"costs of {run.rank}"]
    phrases = [f"convention {run.convention}", fma, layout, *fused, *rank]
    return " · ".join(map(text, phrases))


def totals(report: ReportData) -> str:
    """Return a card per total with its rounded and its exact value."""
    total, unit = report.total_report, report.trace.run.unit
    n_params = total.get("n_params_model", total["n_params"])
    unused = n_params - total["n_params"]
    note = "" if unused == 0 else f"{exact(total['n_params'])} of them read by these calls"
    cards = [
        _amount_card(text(unit), total["flops"], "flops"),
        _amount_card("MACs", total["macs"], "flops"),
        _amount_card("Parameters", n_params, "flops", note),
        _amount_card("Bytes read", total["mread"], "bytes"),
        _amount_card("Bytes written", total["mwrite"], "bytes"),
        card(text(per_byte(unit)), _intensity(report), f"arithmetic intensity{multiply_add(unit)}"),
        card("Calls", exact(total["n_layers"]), _uncounted_note(report)),
    ]
    if "mcomm" in total:
        cards.insert(5, _amount_card("Bytes sent", total["mcomm"], "bytes", "to other processes"))
    fusion = report.trace.run.fusion
    if fusion is not None:
        cards.append(_amount_card("Bytes unfused", fusion.unfused, "bytes", f"read and written; fused: {fusion.level}"))
    if report.memory is not None:
        cards.append(bytes_card("Peak memory", report.memory.peak, text(report.memory.where)))
    cards += _phases(report)
    if "seconds" in total:
        cards.append(card("Measured time", rounded(1000 * Fraction(total["seconds"]), 3) + " ms", "of a real run"))
    return "\n".join(cards)


def _phases(report: ReportData) -> list[str]:
    """Return a card for each phase of a training step; none if there is only one."""
    of_phases = report.ledger.by("phase")
    if len(of_phases) < 2:
        return []
    unit = report.trace.run.unit
    return [
        card(text(phase.capitalize()), _short(sums["flops"]), f"{text(unit)}, {_calls(sums['n_layers'])}")
        for phase, sums in of_phases.items()
    ]


def _short(value: Dim) -> str:
    return as_text(value) if is_symbolic(value) else readable(value, "flops")


def uncounted(report: ReportData) -> str:
    """Return a table of the operators that are not counted; empty if every call is counted.

    The table states the number of calls of each operator, the bytes of their operands, and the location of the first.
    """
    operators = uncounted_operators(report.trace)
    if not operators:
        return ""
    failures = [record for record in report.trace if record.uncounted not in (None, Uncounted.NO_CALCULATOR)]
    reasons = {(call.native or call.type, kind): reason for call, _, kind, reason, _ in reversed(failures)}
    rows = [
        f"<tr><th scope='row'>{text(each.native)}{_small(reasons.get((each.native, each.uncounted), ''))}</th>"
        f"<td class='n'>{exact(each.calls)}</td>"
        f"<td class='n'>{_amount(each.mread)}</td><td class='n'>{_amount(each.mwrite)}</td>"
        f"<td>{text(each.module) or '–'}</td><td class='code'>{text(each.where) or '–'}</td></tr>"
        for each in operators
    ]
    head = "<th>Operator</th><th class='n'>Calls</th><th class='n'>Read</th><th class='n'>Written</th>"
    return (
        "<section id='unknown' class='warning' aria-labelledby='unknown-title'>"
        "<h2 id='unknown-title'>Not counted</h2>"
        "<p>These operators have no cost formula, or the shapes of their operands are unknown. "
        "The totals do not include them.</p>"
        f"<div class='scroll' tabindex='0' role='group' aria-label='Not counted'><table><thead><tr>{head}"
        "<th>First in module</th><th>Called at</th>"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def basis(report: ReportData) -> str:
    """Return lists of the assumptions, notes and versions of a report."""
    assumptions = [*map(str, report.assumptions)]
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    sections = (
        ("Assumptions", assumptions, "No assumptions were made."),
        ("Notes", [*remarks_on_mode(report.trace), *report.notes], ""),
        ("Versions", versions, ""),
    )
    return "\n".join(
        f"<div><h3>{title}</h3>{_list(lines) if lines else f'<p>{if_empty}</p>'}</div>"
        for title, lines, if_empty in sections
        if lines or if_empty
    )


def _amount_card(title: str, value: Dim, kind: str, note: str = "") -> str:
    if is_symbolic(value):
        return card(title, as_text(value), note, is_expression=True)
    large, full = readable(value, kind), exact(value) + (" B" if kind == "bytes" else "")
    return card(title, large, note or ("" if full == large else full))


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def _amount(value: Dim) -> str:
    return f"<span title='{text(exact(value))} B'>{text(readable(value, 'bytes'))}</span>"


def _intensity(report: ReportData) -> str:
    ratio = intensity(total_peak_flops(report.ledger), report.ledger.total["mrw"])
    if ratio is None:
        return "–"
    whole, _, decimals = rounded(ratio, 3).partition(".")
    return f"{exact(int(whole))}.{decimals}"


def _uncounted_note(report: ReportData) -> str:
    uncounted = len(report.ignored_layers)
    return f"{_calls(uncounted)} not counted" if uncounted else "all of them counted"


def _calls(n: int) -> str:
    return f"{exact(n)} call{'s' * (n != 1)}"


def _small(value: str) -> str:
    return f"<small>{text(value)}</small>" if value else ""
