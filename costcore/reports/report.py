"""The report of a run: its figures, as tables and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import IO, Any

from costcore.errors import CostError
from costcore.reports.columns import (
    GROUPS,
    LAYERS,
    REPORT,
    SUMMARY,
    TREE,
    Column,
    GroupColumns,
    LayerColumns,
    ReportColumns,
    SummaryColumns,
    TreeColumns,
    choose,
)
from costcore.reports.exports.dataframe import to_dataframe
from costcore.reports.report_data import ReportData
from costcore.reports.serialization.targets import Target, save, written
from costcore.reports.serialization.to_json import to_dict, to_json
from costcore.reports.tables.arrange import Line, arrange
from costcore.reports.tables.layer_rows import layer_rows
from costcore.reports.tables.module_tree import lines as tree_lines
from costcore.reports.tables.show import TableOptions, one_stream, show


class Report(ReportData):
    """The costs of one run.

    Every property returns a copy; changing it changes nothing here. FLOPs and MACs are exact ints (or expressions
    over the model's symbolic dimensions), memory traffic is in bytes.

    Args:
        trace: the captured run with the cost of every call, the calls named.
    """

    def show_report(
        self,
        ost: IO[str] | None = None,
        mode: str = "csv",
        unit: str | None = "autoaligned",
        columns: Sequence[str] = ReportColumns.DEFAULT,
        n_digits: int | None = 3,
        dst: IO[str] | None = None,
        *,
        sort: str | None = None,
        top: int | None = None,
    ) -> None:
        """Write every counted call and the total as a table.

        Args:
            ost: stream to write to (also ``dst``); standard output at the time of the call where not given.
            mode: ``csv``, ``md``, ``table``, ``color`` (a table, in colour where the stream is a terminal and rich is
                installed), or a plug-in's word.
            unit: None, ``K``, ``M``, ``G``, ``T``, ``auto`` (each cell has its own prefix) or ``autoaligned`` (each
                column has). FLOPs go by powers of 1000, bytes by powers of 1024.
            columns: names of columns; see :class:`ReportColumns`.
            n_digits: digits after the decimal point, 0 to 10; None is 10.
            dst: another name for ``ost``.
            sort: a column to sort by, shown or not: numbers from the largest, text by the alphabet.
            top: rows to show; a row ``others`` sums the rest.

        Raises:
            TypeError, ValueError: for an argument that is not accepted; says what is.
        """
        lines = [Line(self.ledger.entries[call.name], [call]) for call, _ in self.ledger.counted]
        entries = [*arrange(lines, REPORT, sort, top, self.ledger), self.ledger.total]
        self._show(entries, choose(REPORT, columns), TableOptions(one_stream(ost, dst), mode, unit, n_digits))

    def show_summary_report(
        self,
        ost: IO[str] | None = None,
        mode: str = "csv",
        unit: str | None = "autoaligned",
        columns: Sequence[str] = SummaryColumns.DEFAULT,
        n_digits: int | None = 3,
        dst: IO[str] | None = None,
        *,
        sort: str | None = None,
        top: int | None = None,
    ) -> None:
        """Write the sums by type and the total as a table; arguments as for :meth:`show_report`."""
        entries = [*arrange(self._kinds(), SUMMARY, sort, top, self.ledger), self.ledger.total]
        self._show(entries, choose(SUMMARY, columns), TableOptions(one_stream(ost, dst), mode, unit, n_digits))

    def show_by(
        self,
        *keys: str,
        ost: IO[str] | None = None,
        mode: str = "csv",
        unit: str | None = "autoaligned",
        columns: Sequence[str] = GroupColumns.DEFAULT,
        n_digits: int | None = 3,
        sort: str | None = None,
        top: int | None = None,
    ) -> None:
        """Write :meth:`by` and the total as a table, the keys before ``columns``; arguments as :meth:`show_report`."""
        calls = self.ledger.groups(*keys).values()
        lines = [Line(entry, group) for entry, group in zip(self.by(*keys).values(), calls, strict=True)]
        chosen = choose(GROUPS, [*keys, *(name for name in columns if name not in keys)])
        entries = [*arrange(lines, GROUPS, sort, top, self.ledger, keys[0]), {**self.ledger.total, keys[0]: "total"}]
        self._show(entries, chosen, TableOptions(ost, mode, unit, n_digits))

    def show_layers(
        self,
        ost: IO[str] | None = None,
        mode: str = "csv",
        unit: str | None = "autoaligned",
        columns: Sequence[str] | None = None,
        n_digits: int | None = 3,
        *,
        sort: str | None = None,
        top: int | None = None,
    ) -> None:
        """Write a line for every counted call as torchstat does, and the total; arguments as :meth:`show_report`.

        ``madd`` is FLOPs with a fused multiply-add as two, ``flops_fma1`` as one; ``memory`` is the bytes of the
        outputs, views apart. The default columns end in the measured time where it was measured.
        """
        *calls, total = layer_rows(self.ledger)
        measured = ("seconds", "seconds%") if "seconds" in total else ()
        lines = [Line(entry, [call]) for entry, (call, _) in zip(calls, self.ledger.counted, strict=True)]
        extra = ("memory", "madd", "flops_fma1")
        entries = [*arrange(lines, LAYERS, sort, top, self.ledger, "module", extra), total]
        chosen = (*LayerColumns.DEFAULT, *measured) if columns is None else columns
        self._show(entries, choose(LAYERS, chosen), TableOptions(ost, mode, unit, n_digits))

    def show_tree(
        self,
        ost: IO[str] | None = None,
        mode: str = "csv",
        unit: str | None = "autoaligned",
        columns: Sequence[str] = TreeColumns.DEFAULT,
        n_digits: int | None = 3,
        *,
        depth: int | None = None,
        sort: str | None = None,
        top: int | None = None,
    ) -> None:
        """Write :meth:`tree` as a table, the whole model first; arguments as :meth:`show_report`.

        ``depth`` is the levels below the model that are shown; what lies deeper is in the sums of these. ``sort`` and
        ``top`` arrange the children of every module.
        """
        order = None if sort is None else choose(TREE, [sort])[0]
        lines = tree_lines(self.tree(), depth, order, top, mode)
        self._show(lines, choose(TREE, columns), TableOptions(ost, mode, unit, n_digits), total=0)

    def to_dict(self) -> dict[str, Any]:
        """The report in plain JSON types; ``costcore/reports/report.schema.json`` describes them."""
        return to_dict(self.trace, self.ledger.total)

    def to_json(self, target: Target = None, indent: int | None = None) -> str:
        """The report as JSON text, the same bytes for equal reports; :meth:`from_json` gives an equal one.

        Args:
            target: a path, which is replaced in one step, or a stream to write to as well.
            indent: spaces for each level; one line where not given.

        Raises:
            CostError: for a setting that JSON cannot hold; names it.
            OSError: where the path cannot be written.
        """
        return to_json(self.to_dict(), target, indent)

    @classmethod
    def from_json(cls, source: str | bytes | PathLike[str]) -> Report:
        """The report in a JSON text or in the file of that path (a string that does not start with a brace).

        Raises:
            CostError: for a file that cannot be read or is no report; says what is wrong, and where in it.
        """
        from costcore.reports.serialization.from_json import read

        contents = read(source)
        report = cls(contents.trace)
        if report.to_dict()["total"] != contents.total:
            raise CostError("the report's total is not the sum of its calls: the file was changed")
        return report

    def to_csv(self, target: Target = None, columns: Sequence[str] = ReportColumns.ALL) -> str:
        """Every counted call and the total as comma-separated exact values; written to ``target`` where given."""
        return written(lambda out: self.show_report(out, "csv", None, columns, None), target)

    def to_markdown(
        self,
        target: Target = None,
        unit: str | None = "autoaligned",
        columns: Sequence[str] = ReportColumns.DEFAULT,
        n_digits: int | None = 3,
        *,
        sort: str | None = None,
        top: int | None = None,
    ) -> str:
        """:meth:`show_report` as a Markdown table; written to ``target``, a path or a stream, where given."""
        show_to = self.show_report
        return written(lambda out: show_to(out, "md", unit, columns, n_digits, sort=sort, top=top), target)

    def to_dataframe(self) -> Any:
        """Every counted call as a row of a ``pandas.DataFrame``, the names as its index.

        Raises:
            CostError: where pandas is not installed.
        """
        return to_dataframe(self.ledger.entries)

    def to_html(self, target: Target = None, title: str = "") -> str:
        """The report as one self-contained HTML page, usable without a network; written to ``target`` where given."""
        from costcore.reports.html import to_html

        return save(to_html(self, title), target)

    def to_model_explorer(self, target: Target = None, metric: str = "flops") -> str:
        """Node data (JSON) for Google's Model Explorer, coloured by ``metric``; written to ``target`` where given."""
        from costcore.reports.exports.model_explorer import to_model_explorer

        return save(to_model_explorer(self, metric), target)

    def to_chrome_trace(self, target: Target = None) -> str:
        """A trace for Perfetto and chrome://tracing; one unit of time a call where none was measured."""
        from costcore.reports.exports.chrome_trace import to_chrome_trace

        return save(to_chrome_trace(self), target)

    def to_model_card(self, target: Target = None) -> str:
        """A YAML block for a model card: FLOPs, MACs, parameters, input shape, convention, versions, report hash."""
        from costcore.reports.exports.model_card import to_model_card

        return save(to_model_card(self), target)

    def _show(
        self, entries: Sequence[Mapping[str, Any]], columns: Sequence[Column], options: TableOptions, total: int = -1
    ) -> None:
        show(entries, columns, options, self.remarks, total)
