"""What :meth:`costcore.Report.plot` returns: the numbers of a picture, and the picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.tables.pictures.theme import SUFFIXES, check_suffix, save_figure


class Picture(list[Any]):
    """The rows that a picture shows, as a list of tuples; a notebook displays the picture.

    It is drawn when it is needed, so that the rows need no matplotlib.

    Args:
        columns: the names of the columns of the rows.
        rows: the rows.
        draw: returns the picture as a figure of matplotlib.

    Attributes:
        columns: the names of the columns.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]], draw: Callable[[], Any]) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self._draw = draw

    def figure(self) -> Any:
        """Return a new ``matplotlib.figure.Figure``, to change and save as you like.

        Raises:
            CostError: if matplotlib is not installed, or if there is nothing to draw.
        """
        if not self:
            raise CostError("there is nothing to draw: no row has numbers")
        return self._draw()

    def save(self, target: str | PathLike[str]) -> None:
        """Write an ``.svg``, ``.png`` or ``.pdf`` image, or the rows as ``.csv``.

        Raises:
            CostError: if matplotlib is not installed, or if there is nothing to draw.
            OSError: if the file cannot be written.
            ValueError: if the suffix is another one.
        """
        suffix = check_suffix(target, (".csv", *SUFFIXES))
        if suffix == ".csv":
            Path(target).write_text(self.to_csv(), encoding="utf-8")
        else:
            save_figure(self.figure(), target, suffix)

    def to_csv(self) -> str:
        """Return the rows as CSV, with their columns."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self])
        return text.getvalue()

    def _repr_svg_(self) -> str | None:
        """Return the picture for a notebook; None, so that it shows the rows, if it cannot be drawn."""
        image = io.BytesIO()
        try:
            save_figure(self.figure(), image, ".svg")
        except CostError:
            return None
        return image.getvalue().decode()
