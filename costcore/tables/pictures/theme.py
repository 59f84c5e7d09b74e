"""The look of all pictures, and their files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.messages import error_text, import_problem, unknown
from costcore.text.escape import printable

SUFFIXES = (".svg", ".png", ".pdf")
"""Suffixes of images."""

MAX_LABEL = 60
"""The maximum length of a name in a picture, in characters."""

DPI = 150
"""The resolution of images of pixels, per inch."""

_FONT = {"svg.fonttype": "none", "svg.hashsalt": "costcore", "font.size": 10}
"""Text stays text in SVG files, and equal pictures are equal files."""


class Theme(NamedTuple):
    """The colors of a picture.

    Attributes:
        paper, ink, soft, line: of the background, text, secondary text and grid.
        colors: of the data, those of Okabe and Ito, which people with any kind of color vision can distinguish.
        gray: of what has no color of its own.
    """

    paper: str
    ink: str
    soft: str
    line: str
    colors: tuple[str, ...]
    gray: str


THEMES = {
    "light": Theme(
        "#ffffff",
        "#1b2129",
        "#596473",
        "#dfe3e9",
        ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#c9bb1d"),
        "#9aa3ad",
    ),
    "dark": Theme(
        "#1a1e25",
        "#e4e8ee",
        "#9aa5b4",
        "#2d333d",
        ("#3a9bd9", "#e9ab26", "#1fb88c", "#e5762a", "#8fd0f5", "#d990b7", "#f0e442"),
        "#8d97a4",
    ),
}


def theme_of(name: str) -> Theme:
    """Return the theme of a name.

    Raises:
        ValueError: if there is none.
    """
    if name not in THEMES:
        raise ValueError(unknown("theme", name, THEMES))
    return THEMES[name]


def axes_of(theme: Theme, width: float = 7, height: float = 4.2) -> Any:
    """Return the axes of a new picture of this size in inches; ``axes.figure`` is the picture.

    Raises:
        CostError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CostError(import_problem("a plot", "matplotlib", error)) from error
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
    axes = figure.add_subplot(facecolor=theme.paper)
    axes.tick_params(which="both", colors=theme.soft, labelcolor=theme.ink)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(theme.ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.line)
    axes.set_axisbelow(True)
    return axes


def add_legend(axes: Any, theme: Theme, handles: Any = None, **options: Any) -> None:
    """Add a legend beside the axes, from these handles or from all that have a label."""
    given = {} if handles is None else {"handles": handles}
    axes.legend(**given, frameon=False, labelcolor=theme.ink, loc="upper left", bbox_to_anchor=(1, 1), **options)


def label(name: str) -> str:
    """Return a name as text of a picture: without formulas, and with its end if it is long."""
    text = printable(name).replace("$", r"\$")
    text = text if len(text) <= MAX_LABEL else f"…{text[1 - MAX_LABEL :]}"
    return f" {text}" if text.startswith("_") else text  # matplotlib leaves such names out of a legend


def check_suffix(target: str | PathLike[str], suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """Return the suffix of a file.

    Raises:
        ValueError: if it is another one.
    """
    suffix = Path(target).suffix
    if suffix not in suffixes:
        raise ValueError(f"{str(target)!r} has an unknown suffix (expected one of {', '.join(suffixes)})")
    return suffix


def save_figure(figure: Any, target: Any, suffix: str) -> None:
    """Write a picture to a path or a binary stream. An SVG file has no date.

    Raises:
        OSError: if the path cannot be written.
    """
    from matplotlib import rc_context

    metadata = {"Date": None} if suffix == ".svg" else {"CreationDate": None} if suffix == ".pdf" else None
    try:
        with rc_context(_FONT):
            figure.savefig(target, format=suffix[1:], metadata=metadata, dpi=DPI)
    except OSError as error:
        raise type(error)(f"{target} cannot be written: {error_text(error)}") from error
