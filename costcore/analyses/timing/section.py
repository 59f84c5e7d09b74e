"""The section of the page with the time of a run on a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from costcore.analyses.timing.calibrated import plus_minus
from costcore.analyses.timing.remarks import FUSIONS, time_remarks
from costcore.analyses.timing.roofline import picture
from costcore.analyses.timing.time_rows import summary, total_of
from costcore.analyses.timing.times import Times
from costcore.tables.html import card, text
from costcore.text.amounts import exact
from costcore.text.durations import duration

MOST_ROWS = 12
"""The maximum number of types in the table; those with the largest bounds are shown."""

COLUMNS = {
    "type": "Layer type",
    "n_groups": "# Groups",
    "bound_seconds": "Bound",
    "bound_seconds%": "Bound (%)",
    "binds": "Bound by",
}
"""The titles of the columns of the table, by key of the entries."""

CALIBRATED = {"type": "Layer type", "n_groups": "# Groups", "seconds": "Calibrated", **COLUMNS}
"""The columns if the device is calibrated."""


def time_section(times: Times) -> str:
    """Return the section: totals, the roofline, a table by type, and what the figures mean."""
    name = text(times.device.name)
    notes = "".join(f"<li>{text(line)}</li>" for line in [*time_remarks(times), *times.device.notes])
    return (
        f"<section id='time' aria-labelledby='time-title'><h2 id='time-title'>Time on {name}</h2>"
        f"<dl class='cards'>{_cards(times)}</dl>{picture(times)}{_table(times)}<ul class='note'>{notes}</ul></section>"
    )


def _cards(times: Times) -> str:
    total = total_of(times)
    words = filter(None, (FUSIONS[times.fusion], times.dtype, "partial" * (times.status == "partial")))
    cards = [card("At least", duration(times.bound_seconds), ", ".join(words))]
    if times.seconds is not None:
        cards.append(
            card("Calibrated", duration(times.seconds), f"usual time on this device, {plus_minus(times.error)}")
        )
    cards.append(card("Bound by", total["binds"].partition(" ")[0] or "nothing", total["binds"]))
    cards.append(card("Groups", exact(len(times.groups)), "calls that run as one kernel"))
    return "\n".join(cards)


def _table(times: Times) -> str:
    """Return the types with the largest bounds, with their calibrated time if the device is calibrated."""
    rows = sorted(summary(times), key=lambda row: -(row["bound_seconds"] or 0.0))
    shown = [row for row in rows[:MOST_ROWS] if row["bound_seconds"]]
    if not shown:
        return ""
    columns = CALIBRATED if times.seconds is not None else COLUMNS
    body = "".join(_row(row, columns) for row in [*shown, *_others(rows[len(shown) :], times)])
    head = "".join(f"<th{_end(key)}{title}</th>" for key, title in columns.items())
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll' tabindex='0' role='region' aria-labelledby='time-title'>{table}</div>"


def _others(rows: Sequence[Mapping[str, Any]], times: Times) -> list[dict[str, Any]]:
    """Return one row that sums the types without a row of their own; none if they take no time."""
    seconds, calibrated = (fsum(row.get(key) or 0.0 for row in rows) for key in ("bound_seconds", "seconds"))
    if not seconds and not calibrated:
        return []
    share = 100 * seconds / times.least_seconds if times.least_seconds else 0.0
    return [{"type": "others", "bound_seconds": seconds, "bound_seconds%": share, "seconds": calibrated}]


def _row(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td{_end(key)}{text(_cell(row, key))}</td>' for key in columns)}</tr>"


def _cell(row: Mapping[str, Any], key: str) -> str:
    """Return the text of a cell; empty if the row does not have the figure."""
    if key not in row:
        return ""
    if key.endswith("%"):
        return f"{row[key]:.1f}%"
    return duration(row[key], fixed=True) if key.endswith("seconds") else str(row[key])


def _end(key: str) -> str:
    """Return the end of the start tag of a cell: numbers are aligned to the right."""
    return ">" if key in ("type", "binds") else " class='n'>"
