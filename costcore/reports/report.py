"""The report of a run: its tables, files and analyses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, TypeVar

from costcore.errors import CostError
from costcore.reports.data import ReportData, answer_of, check_parts, rows_by, sizes_of, table_of
from costcore.tables.answer import Content
from costcore.tables.columns import (
    GROUPS,
    LAYERS,
    REPORT,
    SENT,
    SUMMARY,
    TREE,
    TREE_DROPPED_FIRST,
    GroupColumns,
    LayerColumns,
    MemoryColumns,
    ReceptiveFieldColumns,
    ReportColumns,
    SummaryColumns,
    TableBuilder,
    TableRow,
    TreeColumns,
    columns_with_values,
    in_unit,
    listed,
    with_sent,
)
from costcore.tables.quantity import Quantity
from costcore.tables.renderers import dropped_first
from costcore.tables.result import Result, Table, writes_table
from costcore.text.output import Target, save, save_output
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.analyses.conventions.counting import View
    from costcore.analyses.devices.device import Device
    from costcore.analyses.fusion.groups import FusedView
    from costcore.analyses.fusion.kernels import Kernels
    from costcore.analyses.measured.measured import Measured
    from costcore.analyses.timing.time_report import TimeReport
    from costcore.tables.pictures import Picture


# Files: JSON, which can be read back, the page, and exports for other programs.


AnyReport = TypeVar("AnyReport", bound="ReportFiles")


class ReportFiles(ReportData):
    """A report that can be written to files, and read back."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report in plain JSON types, as ``costcore/reports/report.schema.json`` describes them."""
        from costcore.reports.exports import complete

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
        from costcore.reports.json import read

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
        from costcore.tables.answer import imported_pandas

        records = [*self.layer_report.values()]
        return imported_pandas("to_dataframe").DataFrame.from_records(records, index="name" if records else None)

    def to_html(self, target: Target = None, title: str = "", columns: Sequence[str | Quantity] = ()) -> str:
        """Return the report as one self-contained HTML page for offline use, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            title: heading of the page; default: the type of the model.
            columns: further quantities for its table, ``["fused_mrw", "bound_seconds@l4"]``. Charts can also show those
                that are exact and add up.

        Raises:
            ValueError: if there is no quantity of a name.
            CostError: if the report does not have it.
            OSError: if the path cannot be written.
        """
        return self.export("page", target, title=title, columns=columns)

    def export(self, name: str, target: Target = None, **options: Any) -> str:
        """Return the report as text for another program, and write it to ``target`` if given.

        Args:
            name: an export of :mod:`costcore.reports.exports`, or of a plug-in.
            target: a path, which is replaced atomically, or a stream.
            options: the options of the export.

        Raises:
            ValueError: if there is no export of that name.
            CostError: if the report lacks data that the export needs.
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


class Report(ReportFiles, Result):
    """The costs of one run.

    Every property except :attr:`trace` and :attr:`ledger` returns a copy; modifying it does not affect the report.
    FLOPs and MACs are exact integers, or symbolic expressions in the model's dynamic dimensions. Memory traffic is in
    bytes.

    Args:
        trace: the captured run with the cost of every call; every call has a unique name.
    """

    @writes_table(ReportColumns.DEFAULT, elsewhere="csv", has_lines=True)
    def show_report(self, columns: Sequence[str], top: int | None, sort: str | None = None) -> Table:
        """Write a table with one row per counted call, and the total.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``csv``, ``md``, ``table``, ``color`` (a table, in color if the stream is a terminal and rich is
                installed), or a mode registered by a plug-in. Default: a table in a terminal and HTML in a notebook. In
                any other stream, :meth:`show_report` and :meth:`show_summary_report` write CSV, and the other methods a
                table.
            unit: None, ``K``, ``M``, ``G``, ``T``, ``auto`` (one prefix per cell) or ``autoaligned`` (one per column).
                FLOPs are scaled by powers of 1000, bytes by powers of 1024.
            columns: names of the columns to show; see :class:`ReportColumns`.
            n_digits: digits after the decimal point, 0 to 10; None for 10.
            dst: an alias of ``ost``.
            sort: the column to sort by, shown or not: numbers from the largest, text alphabetically.
            top: the maximum number of rows; a row ``others`` sums the remaining ones.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        builder = TableBuilder(self.ledger, REPORT, columns, sort)
        return self._table(builder, builder.rows(self._rows_by_call(), top))

    @writes_table(SummaryColumns.DEFAULT, elsewhere="csv", has_lines=True)
    def show_summary_report(self, columns: Sequence[str], top: int | None, sort: str | None = None) -> Table:
        """Write a table with one row per type, and the total; arguments as for :meth:`show_report`."""
        builder = TableBuilder(self.ledger, SUMMARY, columns, sort)
        return self._table(builder, builder.rows(self._rows_by_type(), top))

    def show_by(
        self,
        *keys: str,
        ost: IO[str] | None = None,
        mode: str | None = None,
        unit: str | None = "autoaligned",
        columns: Sequence[str] = GroupColumns.DEFAULT,
        n_digits: int | None = 3,
        sort: str | None = None,
        top: int | None = None,
        depth: int | None = None,
    ) -> None:
        """Write a table of :meth:`by` and the total, the keys first; other arguments as for :meth:`show_report`.

        ``depth`` cuts module paths after this number of names; the calls of deeper modules count for the cut path.
        """
        if depth is not None:
            check_parts(keys, depth)
        rows = rows_by(self.ledger, keys, depth)
        builder = TableBuilder(
            self.ledger, GROUPS, [*keys, *(name for name in listed(columns) if name not in keys)], sort
        )
        rows_shown = builder.rows(rows, top, keys[0])
        self._table(builder, rows_shown, labels=len(keys)).write(ost, mode, unit, n_digits)

    @writes_table()
    def show_layers(self, top: int | None, columns: Sequence[str] | None = None, sort: str | None = None) -> Table:
        """Write a table with one row per counted call in torchstat's format; arguments as for :meth:`show_report`.

        ``madd`` are FLOPs with a fused multiply-add counted as two, ``flops_fma1`` with one. Under the convention of
        another tool, both are the number of that tool. ``memory`` is the size of the outputs in bytes, 0 for views. If
        time was measured, the default columns include it.
        """
        measured = ("seconds", "seconds%") if "seconds" in self.ledger.total else ()
        doubled = ("madd",) if self.trace.run.unit != FLOPS else ()  # conventions count a multiply-add in one way
        default = (*(key for key in LayerColumns.DEFAULT if key not in doubled), *measured)
        builder = TableBuilder(self.ledger, LAYERS, default if columns is None else columns, sort)
        return self._table(builder, builder.rows(self._rows_by_call(), top, "module"))

    @writes_table(TreeColumns.DEFAULT, by_mode=True)
    def show_tree(
        self,
        columns: Sequence[str],
        top: int | None,
        sort: str | None = None,
        depth: int | None = None,
        fold: bool = True,
        mode: str = "table",
    ) -> Table:
        """Write a table of :meth:`tree`, the whole model first; arguments as for :meth:`show_report`.

        ``depth`` is the number of levels below the model to show; deeper modules are part of the sums of their
        parents. ``sort`` and ``top`` apply to the children of each module. ``module`` is always the first column,
        unless ``columns`` contains it elsewhere.

        Three or more equal modules in a row are one row with their sums, ``0 … 11 ×12``, except with ``fold=False``.
        Default columns are left out if they are zero or empty everywhere. CSV has all rows and columns. With the
        default columns, lines below the table state the parameters, and the memory of weights and activations.
        """
        builder = TableBuilder(
            self.ledger, TREE, columns if "module" in columns else ("module", *listed(columns)), sort
        )
        tree, is_text = self.tree(), mode != "csv"
        rows = builder.tree(tree, depth, top, mode, is_folded=fold and is_text)
        table = self._table(builder, rows, is_tree=True)
        if is_text and table.dropped_first is not None:
            table.columns, table.dropped_first = columns_with_values(table.columns, rows), TREE_DROPPED_FIRST
            table.remarks[:0] = sizes_of(self, tree)
        return table

    def table(
        self,
        *parts: str,
        columns: Sequence[str | Quantity] | None = None,
        sort: str | None = None,
        top: int | None = None,
        depth: int | None = None,
    ) -> Table:
        """Return a table of exact values: any quantities of any parts of the run.

        ::

            report.table("module", columns=["macs", "flops@fvcore", "bound_seconds@l4"], sort="macs", top=10)
            report.table("tree", depth=2).to_html("modules.html")
            report.table("run", columns=["macs", "arena"]).to_dict()

        ``print`` and notebooks show the table; it has ``to_csv``, ``to_markdown``, ``to_html``, ``to_json``,
        ``to_pandas`` and ``save``. A quantity that exists only for the whole run appears only in the total.

        Args:
            parts: the kind of rows: ``call``, groups by one or several of ``type``, ``op``, ``module``, ``phase``,
                ``dtype`` and ``native``, ``tree`` (modules with all that is inside them) or ``run``.
            columns: names that :func:`costcore.quantities` lists, shares such as ``macs%``, or quantities of your own.
            sort: the column to sort by, shown or not: numbers from the largest, text alphabetically.
            top: the maximum number of rows (in a tree, of children); a row ``others`` combines the remaining ones.
            depth: of ``tree``, the levels below the model; of ``module``, the maximum number of names in a path.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if this report does not have a quantity; the message says what is needed.
        """
        return table_of(self, parts, columns, sort, top, depth)

    def under(self, convention: str | PathLike[str]) -> View:
        """Return this report as another tool or convention counts it: ``report.under("fvcore").total``.

        Args:
            convention: its name (:func:`costcore.conventions` lists them), or the path of a TOML file with rules.

        Raises:
            TypeError: if ``convention`` is neither a name nor a path.
            ValueError: if there is no convention of that name.
            CostError: if the capture lacks data that it needs, such as the modules of PyTorch for an ONNX model.
        """
        view: View = self.analysis("conventions", convention=convention)
        return view

    def time(
        self,
        device: str | PathLike[str] | Device,
        dtype: str | None = None,
        fusion: str = "none",
        cores: int | None = None,
        tf32: Collection[str] | None = None,
        links: str | Mapping[str, Any] | None = None,
        bound: str = "least",
    ) -> TimeReport:
        """Return the minimum time of the run on a device, per call and in total.

        ::

            time = report.time(device="h100-sxm5-80gb", dtype="bfloat16")
            print(time.bound_seconds)
            time.show_summary_report(mode="table")

        ``bound_seconds`` is a lower bound, not an estimate: no program with this fusion takes less. ``seconds`` is None
        unless the device is calibrated.

        Args:
            device: a name that ``costcore devices`` lists, the path of a TOML file, or a device.
            dtype: dtype of weights and activations, such as ``bfloat16``; integers and quantized tensors keep theirs.
                Default: the dtype of the run.
            fusion: ``none`` (every call reads and writes its tensors), ``pointwise`` (loops of element-wise calls and
                reductions are one kernel) or ``compiler`` (element-wise calls also join the product before them).
            cores: number of cores of a CPU that compute; default: all.
            tf32: which float32 products may run in TF32: ``conv``, ``matmul`` (all other products), or both. Default:
                the default of the framework, ``{"conv"}`` in PyTorch and both in others.
            links: the links between processes, for :attr:`TimeReport.communication_seconds`: a name of
                ``costcore/analyses/devices/links.toml``, such as ``"nvlink4"``, or
                ``{"gbs": 25, "latency_us": 5}``; for a mesh, a dict of these by dimension,
                ``{"tp": "nvlink4", "dp": "infiniband-ndr"}``.
            bound: ``least``, a strict lower bound, or ``observed``, a larger one below which no kernel was observed on
                the device.

        Raises:
            TypeError, ValueError: if an argument is invalid, or there is no device of that name.
            CostError: if sizes are symbolic (substitute numbers with :meth:`subs`), or the device cannot be read.
        """
        options = {"dtype": dtype, "fusion": fusion, "cores": cores, "tf32": tf32, "links": links, "bound": bound}
        times: TimeReport = self.analysis("time", device=device, **options)
        return times

    def with_profile(self, profile: ReportData | str | PathLike[str]) -> Report:
        """Return this report with the times of a profiler trace, for all tables and figures.

        ::

            report = estimate(net, (8, 3, 224, 224)).with_profile(estimate("step.pt.trace.json.gz"))
            report.table("module", columns=["seconds", "achieved_flops", "lost_seconds@l4"], sort="seconds").show()

        Args:
            profile: the report of a trace of the same model. Calls are matched by phase, module, operator and shapes,
                in order. For the report of a graph: the profile that its runtime wrote (ONNX Runtime, TensorRT,
                OpenVINO).

        Raises:
            TypeError: if ``profile`` is neither a report nor a path.
            CostError: if it has no times or cannot be read, or no call matches.
        """
        from costcore.analyses.measured.join import joined_with

        return Report(joined_with(self.trace, profile))

    def measured(
        self,
        profile: ReportData | str | PathLike[str] | None = None,
        device: str | PathLike[str] | Device | None = None,
        bound: str = "least",
    ) -> Measured:
        """Return where the time of the run goes: measured time and bound of calls, other work, and idle time.

        ::

            step = estimate("step.pt.trace.json.gz")
            print(step.measured())
            estimate(net, (8, 3, 224, 224)).measured(step).table("module").show()

        Args:
            profile: the source of the times, as for :meth:`with_profile`. Default: this report, if it is of a trace.
            device: the device of the bounds, as for :meth:`time`. Default: the device that the trace names, if costcore
                knows it.
            bound: ``least`` or ``observed``, as for :meth:`time`.

        Raises:
            TypeError, ValueError: if an argument is invalid, or there is no device of that name.
            CostError: if nothing was measured, if no call matches, or if sizes are symbolic.
        """
        measured: Measured = self.analysis("measured", profile=profile, device=device, bound=bound)
        return measured

    def kernels(self, model: Any, inputs: Any) -> Kernels:
        """Return the kernels that ``torch.compile`` makes of the model, with their calls, modules, MACs and bytes.

        ::

            print(estimate(net, (1, 3, 224, 224)).kernels(net, (1, 3, 224, 224)))

        They are read from TorchInductor's scheduler before it writes code: no weights are needed, and nothing runs. It
        compiles for the device of the model; without weights, for a CPU. The call counts as a use of the model for
        ``torch.compile``.

        Args:
            model: the model of this report, compiled or not.
            inputs: its inputs, as for :func:`costcore.estimate`.

        Raises:
            TypeError, ValueError: if the inputs are invalid.
            CostError: if this report has more than a forward pass, if the model cannot be compiled, or if this release
                of PyTorch has another scheduler.
        """
        kernels: Kernels = self.analysis("kernels", model=model, inputs=inputs)
        return kernels

    def plot(
        self,
        kind: str | None = None,
        *,
        column: str | None = None,
        over: str | None = None,
        at: Mapping[str, int] | None = None,
        sizes: Sequence[int] | None = None,
        device: str | PathLike[str] | Device | None = None,
        theme: str = "light",
        target: str | PathLike[str] | None = None,
        **options: Any,
    ) -> Picture:
        """Return a picture of this report, and write it to ``target`` if given.

        The picture is a list of tuples, the rows that it shows. Notebooks display it with matplotlib. ::

            report.plot()                                          # bars: FLOPs by operator
            report.plot("modules", column="mrw", target="modules.svg")
            report.plot("macs", over="seq", at={"batch": 1})       # a total over a name among the sizes
            report.plot("roofline", device="h100-sxm5-80gb", dtype="bfloat16", theme="dark")

        Args:
            kind: ``operators`` (bars), ``modules`` (from left to right, each as high as its share), ``intensity``
                (FLOPs against bytes of every call), ``memory`` (live bytes over the calls, by kind), ``roofline``
                (groups of calls below the limits of a device), ``sizes`` (a total over a name), or a column. Default:
                ``operators``, or ``sizes`` with ``over``.
            column: the cost that operators, modules or sizes show; as for :meth:`formula`. Default: ``flops``.
            over: the name among the sizes.
            at: the values of all other names.
            sizes: the values of the name; default: 64 values between those at which the formulas were checked.
            device: the device of a roofline.
            theme: ``light`` or ``dark``.
            target: an ``.svg``, ``.png`` or ``.pdf`` image, or a ``.csv`` file with the rows.
            options: the other arguments of :meth:`time`, for a roofline.

        Raises:
            TypeError, ValueError: if an argument is invalid, or if arguments do not belong together.
            CostError: if matplotlib is not installed, if there is nothing to draw, if sizes are symbolic and the kind
                is not ``sizes``, or if memory was not recorded.
            OSError: if the file cannot be written.
        """
        from costcore.reports.plots import picture_of, request

        asked = request(kind, column, over, device)
        if asked.kind != "sizes" and (at or sizes is not None):
            raise ValueError("at=… and sizes=… need over=…, a name among the sizes")
        options |= {} if device is None else {"device": device}
        options |= {} if over is None else {"over": over, "at": at or {}, "sizes": sizes}
        picture = picture_of(self, asked, theme, options)
        if target is not None:
            picture.save(target)
        return picture

    def fused(self, fusion: str = "pointwise") -> FusedView:
        """Return this report with the bytes that remain after a compiler fused its calls.

        FLOPs do not change. ``report.fused("compiler").show_report(mode="md")`` lists the groups, each of which runs as
        one kernel; all other tables and files have the bytes after fusion.

        Args:
            fusion: ``none``; ``pointwise``: element-wise calls, reductions and copies in one loop, as TorchInductor
                forms them by default; ``compiler``: element-wise calls also join the matrix product before them.

        Raises:
            ValueError: if the level is unknown.
            CostError: if this report is already fused, or if a calculator states an invalid pattern.
        """
        view: FusedView = self.analysis("fusion", level=fusion)
        return view

    @writes_table(ReceptiveFieldColumns.DEFAULT)
    def show_receptive_field(self, **options: Any) -> Table:
        """Write a table of :meth:`receptive_field`, one row per call that depends on the input.

        Arguments as for :meth:`show_report` and :meth:`receptive_field`. A size of several axes is ``35x17``. Behind an
        upsampling, the size depends on the position: the table shows the largest.
        """
        return self._view("receptive_field", options)

    @writes_table(MemoryColumns.DEFAULT, unit="auto", top=20)
    def show_memory(self, **options: Any) -> Table:
        """Write a table of the blocks of memory that are alive at the peak, their sums by kind, and the total.

        Other arguments are as for :meth:`show_report`.

        Raises:
            CostError: if memory was not recorded.
        """
        return self._view("memory", options)

    @writes_table(top=20)
    def show_arena(self, **options: Any) -> Table:
        """Write a table of the values of an inference run with their place in memory, the largest first.

        Below the table are the figures of :meth:`arena`: flash, peak SRAM, and the minimum over all orders. ``align``,
        ``inplace`` and ``count_inputs`` are as for :meth:`arena`, all other arguments as for :meth:`show_report`.
        """
        return self._view("arena", options)

    def to_latex(self, column: str = "flops") -> str:  # type: ignore[override]  # of a formula, not of a table
        """Return the formula of a column as an equation in LaTeX.

        For tables, use ``report.table("module").to_latex()`` or ``report.show_tree(mode="latex")``.

        Raises:
            ValueError: for an unknown column.
        """
        return super().to_latex(column)

    def to_pandas(
        self,
        *parts: str | int,
        columns: Sequence[str | Quantity] | None = None,
        sort: str | None = None,
        top: int | None = None,
        depth: int | None = None,
    ) -> Any:
        """Return exact values as a ``pandas.DataFrame``; arguments and exceptions as for :meth:`table`.

        ::

            report.to_pandas("module", columns=["macs", "flops@fvcore", "bound_seconds@l4"])

        Without parts, the rows are the types of operators.

        Raises:
            CostError: if pandas is not installed.
        """
        names = [part for part in parts if isinstance(part, str)]
        if not names and (columns, sort, top, depth) == (None,) * 4:
            return super().to_pandas(*(part for part in parts if isinstance(part, int)))
        return self.table(*(names or ["type"]), columns=columns, sort=sort, top=top, depth=depth).to_pandas()

    def to_csv(  # type: ignore[override]  # documented with columns in second place
        self, target: Target = None, columns: Sequence[str] = ReportColumns.ALL
    ) -> str:
        """Return every counted call and the total as CSV with exact values, and write it to ``target`` if given."""
        return save_output(lambda out: self.show_report(out, "csv", None, columns, None), target)

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
        """Return :meth:`show_report` as a Markdown table, and write it to ``target`` if given."""
        show_report = self.show_report
        return save_output(lambda out: show_report(out, "md", unit, columns, n_digits, sort=sort, top=top), target)

    def to_tensorboard(self, logdir: str | PathLike[str], step: int = 0, columns: Sequence[str] = ()) -> None:
        """Write an event file for TensorBoard, which shows it with ``tensorboard --logdir DIRECTORY``.

        It has the totals and the costs by operator as scalars (TensorBoard keeps seven digits), the calls in their
        modules as a graph whose nodes have the exact costs, and an overview and the modules as text.

        Args:
            logdir: the directory of the run; it is made if it does not exist.
            step: the step of the scalars and of the text: reports at several steps are curves.
            columns: further quantities, ``["fused_mrw"]``, whose totals are scalars too.

        Raises:
            ValueError: if there is no quantity of a name.
            CostError: if TensorBoard is not installed, if a cost is symbolic, or if this report does not have a
                quantity.
            OSError: if the file cannot be written.
        """
        from costcore.reports.exports import markdown, to_tensorboard

        tables = {"overview": self._repr_markdown_(), "modules": markdown(self.show_tree, depth=3)}
        to_tensorboard(self, logdir, step, tables, columns)

    def _content(self) -> Content:
        return answer_of(self, self._rows_by_type())

    def _view(self, name: str, options: Mapping[str, Any]) -> Table:
        from costcore.analyses.analysis import table_of_view

        return table_of_view(self, name, options)

    def _rows_by_call(self) -> list[TableRow]:
        return [TableRow(self.ledger.entries[call.name], [call]) for call in self.ledger.calls]

    def _table(
        self, builder: TableBuilder, rows: Sequence[Mapping[str, Any]], *, is_tree: bool = False, labels: int = 1
    ) -> Table:
        unit, columns = self.trace.run.unit, builder.columns
        shown = in_unit(with_sent(columns) if SENT.key in self.ledger.sums else columns, unit)
        return Table(
            "",
            shown,
            rows if is_tree else rows[:-1],
            total=None if is_tree else rows[-1],
            remarks=[*builder.remarks, *self.remarks],
            unit=unit,
            is_tree=is_tree,
            dropped_first=dropped_first(shown, labels=labels),
            labels=labels,
        )
