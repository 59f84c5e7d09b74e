"""``memory_svg``: the picture of live memory as an SVG file, in the colors of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping

from costcore.analyses.memory.picture import STACK, columns_of, picture
from costcore.errors import CostError
from costcore.reports.data.report_data import ReportData
from costcore.tables.html import file_text
from costcore.text.amounts import exact, readable

WIDTH, HEIGHT = 900, 360
"""The size of the picture in pixels."""

KEY_HEIGHT = 36
"""The height of the names of the kinds above the picture."""

CHARACTER_WIDTH = 7

FILLS: Mapping[str, str] = {
    "parameter": "c0",
    "buffer": "c4",
    "input": "c7",
    "optimizer": "c2",
    "gradient": "c3",
    "output": "c6",
    "saved": "c1",
    "temporary": "c5",
}
"""The color of each kind, by its name in the style sheet of the page."""

_COLOR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)")


def to_memory_svg(report: ReportData) -> str:
    """Return the live bytes over the calls of a run as an SVG document; it follows the color scheme of the viewer.

    Raises:
        CostError: if memory was not recorded, or no memory was alive.
    """
    memory = report.memory
    if memory is None or not memory.peak:
        reason = "memory was not recorded. Pass memory=True" if memory is None else "no memory was alive. Pass a model"
        raise CostError(f"there is nothing to draw: {reason} to estimate or ComputationalCostHook.")
    calls = report.trace.calls
    columns = columns_of(memory, calls)
    title = f"Live bytes over {exact(len(calls))} calls; peak {readable(memory.peak, 'bytes')}"
    kinds = [kind for kind in reversed(STACK) if any(kind in column.by_kind for column in columns)]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' "
        f"role='img' aria-label='{title}'><title>{title}</title><style>{_style()}</style>"
        f"<rect class='page' width='100%' height='100%'/>{_keys(kinds)}"
        f"<svg y='{KEY_HEIGHT}' width='{WIDTH}' height='{HEIGHT - KEY_HEIGHT}'>"
        f"{picture(columns, calls, memory.peak)}</svg></svg>\n"
    )


def _keys(kinds: list[str]) -> str:
    """Return the names of the kinds in a row, each after a square of its color."""
    parts, x = [], 12
    for kind in kinds:
        parts.append(
            f"<rect class='{kind}' x='{x}' y='12' width='12' height='12'/><text x='{x + 17}' y='22'>{kind}</text>"
        )
        x += 17 + CHARACTER_WIDTH * len(kind) + 16
    return "".join(parts)


def _style() -> str:
    """Return the style sheet, with the colors of the page for both color schemes."""
    found = _COLOR.findall(file_text("page.css"))
    light, dark = ({name: pair[scheme] for name, *pair in found} for scheme in (0, 1))
    shapes = (
        "text{font:12px system-ui,sans-serif}.label{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}"
        ".phase{stroke-dasharray:2 4}.peak{stroke-width:2}"
    )
    return f"{shapes}{_colors(light)}@media(prefers-color-scheme:dark){{{_colors(dark)}}}"


def _colors(color: Mapping[str, str]) -> str:
    fills = "".join(f".{kind}{{fill:{color[name]}}}" for kind, name in FILLS.items())
    return (
        f"{fills}.page{{fill:{color['card']}}}text{{fill:{color['ink']}}}.label{{stroke:{color['card']}}}"
        f".grid{{stroke:{color['line']}}}.phase{{stroke:{color['soft']}}}.peak{{stroke:{color['bad']}}}"
    )
