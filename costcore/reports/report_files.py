"""The files of a report: JSON, which can be read back, the page, and files for other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from costcore.errors import CostError
from costcore.renamed import renamed
from costcore.reports.data.report_data import ReportData
from costcore.tables.quantity import Quantity
from costcore.text.targets import Target, save

AnyReport = TypeVar("AnyReport", bound="ReportFiles")


class ReportFiles(ReportData):
    """A report that can be written to files, and read back."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report in plain JSON types, as ``costcore/reports/report.schema.json`` describes them."""
        from costcore.reports.exports.data import complete

        return complete(self)

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
        return self.export("data", target, indent=indent)

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
        return self.export("page", target, title=title, columns=columns)

    def export(self, name: str, target: Target = None, **options: Any) -> str:
        """Return the report as text for another program, and write it to ``target`` if given.

        Args:
            name: an export: a file of ``costcore/reports/exports/``, or one of a plug-in.
            target: a path, which is replaced atomically, or a stream.
            options: those of the export.

        Raises:
            ValueError: if there is no export of that name.
            CostError: if the report does not have what the export needs.
            OSError: if the path cannot be written.
        """
        from costcore.reports.exports import exported

        return save(exported(self, name, options), target)

    def to_memory_svg(self, target: Target = None) -> str:
        """Return the live bytes over the calls, by kind, as an SVG picture, and write it to ``target`` if given.

        Raises:
            CostError: if memory was not recorded.
        """
        return self.export("memory_svg", target)

    @renamed(metric="column")
    @renamed(metric="column")
    def to_model_explorer(self, target: Target = None, column: str = "flops") -> str:
        """Return node data (JSON) for Google's Model Explorer, and write it to ``target`` if given.

        The nodes are colored by ``column``, a quantity.
        """
        return self.export("model_explorer", target, column=column)

    def to_chrome_trace(self, target: Target = None) -> str:
        """Return a trace for Perfetto and chrome://tracing, and write it to ``target`` if given.

        If no time was measured, every call takes one microsecond.
        """
        return self.export("chrome_trace", target)

    def to_model_card(self, target: Target = None) -> str:
        """Return a YAML block for a model card: costs, input shape, convention, versions and report hash.

        The text is also written to ``target`` if given.
        """
        return self.export("model_card", target)

    def _further_formats(self) -> Mapping[str, Callable[[str | PathLike[str]], object]]:
        from costcore.reports.exports import by_suffix

        return {suffix: partial(self.export, each.name) for suffix, each in by_suffix().items()}
