"""Reports as data: costs by call, group and module, the total, and the tables made of them.

:class:`ReportData` has every figure without any formatting. Below it: tables of any quantities of any parts of a run,
and the figures that ``print`` and pages show first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from costcore.errors import unknown
from costcore.ledger import ledger as caveats
from costcore.ledger.ledger import KEYS, Ledger, check_depth, ignored, mode_of, nodes_by_call
from costcore.numbers import as_text, is_symbolic, magnitude, with_ceilings
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import (
    GROUPS,
    REPORT,
    SUMMARY,
    TREE,
    GroupColumns,
    ReportColumns,
    TableBuilder,
    TableRow,
    TreeColumns,
    arrange,
    choose,
    in_unit,
    listed,
    with_sent,
)
from costcore.tables.quantity import Quantity, numeric
from costcore.tables.result import Table
from costcore.text.amounts import Formatted, exact, readable
from costcore.text.output import Column
from costcore.trace.call import Assumption, Call
from costcore.trace.run import FLOPS, Regrouping
from costcore.trace.trace import Trace

if TYPE_CHECKING:
    from costcore.analyses.memory.arena import Arena
    from costcore.analyses.memory.live_memory import Memory
    from costcore.analyses.receptive_field.fields import ReceptiveFields
    from costcore.analyses.sizes.formulas import Formulas


# Costs by call, group and module, the total, and what is not counted.


_Self = TypeVar("_Self", bound="ReportData")


class ReportData:
    """The costs of one run as data; :class:`costcore.Report` adds tables and files.

    Every property except :attr:`trace` and :attr:`ledger` returns a copy; modifying it does not affect the report.
    FLOPs and MACs are exact integers, or symbolic expressions in the model's dynamic dimensions. Memory traffic is in
    bytes.

    Args:
        trace: the captured run with the cost of every call; every call has a unique name.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReportData):
            return NotImplemented
        return self._trace == other._trace

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        total, n_ignored = self.ledger.total, len(self.ignored_layers)
        status = f", {_n_calls(n_ignored)} not counted" if n_ignored else ""
        status += f", {caveats.n_assumptions(self._trace)}" if self._trace.run.assumptions else ""
        flops, macs = as_text(total["flops"]), as_text(total["macs"])
        return f"<Report: {_n_calls(total['n_layers'])}, {flops} FLOPs, {macs} MACs{status}>"

    @property
    def trace(self) -> Trace:
        """The captured run with the cost of every call, for analyses of your own; not a copy."""
        return self._trace

    @property
    def calls(self) -> list[Call]:
        """Every call in order of execution, including calls without a cost: a new list of ``trace.calls``."""
        return list(self._trace.calls)

    @property
    def layer_report(self) -> dict[str, dict[str, Any]]:
        """Every counted call by name, in order of execution, with costs, location, shapes, attributes and shares.

        ``params`` are the attributes of the operator. ``seconds`` and ``seconds%`` exist only if time was measured,
        ``live``, ``live_peak`` and ``saved`` only if memory was recorded. ``nodes`` and ``outputs``, the names of the
        nodes that the call stands for and of the values that they produce, exist only if a graph was read.
        """
        nodes = nodes_by_call(self._trace)
        return {name: _copied(entry) | nodes.get(name, {}) for name, entry in self.ledger.entries.items()}

    @property
    def summary_report(self) -> dict[str, dict[str, Any]]:
        """Sums by type in order of first call, and an entry ``total``."""
        return {**{row.entry["name"]: dict(row.entry) for row in self._rows_by_type()}, "total": self.total_report}

    @property
    def total_report(self) -> dict[str, Any]:
        """Sums of all counted calls; ``n_params_model`` are the parameters of the model, if one was given.

        ``live`` (bytes alive at the end), ``live_peak`` and ``saved`` exist only if memory was recorded.
        """
        return dict(self.ledger.total)

    @property
    def ignored_layers(self) -> dict[str, dict[str, Any]]:
        """Calls without a cost, by name; the totals do not include them."""
        found, nodes = [record for record in self._trace if record.cost is None], nodes_by_call(self._trace)
        return {record.call.name: ignored(record) | nodes.get(record.call.name, {}) for record in found}

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``.

        ``assumed``: every call has a cost, but something depends on an unknown value (:attr:`assumptions`).
        ``partial``: calls have no cost (:attr:`ignored_layers`); there may be assumptions too.
        """
        return self._trace.status

    @property
    def versions(self) -> dict[str, str]:
        """Versions of costcore and the frameworks at the time of the run, and the counting ``convention``."""
        run = self._trace.run
        return {"costcore": run.version, "convention": run.convention, **run.frameworks}

    @property
    def assumptions(self) -> list[Assumption]:
        """Assumptions about data: pairs of ``what`` and ``where``, with ``line`` and ``times``."""
        return list(self._trace.run.assumptions)

    @property
    def notes(self) -> list[str]:
        """Remarks on how the run was captured, including regrouped nodes."""
        return [*self._trace.run.notes, *map(str, self._trace.run.regrouped)]

    @property
    def regrouped(self) -> list[Regrouping]:
        """ONNX nodes that were counted as one operator (``regroup=``): pairs of the operator and its nodes."""
        return list(self._trace.run.regrouped)

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: operators that are not counted, with bytes and call sites, and assumptions."""
        return caveats.remarks(self._trace)

    def analysis(self, name: str, **options: Any) -> Any:
        """Return the result of an analysis, built in or of a plug-in, for this run.

        ``report.analysis("fusion", level="compiler")`` is ``report.fused("compiler")``.

        Args:
            name: the name of the analysis.
            options: the options of the analysis.

        Raises:
            TypeError, ValueError: if there is no analysis of that name, or if an option is invalid.
            CostError: if the capture lacks data that it needs.
        """
        from costcore.analyses.analysis import analyzed

        return analyzed(self, name, options)

    @property
    def memory(self) -> Memory | None:
        """The memory of the run: its peak and the blocks alive at it. None unless ``memory=True`` asked for it."""
        memory: Memory | None = None if self._trace.run.memory is None else self.analysis("memory")
        return memory

    def subs(self: _Self, values: Mapping[str, Any] | None = None, /, **named: Any) -> _Self:
        """Return this report with values for its symbolic dimensions, ``report.subs(batch=8)``.

        A value is an integer or an expression, ``report.subs(total="past + new")``.

        Args:
            values: a mapping, for names that are not Python identifiers: ``report.subs({"past+1": 8})``.
            named: values by name; they take precedence over the mapping.

        Raises:
            TypeError: if ``values`` is not a mapping, or a value is neither an integer nor an expression.
            CostError: if a name is not a symbolic dimension of this report.
        """
        if not isinstance(values, Mapping | None):
            raise TypeError(f"subs expects a mapping of names to integers such as {{'batch': 8}} (got {values!r})")
        from costcore.counting import substitute_values

        return type(self)(substitute_values(self._trace, {**(values or {}), **named}))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbolic dimensions: names in the inputs in their order, then others alphabetically."""
        from costcore.counting import symbols_in

        names = sorted(symbol.name for symbol in symbols_in(self._trace))
        return tuple(dict.fromkeys((*(name for name in self._trace.run.ranges if name in names), *names)))

    def formula(self, column: str = "flops", by: str | None = None) -> Any:
        """Return the total of a column as an integer or a sympy expression, which may contain ceil divisions.

        Args:
            column: a quantity with numbers that :func:`costcore.quantities` lists.
            by: a key of :meth:`by`, for a dict with the formula of every group.

        Raises:
            ValueError: for another column or key.
            CostError: if this report does not have it.
        """
        if by is None:
            return with_ceilings(self._amount(column))
        found = numeric(column)
        groups = self.ledger.groups(by)
        return {group: with_ceilings(found.of(self.ledger, calls)) for group, calls in groups.items()}

    def lambdify(self, *columns: str) -> Formulas:
        """Return the totals of columns as a fast function of the sizes, in the order of :attr:`symbols`.

        It returns an integer for one column, a tuple for several, and arrays for arrays of sizes::

            f = report.lambdify("macs", "mread")
            macs, mread = f(batch=1, seq=numpy.arange(128, 4097))

        Args:
            columns: as for :meth:`formula`.

        Raises:
            ValueError: if no column is given, or there is no column of a name.
            CostError: if a formula has no fast function.
        """
        formulas: Formulas = self.analysis("sizes", columns=columns)
        return formulas

    def to_latex(self, column: str = "flops") -> str:
        """Return the formula of a column as an equation in LaTeX.

        Raises:
            ValueError: for an unknown column.
        """
        from costcore.analyses.sizes.formulas import latex

        return latex(column, self._amount(column))

    def _amount(self, column: str) -> Any:
        return numeric(column).total(self.ledger)

    def arena(self, align: int = 64, inplace: bool = False, count_inputs: bool = True) -> Arena:
        """Return the static memory plan of an inference run: all values placed in one arena.

        ``peak`` is the largest sum of live values in the order of the calls, ``size`` the bytes of a layout with
        ``offsets``, ``weights`` the bytes of stored tensors, and ``lower_bound`` the minimum over all orders of the
        calls: ``lower_bound <= peak <= size``. See :class:`costcore.analyses.memory.arena.Arena`.

        Args:
            align: offsets and sizes in the layout are multiples of this: 64 in TensorFlow Lite, 16 in its version for
                microcontrollers.
            inplace: whether element-wise operators overwrite an operand that nothing else needs.
            count_inputs: whether inputs of the model are part of the arena.

        Raises:
            ArenaError: if the run has a backward pass, or if lifetimes of values are unknown.
        """
        arena: Arena = self.analysis("arena", align=align, inplace=inplace, count_inputs=count_inputs)
        return arena

    def by(self, *keys: str) -> dict[Any, dict[str, Any]]:
        """Return the sums of the calls, grouped by one or several keys, in order of first call.

        Args:
            keys: one or several of ``type``, ``op``, ``module``, ``phase``, ``dtype`` and ``native``, in which
                ``aten::add_`` and ``aten::add`` differ.

        Returns:
            A dict per group, by the value of the key, or by the tuple of values if there are several keys. It contains
            these values, ``n_layers``, ``flops``, ``macs``, ``mread``, ``mwrite``, ``mrw`` and shares, which add up to
            :attr:`total_report`. ``n_params`` are the distinct parameters that the group reads. ``n_shared`` are those
            of them that an earlier group reads as well, so that ``n_params - n_shared`` adds up to the total.

        Raises:
            TypeError: if there is no key, or if a key is not a string.
            ValueError: if a key is unknown.
        """
        return self.ledger.by(*keys)

    def tree(self) -> dict[str, Any]:
        """Return the module hierarchy with the cost of each module.

        The modules come from the model; if the run had no model, they come from the module paths of the calls. Each
        node is a dict with these keys:

        * ``name``, ``path``, ``type``, and ``same_as``: an earlier path of the same module.
        * ``output_shape``: the shape of the first output of the last forward call below, or of the last call
          of any phase if none is a forward call; None if there are no calls.
        * The costs ``flops``, ``macs``, ``mread``, ``mwrite`` and ``mrw``, and their shares of the total.
        * ``n_layers`` and ``n_unknown``: the number of calls with and without a cost.
        * ``activations``: the bytes that forward calls write; views are not included.
        * ``live_peak``, ``live`` and ``saved``, if memory was recorded: the maximum bytes alive while it runs, the
          bytes alive after its forward calls, and the bytes that autograd saves in them.
        * ``n_params``: the elements of all parameters below. An earlier node holds ``n_shared`` of them too; the
          remaining ones are ``n_trainable`` or ``n_frozen``.
        * ``n_buffers``: the elements of all buffers below. It is None without a model, as are ``n_trainable`` and
          ``n_frozen``.
        * ``children``: the nodes below. All amounts except ``n_params`` and ``n_shared`` are the sums of the
          children's. A module with children has its own calls and parameters in a first child with ``is_own``.

        The tree can be deeper than Python's recursion limit; :func:`costcore.ledger.modules.walk` iterates over
        it without recursion.
        """
        from costcore.ledger.modules import build

        return build(self._trace, self.ledger)

    @cached_property
    def ledger(self) -> Ledger:
        """The entries of all counted calls, and sums over groups of calls; not a copy."""
        return Ledger(self._trace)

    def receptive_field(self, input: int | None = None, axes: Sequence[int] | None = None) -> ReceptiveFields:
        """Return the receptive field of every forward call: the positions of an input that affect one output position.

        The result is a mapping by name of the call. Sizes, strides and paddings are per axis of the input and exact,
        through branches, transposed convolutions and interpolation; padding is not clipped. A field can be global (the
        whole input) or unknown, both with the call that causes it::

            field = estimate(net, (1, 3, 224, 224)).receptive_field().last
            print(field, field.stride, field.padding, field.region(3, 3), field.is_global)

        Args:
            input: the number of the input, in order of first use; default: the first one that is an image or sequence.
            axes: the axes of the input; default: those along which convolutions, poolings and the like move.

        Raises:
            CostError: if there is no such input or axis.
        """
        fields: ReceptiveFields = self.analysis("receptive_field", input=input, axes=axes)
        return fields

    def _rows_by_type(self) -> list[TableRow]:
        groups = self.ledger.groups("type").items()
        return [TableRow({"name": kind, "type": kind, **self.ledger.sum(calls)}, calls) for kind, calls in groups]


def _n_calls(n: int) -> str:
    return f"{n} call{'s' * (n != 1)}"


def _copied(entry: Mapping[str, Any]) -> dict[str, Any]:
    lists = {key: list(entry[key]) for key in ("input_shapes", "output_shapes")}
    params = {name: _copied_attribute(value) for name, value in entry["params"].items()}
    return {**entry, **lists, "operations": dict(entry["operations"]), "params": params}


def _copied_attribute(value: Any) -> Any:
    # Copying an expression would evaluate it again; expressions are immutable.
    if is_symbolic(value):
        return value
    if type(value) in (tuple, list):
        return type(value)(map(_copied_attribute, value))
    return copy.deepcopy(value)


# Tables of any quantities, by call, group, module or for the whole run.


PARTS = ("call", *KEYS, "tree", "run")
"""The kinds of rows: calls, groups of calls by one or several keys, modules with their contents, or the run."""


def table_of(
    report: ReportData,
    parts: Sequence[str],
    columns: Sequence[str | Quantity] | None,
    sort: str | None,
    top: int | None,
    depth: int | None,
) -> Table:
    """Return a report as a table; arguments and exceptions as for :meth:`costcore.Report.table`."""
    check_parts(parts, depth)
    keys = [] if parts[0] in ("call", "tree", "run") else [*parts]
    preset: Mapping[str, Any] = {"tree": TREE, **dict.fromkeys(KEYS, GROUPS)}.get(parts[0], REPORT)
    default = {"tree": TreeColumns.DEFAULT, **dict.fromkeys(KEYS, GroupColumns.DEFAULT)}.get(
        parts[0], ReportColumns.DEFAULT
    )
    names = [*keys, *(name for name in listed(default if columns is None else columns) if name not in keys)]
    builder = TableBuilder(report.ledger, preset, names, sort)
    label, total = (keys[0] if keys else "name"), None
    if parts[0] == "tree":
        rows = _tree_rows(report, builder, depth, top)
    else:
        *rows, total = builder.rows(_rows(report.ledger, parts, depth), top, label)
    if parts[0] == "run" and total is not None:
        rows, total = [total], None
    shown = with_sent(builder.columns) if "mcomm" in report.ledger.sums else builder.columns
    unit, remarks = report.trace.run.unit, [*builder.remarks, *report.remarks]
    title = {"call": "By call", "tree": "By module, with all that is inside", "run": "The whole run"}.get(parts[0])
    return Table(
        title or f"By {' and '.join(parts)}",
        in_unit(shown, unit),
        [_only(shown, row) for row in rows],
        total=None if total is None else _only(shown, total),
        remarks=remarks,
        unit=unit,
        is_tree=parts[0] == "tree",
        prefix="autoaligned",
        n_digits=3,
    )


def _only(columns: Sequence[Column], row: Mapping[str, Any]) -> dict[str, Any]:
    return {column.key: row[column.key] for column in columns if column.key in row}


def check_parts(parts: Sequence[str], depth: int | None) -> None:
    """Check the arguments for the rows of a table.

    Raises:
        TypeError: if ``parts`` is empty or contains anything but strings.
        ValueError: if a part is unknown or cannot be joined with others, or if ``depth`` is given without modules.
    """
    if not parts or not all(isinstance(part, str) for part in parts):
        raise TypeError(f"expected one or several kinds of rows, of {', '.join(PARTS)} (got {parts!r})")
    if missing := [part for part in parts if part not in PARTS]:
        raise ValueError(unknown("part", missing, PARTS))
    if alone := [part for part in parts if part not in KEYS and len(parts) > 1]:
        raise ValueError(f"{alone[0]!r} cannot be joined with other parts: its rows are not groups of calls by a key")
    check_depth(depth)
    if depth is not None and not {"tree", "module"} & {*parts}:
        raise ValueError(f"depth needs rows of modules, tree or module (got rows by {' and '.join(parts)})")


def rows_by(ledger: Ledger, keys: Sequence[str], depth: int | None = None) -> list[TableRow]:
    """Return a row per group of calls.

    Args:
        ledger: the ledger of the report.
        keys: the keys of the groups.
        depth: cut module paths after this number of names, so that deeper modules count for the cut path; None: keep
            paths.
    """
    groups = ledger.groups(*keys)
    if depth is None:
        return [TableRow(entry, calls) for entry, calls in zip(ledger.by(*keys).values(), groups.values(), strict=True)]
    merged: dict[tuple[Any, ...], list[Any]] = {}
    for group, calls in groups.items():
        values = (group,) if len(keys) == 1 else group
        cut = (".".join(v.split(".")[:depth]) if k == "module" else v for k, v in zip(keys, values, strict=True))
        merged.setdefault(tuple(cut), []).extend(calls)
    rows = []
    for values, calls in merged.items():
        calls.sort(key=lambda call: ledger.position[call.name])
        rows.append(TableRow({**dict(zip(keys, values, strict=True)), **ledger.sum(calls)}, calls))
    return rows


def _rows(ledger: Ledger, parts: Sequence[str], depth: int | None) -> list[TableRow]:
    if parts[0] == "call":
        return [TableRow(ledger.entries[call.name], [call]) for call in ledger.calls]
    return [] if parts[0] == "run" else rows_by(ledger, parts, depth)


def _tree_rows(
    report: ReportData, builder: TableBuilder, depth: int | None, top: int | None
) -> list[Mapping[str, Any]]:
    # ``print`` shows an indented tree; exact formats have paths.
    tree = report.tree()
    indented = builder.tree(tree, depth, top, "table")
    paths = (row["module"] for row in builder.tree(tree, depth, top, "csv"))
    return [{**row, "module": Formatted(path, row["module"])} for row, path in zip(indented, paths, strict=True)]


def sizes_of(report: ReportData, tree: Mapping[str, Any]) -> list[str]:
    """Return the lines below the tree of modules: parameters, and the memory of weights and activations.

    Args:
        report: the report.
        tree: its modules.
    """
    n_params, frozen, activations = tree["n_params"], tree["n_frozen"], tree["activations"]
    weights = numeric("weight_bytes").total(report.ledger)
    if any(map(is_symbolic, (n_params, weights, activations))):
        return []
    lines = []
    if n_params:
        trained = f", {tree['n_trainable']:,} trainable" if frozen else ", all trainable" if frozen == 0 else ""
        lines.append(f"parameters: {n_params:,}{trained}")
    parts = {"weights": weights, "outputs of all forward calls": activations}
    named = [f"{name} {readable(value, 'bytes', 1)}" for name, value in parts.items() if value]
    named += [f"together {readable(weights + activations, 'bytes', 1)}"] if len(named) == len(parts) else []
    return [*lines, f"memory: {', '.join(named)}"] if named else lines


# Summary: the figures, and the table of types.


MOST_TYPES = 5
"""The number of types in the table; a row sums the others."""

COLUMNS = ("type", "n_layers", "flops", "flops%", "macs", "mrw")
"""The columns of the table of types."""


def answer_of(report: ReportData, types: Sequence[TableRow]) -> Content:
    """Return the totals of a report, the types with the most FLOPs, the remarks and the modules.

    Args:
        report: the report.
        types: a row for each type.
    """
    total = report.ledger.total
    tree = report.tree()
    mode = mode_of(report.trace)
    n = total["n_layers"]
    parts = tree["type"], f"{n:,} call{'s' * (n != 1)}", f"{mode} mode" if mode else "", report.status
    heading = ", ".join(filter(None, parts))
    return Content(heading, [*_figures(report)], [_types(report, types)], report.remarks, tree, report.trace.run.unit)


def _figures(report: ReportData) -> Iterator[Figure]:
    total, run = report.ledger.total, report.trace.run
    once = "one FLOP" if run.fma_1flop else "two FLOPs"
    is_own = run.unit == FLOPS and not is_symbolic(total["flops"])
    yield Figure("flops", run.unit, total["flops"], "flops", f"a fused multiply-add is {once}" if is_own else "")
    yield Figure("macs", "MACs", total["macs"], "flops")
    n_params = total.get("n_params_model", total["n_params"])
    read = "" if n_params == total["n_params"] else f"{exact(total['n_params'])} of them read by counted calls"
    yield Figure("n_params", "Parameters", n_params, "flops", read)
    yield Figure("mrw", "Bytes read and written", total["mrw"], "bytes")
    if report.memory is not None:
        yield Figure("peak_memory", "Peak of memory", report.memory.peak, "bytes", report.memory.where)
    if "seconds" in total:
        shown = Formatted(total["seconds"], f"{1000 * total['seconds']:.3f} ms")
        yield Figure("seconds", "Measured time", shown, "duration", "", "measured")


def _types(report: ReportData, types: Sequence[TableRow]) -> Table:
    # By bytes if there are no FLOPs.
    by = "flops" if any(magnitude(row.entry["flops"]) for row in types) else "mrw"
    unit, order = report.trace.run.unit, SUMMARY[by]
    columns = [_renamed(column, unit) for column in choose(SUMMARY, COLUMNS)]
    what = unit if by == "flops" else "bytes"
    rows = arrange(types, order, None, report.ledger)
    table = Table(f"By type, most {what} first", columns, rows)
    n_costly = sum(any(magnitude(row.entry[key]) for key in ("flops", "mrw")) for row in types)
    n = min(MOST_TYPES, n_costly or MOST_TYPES)  # types without cost are part of the others
    if len(types) <= n:
        return table
    title = f"The {n} types with the most {what}" if n > 1 else f"The type with the most {what}"
    return table.part(arrange(types, order, n, report.ledger), title)


def _renamed(column: Column, unit: str) -> Column:
    titles = {"n_layers": "# Calls", "flops": unit, "flops%": unit}
    return column._replace(title=titles.get(column.key, column.title))
