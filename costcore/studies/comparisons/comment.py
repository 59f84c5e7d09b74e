"""A comparison as a comment on a pull request: totals and sums by module that fit one screen."""

from __future__ import annotations

from costcore.ledger.module_paths import deepest_that_fit
from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.differences import Delta
from costcore.studies.comparisons.render import code, weight
from costcore.tables.quantities import quantity
from costcore.text.amounts import readable
from costcore.text.escape import escaped

MARKER = "<!-- costcore diff -->"
"""The first line, by which a script finds the comment that it updates."""

MOST_MODULES = 8
"""The maximum number of rows of the table by module."""

MOST_NOTES = 6
"""The maximum number of remarks."""

IN_TITLE = ("flops", "n_params", "peak_memory")
"""The totals whose change the title states; if none of them changed, it states all that did."""

OF_MODULES = ("flops", "mrw", "n_params")
"""The costs in the table by module."""


def to_comment(comparison: ComparisonData) -> str:
    """Return the comment as Markdown of at most 40 lines."""
    old, new = comparison.names
    totals, titles = dict(comparison.totals), {**comparison.titles, "peak_memory": quantity("peak_memory").in_words}
    if comparison.memory is not None:
        totals["peak_memory"] = comparison.memory.figures["peak"]
    changed = {key: delta for key, delta in totals.items() if not delta.equal}
    shown = [key for key in IN_TITLE if key in changed] or changed
    title = ", ".join(f"{titles[key]}{_ratio(changed[key]) or ' new'}" for key in shown)
    title = title or ("the same costs, other calls" if comparison.differences else "no change")
    lines = [MARKER, f"**{code(old)} → {code(new)}: {title}**", ""]
    lines += ["| total | old | new | change |", "|:---|---:|---:|---:|"]
    for key, delta in totals.items():
        cells = [readable(value, quantity(key).kind) for value in delta]
        change = "" if delta.equal else readable(delta.difference, quantity(key).kind, signed=True)
        lines.append(f"| {titles[key]} | {' | '.join(cells)} | {change}{_ratio(delta) if change else ''} |")
    if comparison.by == "module":
        lines += _modules(comparison)
    notes = [*comparison.missing, *comparison.notes]
    lines += ["", *(f"- {escaped(note)}" for note in notes[:MOST_NOTES])] if notes else []
    if len(notes) > MOST_NOTES:
        lines.append(f"- … and {len(notes) - MOST_NOTES} more remarks")
    return "\n".join(lines) + "\n"


def _modules(comparison: ComparisonData) -> list[str]:
    """Return the table of the modules that changed, as deep in the model as its rows fit."""
    changed = {
        path: sums for path, sums in comparison.modules.items() if any(not sums[key].equal for key in OF_MODULES)
    }
    shown = sorted(deepest_that_fit(changed, MOST_MODULES), key=lambda path: weight(changed[path]), reverse=True)
    if not shown:
        return []
    titles = [comparison.titles[key] if key != "mrw" else "bytes read and written" for key in OF_MODULES]
    lines = ["", f"| module | {' | '.join(titles)} |", "|:---|---:|---:|---:|"]
    for path in shown[:MOST_MODULES]:
        cells = (_change(changed[path][key], quantity(key).kind) for key in OF_MODULES)
        lines.append(f"| {code(path)} | {' | '.join(cells)} |")
    if len(shown) > MOST_MODULES:
        lines += ["", f"… and {len(shown) - MOST_MODULES} more modules"]
    return lines


def _change(delta: Delta, kind: str) -> str:
    if delta.equal:
        return "="
    return f"{readable(delta.old, kind)} → {readable(delta.new, kind)}{_ratio(delta, ' ({})')}"


def _ratio(delta: Delta, form: str = " {}") -> str:
    return "" if delta.ratio is None else form.format(f"×{delta.ratio:.4f}")
