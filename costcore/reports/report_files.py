"""The files of a report: JSON, which can be read back, the page, and files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeVar

from costcore.errors import CostError
from costcore.reports.data.report_data import ReportData
from costcore.tables.quantity import Quantity
from costcore.text.targets import Target, save

AnyReport = TypeVar("AnyReport", bound="ReportFiles")


class ReportFiles(ReportData):
    """A report that can be written to files, and read back."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report in plain JSON types, as ``costcore/reports/report.schema.json`` describes them."""
        from costcore.analyses.registered import data
        from costcore.reports.serialization.to_json import to_dict

        of_analyses = data(self)
        return to_dict(self.trace, self.ledger.total) | ({"analyses": of_analyses} if of_analyses else {})

    def to_json(self, target: Target = None, indent: int | None = None) -> str:
        """Return the report as JSON text, and write it to ``target`` if given. Equal reports give the same bytes.

        :meth:`from_json` reads the text and returns an equal report.

        Args:
            target: a path, which is replaced atomically, or a stream; default: the text is only returned.
            indent: spaces per level; default: everything on one line.

        Raises:
            CostError: if an attribute is of a type that a report file cannot contain.
            OSError: if the path cannot be written.
        """
        from costcore.reports.serialization.to_json import to_json

        return to_json(self.to_dict(), target, indent)

    @classmethod
    def from_json(cls: type[AnyReport], source: str | bytes | PathLike[str]) -> AnyReport:
        """Return the report that :meth:`to_json` wrote.

        Args:
            source: JSON text, or a path; a string that does not start with a brace is a path.

        Raises:
            CostError: if the file cannot be read or is not a report; the message contains the path and location.
        """
        from costcore.reports.serialization.from_json import read

        contents = read(source)
        report = cls(contents.trace)
        if not contents.is_consistent:
            raise CostError(
                f"{contents.source}: total is not the sum of the calls; the file was edited, or written by another "
                "version"
            )
        return report

    def to_dataframe(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per counted call, indexed by name.

        Raises:
            CostError: if pandas is not installed.
        """
        from costcore.tables.data import imported_pandas

        records = [*self.layer_report.values()]
        return imported_pandas("to_dataframe").DataFrame.from_records(records, index="name" if records else None)

    def to_html(self, target: Target = None, title: str = "", columns: Sequence[str | Quantity] = ()) -> str:
        """Return the report as one self-contained HTML page for offline use, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: heading of the page; default: the type of the model.
            columns: quantities that its table shows besides its own, ``["fused_mrw", "bound_seconds@l4"]``; exact ones
                that add up are metrics of its charts.

        Raises:
            ValueError: if there is no quantity of a name.
            CostError: if the report does not have it.
            OSError: if the path cannot be written.
        """
        from costcore.reports.html import to_html

        return save(to_html(self, title, columns=columns), target)

    def to_memory_svg(self, target: Target = None) -> str:
        """Return the live bytes over the calls, by kind, as an SVG picture, and write it to ``target`` if given.

        Raises:
            CostError: if memory was not recorded.
        """
        from costcore.reports.exports.memory_svg import to_memory_svg

        return save(to_memory_svg(self), target)

    def to_model_explorer(self, target: Target = None, metric: str = "flops") -> str:
        """Return node data (JSON) for Google's Model Explorer, and write it to ``target`` if given.

        The nodes are colored by ``metric``.
        """
        from costcore.reports.exports.model_explorer import to_model_explorer

        return save(to_model_explorer(self, metric), target)

    def to_chrome_trace(self, target: Target = None) -> str:
        """Return a trace for Perfetto and chrome://tracing, and write it to ``target`` if given.

        If no time was measured, every call takes one microsecond.
        """
        from costcore.reports.exports.chrome_trace import to_chrome_trace

        return save(to_chrome_trace(self), target)

    def to_model_card(self, target: Target = None) -> str:
        """Return a YAML block for a model card: costs, input shape, convention, versions and report hash.

        The text is also written to ``target`` if given.
        """
        from costcore.reports.exports.model_card import to_model_card

        return save(to_model_card(self), target)
