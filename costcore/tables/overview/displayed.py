"""The methods by which Python and notebooks display a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costcore.tables.overview.overview import Overview


class Displayed(ABC):
    """A result that ``print`` and notebooks show as an overview, which is bounded in size."""

    @abstractmethod
    def _overview(self) -> Overview:
        """Return what is shown."""

    def __str__(self) -> str:
        from costcore.tables.overview.to_text import to_text

        return to_text(self._overview())

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: no script and no style sheet, and names only as text."""
        from costcore.tables.overview.to_html import to_html

        return to_html(self._overview())

    def _repr_markdown_(self) -> str:
        """Return Markdown for a notebook without HTML."""
        return overview_in_markdown(self)


def overview_in_markdown(result: Displayed) -> str:
    """Return the overview of a result as Markdown."""
    from costcore.tables.overview.to_markdown import to_markdown

    return to_markdown(result._overview())
