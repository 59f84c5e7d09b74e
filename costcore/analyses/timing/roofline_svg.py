"""The roofline of a timed run as a picture of its own, for documents; it follows the light or dark mode of its page."""

from __future__ import annotations

from costcore.analyses.timing.roofline import MOST_DRAWN, axes_of, dots_of, label_of, legend, roofs_of, shapes
from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.tables.html import text

WIDTH, HEIGHT, LINE = 900, 400, 20
"""Size of the plot and height of a line of the legend above it, in pixels."""

FILLS = {
    "matrix": ("#0072b2", "#3a9bd9"),
    "vector": ("#e69f00", "#e9ab26"),
    "special": ("#cc79a7", "#d990b7"),
    "dram": ("#009e73", "#1fb88c"),
    "cache": ("#56b4e9", "#8fd0f5"),
}
"""The colors of what binds, in light and dark mode."""

PAGE = (("#ffffff", "#1b2129", "#596473", "#dfe3e9"), ("#1a1e25", "#e4e8ee", "#9aa5b4", "#2d333d"))
"""The colors of background, text, labels and grid, in light and dark mode."""


def roofline_svg(times: Times) -> str:
    """Return the picture.

    Raises:
        CostError: if no group of the run has operations and bytes.
    """
    dots = dots_of(times)[-MOST_DRAWN:]
    if not dots:
        raise CostError("no group of this run has operations, bytes and a bound, so there is nothing to draw")
    roofs = roofs_of(times)
    items = legend(times, roofs)
    top, label = LINE * (len(items) + 1) + 8, label_of(dots)
    key = f"<text x='6' y='{LINE * len(items) + 18}'>{axes_of(dots)}</text>" + "".join(
        f"<circle class='{name}' cx='12' cy='{LINE * i + 14}' r='5'/><text class='key' x='24' y='{LINE * i + 18}'>"
        f"{text(line)}</text>"
        for i, (name, line) in enumerate(items)
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {top + HEIGHT}' width='{WIDTH}' "
        f"height='{top + HEIGHT}' role='img' aria-label='{label}'><title>{label}</title><style>{_style()}</style>"
        f"<rect class='page' width='100%' height='100%'/>{key}"
        f"<svg y='{top}' width='{WIDTH}' height='{HEIGHT}'>{shapes(dots, roofs)}</svg></svg>\n"
    )


def _style() -> str:
    shared = "text{font:12px system-ui,sans-serif;paint-order:stroke;stroke-width:5px}circle{fill-opacity:.75}"
    return f"{shared}.roof{{stroke-width:2}}{_mode(0)}@media(prefers-color-scheme:dark){{{_mode(1)}}}"


def _mode(i: int) -> str:
    page, ink, soft, line = PAGE[i]
    fills = "".join(f"circle.{name}{{fill:{c[i]}}}.roof.{name}{{stroke:{c[i]}}}" for name, c in FILLS.items())
    rest = f"text{{fill:{soft};stroke:{page}}}.key{{fill:{ink}}}.grid{{stroke:{line}}}circle{{stroke:{page}}}"
    return f".page{{fill:{page}}}{rest}{fills}"
