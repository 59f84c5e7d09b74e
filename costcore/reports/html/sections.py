"""The parts of the page that need no script: totals, what is unknown, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING

from costcore.dims import Dim, is_symbolic
from costcore.reports.caveats import unknown_operators
from costcore.reports.text.amounts import METRICS, exact, readable
from costcore.reports.text.escape import printable
from costcore.reports.text.units import rounded
from costcore.symbolic import written
from costcore.trace.call import Uncounted

if TYPE_CHECKING:
    from costcore.reports.report_data import ReportData

LONGEST_EXPRESSION = 24
"""Longer values are written small in their card (characters), as formulas always are."""


def heading(title: object) -> str:
    """A title as HTML.

    Raises:
        TypeError: for anything but a string.
    """
    if not isinstance(title, str):
        raise TypeError(f"title must be text, got {title!r}")
    return text(title)


def text(value: str) -> str:
    """Any text as HTML: no markup, and unprintable characters and direction marks spelled out."""
    return escape(printable(value))


def status(report: ReportData) -> str:
    """A badge: whether everything is counted."""
    if report.status == "complete":
        return '<span class="badge good">✓ complete</span>'
    unknown = len(report.ignored_layers)
    return f'<a class="badge bad" href="#unknown">⚠ partial: {_calls(unknown)} not counted</a>'


def settings(report: ReportData) -> str:
    """One line: how it was counted, and by what."""
    run = report.trace.run
    fma = "a fused multiply-add counts as one FLOP" if run.fma_1flop else "a fused multiply-add counts as two FLOPs"
    layout = "data movement as the framework does it" if run.layout == "framework" else "layout operators are free"
    versions = (f"{name} {version}" for name, version in report.versions.items() if name != "convention")
    words = [*versions, f"convention {run.convention}", fma, layout]
    return " · ".join(map(text, words))


def totals(report: ReportData) -> str:
    """The totals, each readable and exact."""
    total = report.total_report
    n_params = total.get("n_params_model", total["n_params"])
    unused = n_params - total["n_params"]
    note = "" if unused == 0 else f"{exact(total['n_params'])} of them read by these calls"
    cards = [
        _card("FLOPs", total["flops"], "flops"),
        _card("MACs", total["macs"], "macs"),
        _card("Parameters", n_params, "n_params", note),
        _card("Bytes read", total["mread"], "mread"),
        _card("Bytes written", total["mwrite"], "mwrite"),
        figure("FLOPs per byte", _intensity(total["flops"], total["mrw"]), "arithmetic intensity"),
        figure("Calls", exact(total["n_layers"]), _unknown_note(report)),
    ]
    if "seconds" in total:
        cards.append(figure("Measured time", rounded(1000 * Fraction(total["seconds"]), 3) + " ms", "a real run"))
    return "\n".join(cards)


def unknown(report: ReportData) -> str:
    """The operators without a formula: calls, bytes, and the place of the first; nothing where there are none."""
    found = unknown_operators(report.trace)
    if not found:
        return ""
    failures = [record for record in report.trace if record.uncounted not in (None, Uncounted.NO_CALCULATOR)]
    reasons = {call.native or call.type: reason for call, _, _, reason, _ in reversed(failures)}
    rows = [
        f"<tr><th scope='row'>{text(each.native)}{_small(reasons.get(each.native, ''))}</th>"
        f"<td class='n'>{exact(each.calls)}</td>"
        f"<td class='n'>{_amount(each.mread, 'mread')}</td><td class='n'>{_amount(each.mwrite, 'mwrite')}</td>"
        f"<td>{text(each.module) or '–'}</td><td class='code'>{text(each.where) or '–'}</td></tr>"
        for each in found
    ]
    head = "<th>Operator</th><th class='n'>Calls</th><th class='n'>Reads</th><th class='n'>Writes</th>"
    return (
        "<section id='unknown' class='warning' aria-labelledby='unknown-title'>"
        "<h2 id='unknown-title'>Not counted</h2>"
        "<p>These calls have no formula or no known shapes. Nothing of them is in any figure but these here.</p>"
        f"<div class='scroll' tabindex='0' role='group' aria-label='Not counted'><table><thead><tr>{head}"
        "<th>First in module</th><th>Called at</th>"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def basis(report: ReportData) -> str:
    """What the numbers rest on: assumptions and notes, convention and versions."""
    assumed = [f"{what} ({where})" if where else what for what, where in report.assumptions]
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    sections = (
        ("Assumptions", assumed, "Nothing was assumed."),
        ("Notes", report.notes, ""),
        ("Versions", versions, ""),
    )
    return "\n".join(
        f"<div><h3>{title}</h3>{_list(lines) if lines else f'<p>{absent}</p>'}</div>"
        for title, lines, absent in sections
        if lines or absent
    )


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def _card(title: str, value: Dim, metric: str, note: str = "") -> str:
    if is_symbolic(value):
        return figure(title, written(value), note, is_formula=True)
    large, full = readable(value, metric), exact(value) + (" B" if METRICS[metric][1] == "bytes" else "")
    return figure(title, large, note or ("" if full == large else full))


def figure(title: str, value: str, note: str, is_formula: bool = False) -> str:
    """A card: what it is, its value, and a note in small print."""
    long = " class='long'" if is_formula or len(value) > LONGEST_EXPRESSION else ""
    return f"<div class='card'><dt>{title}</dt><dd{long}>{text(value)}</dd><dd class='note'>{text(note)}</dd></div>"


def _amount(value: Dim, metric: str) -> str:
    return f"<span title='{text(exact(value))} B'>{text(readable(value, metric))}</span>"


def _intensity(flops: Dim, moved: Dim) -> str:
    if is_symbolic(flops) or is_symbolic(moved) or not moved:
        return "–"
    whole, _, decimals = rounded(Fraction(flops, moved), 3).partition(".")
    return f"{exact(int(whole))}.{decimals}"


def _unknown_note(report: ReportData) -> str:
    unknown = len(report.ignored_layers)
    return f"and {_calls(unknown)} unknown" if unknown else "all of them counted"


def _calls(n: int) -> str:
    return f"{exact(n)} call{'s' * (n != 1)}"


def _small(value: str) -> str:
    return f"<small>{text(value)}</small>" if value else ""
