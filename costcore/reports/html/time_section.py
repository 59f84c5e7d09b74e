"""The section of the page with the time of a run on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.reports.html.roofline import picture
from costcore.reports.html.sections import card, text
from costcore.reports.text.amounts import exact
from costcore.reports.text.durations import duration
from costcore.timing.remarks import FUSIONS, time_remarks
from costcore.timing.time_rows import summary, total_of
from costcore.timing.times import Times

MOST_ROWS = 12
"""The maximum number of types in the table; those with the largest bounds are shown."""


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
    dtype = f", {times.dtype}" if times.dtype else ""
    cards = [card("At least", duration(times.bound_seconds), f"{FUSIONS[times.fusion]}{dtype}")]
    if times.seconds is not None:
        cards.append(card("Calibrated", duration(times.seconds), f"usual time on this device, ± {times.error:.0%}"))
    cards.append(card("Bound by", total["binds"].partition(" ")[0] or "nothing", total["binds"]))
    cards.append(card("Groups", exact(len(times.groups)), "calls that run as one kernel"))
    return "\n".join(cards)


def _table(times: Times) -> str:
    """Return the types with the largest bounds."""
    rows = sorted(summary(times), key=lambda row: -row["bound_seconds"])
    shown = [row for row in rows[:MOST_ROWS] if row["bound_seconds"]]
    hidden = sum(row["bound_seconds"] for row in rows[len(shown) :])
    body = "".join(map(_row, shown))
    if hidden:
        share = 100 * hidden / times.bound_seconds
        body += _row({"type": "others", "n_groups": "", "bound_seconds": hidden, "bound_seconds%": share, "binds": ""})
    head = "<th>Type</th><th class='n'>Groups</th><th class='n'>Bound</th><th class='n'>Share</th><th>Bound by</th>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll' tabindex='0' role='region' aria-labelledby='time-title'>{table}</div>" if body else ""


def _row(row: Mapping[str, Any]) -> str:
    cells = [str(row["n_groups"]), duration(row["bound_seconds"], fixed=True), f"{row['bound_seconds%']:.1f}%"]
    numbers = "".join(f"<td class='n'>{text(cell)}</td>" for cell in cells)
    return f"<tr><td>{text(row['type'])}</td>{numbers}<td>{text(row['binds'])}</td></tr>"
