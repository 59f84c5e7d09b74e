"""A report as one self-contained HTML page for offline use: totals, charts, and a table of modules and calls.

The script of the page reads one JSON object. This module renders the sections without a script; analyses render theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from costcore.analyses.analysis import page_texts
from costcore.analyses.analysis import sections as analyses
from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.ledger.ledger import (
    SUMS,
    Ledger,
    call_site,
    ignored,
    intensity,
    mode_of,
    n_assumptions,
    remarks_on_mode,
    uncounted_operators,
)
from costcore.ledger.modules import walk
from costcore.numbers import RANKING_SIZE, Dim, as_text, is_symbolic, magnitude
from costcore.tables import html
from costcore.tables.answer import ReportTable
from costcore.tables.columns import Cells, cell_text
from costcore.tables.html import amount_card, card, command_line, shape_text, table, text
from costcore.tables.quantity import Quantity
from costcore.text.amounts import attribute_text, exact, per_byte, short, short_per_byte
from costcore.text.output import Column, printable
from costcore.trace.call import Call, Uncounted, assumptions_as_text
from costcore.trace.run import FLOPS
from costcore.trace.trace import CallCost, Trace

if TYPE_CHECKING:
    from costcore.reports.data import ReportData

__all__ = ["to_html"]

SCRIPTS = (
    "d3.min.js",
    "numbers.js",
    "model.js",
    "elements.js",
    "tooltip.js",
    "detail.js",
    "bars.js",
    "treemap.js",
    "scatter.js",
    "graph.js",
    "memory.js",
    "marks.js",
    "rows.js",
    "table.js",
    "page.js",
)
"""The files of the script, each after the files that it needs."""


def to_html(
    report: ReportData, title: str = "", time: str = "", columns: Sequence[str | Quantity] = (), made: str = ""
) -> str:
    """Return the report as an HTML page that loads nothing from outside. Equal reports give equal pages.

    Names from models are not trusted. They are inserted as text, never as markup, with unprintable characters and
    bidirectional marks escaped. The content security policy of the page allows no script but its own.

    Args:
        report: the report.
        title: heading of the page; default: the type of the model.
        time: the HTML of the time section; default: no section.
        columns: further quantities in the table and, if they add up, in the charts.
        made: the command that wrote the page, and the date; default: none, so that equal reports give equal pages.

    Raises:
        CostError: if the style or script of an analysis contains a tag of such an element.
    """
    tree = report.tree()
    data = page_data(report, tree, columns)
    style = "\n".join(page_texts("style"))
    further = [f"{{\n{text}\n}}" for text in page_texts("script")]
    layout = ("dagre.min.js",) if data["flow"] else ()
    script = "(() => {\n'use strict';\n" + "\n".join([*map(file_text, (*layout, *SCRIPTS)), *further]) + "\n})();"
    if re.search("</?(script|style)", style + "".join(further), re.IGNORECASE):
        raise CostError(
            "the style or script of an analysis contains a style or script tag, which would end its element"
        )
    charts, end = file_text("charts.html").replace("$unit", text(report.trace.run.unit)).split("<!-- end -->\n")
    return html.document(
        title or data["model"] or "Cost report",
        "\n".join([uncounted(report), time, charts, *analyses(report), basis(report)]),
        badge=status(report),
        about=about(report, made),
        details=settings(report),
        tiles=totals(report, tree),
        version=report.trace.run.version,
        style=style,
        script=script,
        end=end.replace("$data", embedded(data)),
    )


def embedded(data: Any) -> str:
    """Return JSON for a ``script`` element: pure ASCII, without any character that could end the element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def file_text(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


# Data of the page. Exact numbers are decimal strings, because JavaScript numbers are only exact to 2**53.


METRICS = ("flops", "macs", "mrw", "n_own")
"""The metrics of the charts. ``n_own`` counts only parameters that no earlier call reads, so that sums are correct."""

NODE_AMOUNTS = (*SUMS, "n_params", "n_trainable", "n_frozen", "n_shared", "n_buffers", "activations")
"""The exact numbers of a module."""

NODE = (
    *("depth", "name", "path", "type", "same_as", "shape", "n_layers", "n_unknown", "n_params", "n_trainable"),
    *("n_frozen", "n_shared", "n_buffers", "activations", *SUMS, "n_own", "intensity", "seconds"),
)
"""The columns of modules. Sums include all calls inside the module; see :meth:`costcore.Report.tree`."""

LAYER = (
    *("type", "op", "native", "phase", "dtype", "inputs", "outputs", "settings", "operations", "n_params"),
    *(*SUMS, "intensity", "reason"),
)
"""The columns of the distinct layers, to which calls refer; costs of an uncounted layer are None."""

CALL = ("name", "node", "layer", "n_own", "times", "seconds", "where")
"""The columns of calls; ``node``, ``layer`` and ``where`` are indices of a module, a layer and a source line."""

OPERATOR = ("op", "n_layers", *METRICS)
"""The columns of operators, with sums over all calls."""


class _ExactText:
    """Converts amounts to text: integers to decimal digits, symbolic expressions to formulas.

    Attributes:
        ranks: for each converted symbolic expression, the number by which the page sorts and draws it.
    """

    def __init__(self) -> None:
        self.ranks: dict[str, str] = {}

    def __call__(self, value: Dim | None) -> str | None:
        if value is None:
            return None
        text = as_text(value)
        if is_symbolic(value) and text not in self.ranks:
            self.ranks[text] = str(magnitude(value))
        return text


def page_data(report: ReportData, tree: dict[str, Any], columns: Sequence[str | Quantity] = ()) -> dict[str, Any]:
    """Return the data of the script in JSON types; tables are column names and rows.

    Args:
        report: the report.
        tree: its modules; the further quantities are added to them.
        columns: further quantities.
    """
    trace, ledger, exact = report.trace, report.ledger, _ExactText()
    added = Added(columns, (*NODE, *LAYER, *CALL), ledger, exact)
    added.add_to_tree(tree)
    n_own = new_parameters(trace)
    nodes = list(walk(tree))
    node_of = _call_nodes(node for _, node in nodes)
    node_indices = [node_of[record.call.module] for record in trace]
    depths = [depth for depth, _ in nodes]
    sums = _sums(node_indices, n_own, depths)
    layers, sites = _DistinctLayers(ledger, exact), _Sites()
    rows = zip(trace, node_indices, n_own, strict=True)
    calls = [
        [*_call_row(record, layers, node_index, n, exact, sites), *added.of_call(record.call.name)]
        for record, node_index, n in rows
    ]
    operators = [[*row, *added.of_calls(group)] for row, group in _operators(ledger, exact)]
    totals = {key: exact({**ledger.total, "n_own": sums[0]}[key]) for key in METRICS}
    node_rows = [
        [*_node_row(*node, own, exact), *added.of_node(node[1])] for node, own in zip(nodes, sums, strict=True)
    ]
    unit = printable(trace.run.unit)
    return {
        "model": printable(nodes[0][1]["type"]),
        "unit": {"name": unit, "perByte": per_byte(unit), "shortPerByte": short_per_byte(unit)},
        "totals": totals | dict(zip(added.summed, added.of_calls(ledger.calls), strict=True)),
        "measured": "seconds" in ledger.total,
        "added": added.columns(),
        "operators": {"columns": (*OPERATOR, *added.summed), "rows": operators},
        "nodes": {"columns": (*NODE, *added.keys), "rows": node_rows},
        "layers": {"columns": LAYER, "rows": [list(layer) for layer in layers.rows]},
        "calls": {"columns": (*CALL, *added.keys), "rows": calls},
        "sites": list(sites.indices),
        "flow": flow_of(trace),
        "ranks": exact.ranks,
        "drawn_at": RANKING_SIZE,
        "memory": _memory(report),
    }


def _memory(report: ReportData) -> dict[str, Any] | None:
    if report.trace.run.memory is None:
        return None
    from costcore.analyses.memory.live_memory import memory_data

    return memory_data(report)


def new_parameters(trace: Trace) -> list[Dim]:
    """Return, for each call, the number of learned parameters that no earlier counted call reads."""
    seen: set[int] = set()
    amounts = []
    for record in trace:
        new = set() if record.cost is None else set(record.call.parameters) - seen
        seen |= new
        amounts.append(sum(trace.run.parameters[parameter] for parameter in sorted(new)))
    return amounts


def flow_of(trace: Trace) -> dict[str, Any] | None:
    """Return the edges of the forward pass for the graph; None if no call reads a result of another.

    ``sources`` has a list per call with the origin of each operand: the index of the call that produced it (with the
    number of the output if it is not the first), or -1, -2, … for model inputs. ``inputs`` has the shapes of model
    inputs, and ``returned`` the model outputs.
    """
    made: dict[int, int | list[int]] = {}
    inputs: list[str] = []
    sources: list[list[Any]] = []
    n_edges = 0
    for index, call in enumerate(trace.calls):
        found: list[Any] = []
        if call.phase == "forward":
            for operand, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
                if operand in trace.run.inputs and operand not in made:
                    inputs.append(shape_text(tensor.shape))
                    made[operand] = -len(inputs)
                if operand in made and made[operand] not in found:
                    found.append(made[operand])
            made.update({operand: [index, n] if n else index for n, operand in enumerate(call.outputs)})
        n_edges += len(found)
        sources.append(found)
    returned = [made[operand] for operand in trace.run.returned if operand in made]
    return {"sources": sources, "inputs": inputs, "returned": returned} if n_edges else None


def _operators(ledger: Ledger, exact: _ExactText) -> Iterator[tuple[list[Any], Sequence[Call]]]:
    for (op, sums), calls in zip(ledger.by("op").items(), ledger.groups("op").values(), strict=True):
        sums["n_own"] = sums["n_params"] - sums["n_shared"]
        yield [printable(op), sums["n_layers"], *(exact(sums[key]) for key in METRICS)], calls


def _call_nodes(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    by_path: dict[str, int] = {}
    # A module with children has its own calls in a first child.
    for index, node in enumerate(nodes):
        if node["is_own"] or node["path"] not in by_path:
            by_path[node["path"]] = index
    return by_path


def _sums(node_indices: Iterable[int], amounts: Iterable[Dim], depths: list[int]) -> list[Dim]:
    # Parents come before children.
    sums: list[Dim] = [0] * len(depths)
    for index, amount in zip(node_indices, amounts, strict=True):
        sums[index] += amount
    parents = _parents(depths)
    for index in range(len(depths) - 1, 0, -1):
        sums[parents[index]] += sums[index]
    return sums


def _parents(depths: list[int]) -> list[int]:
    path: list[int] = []
    parents = []
    for index, depth in enumerate(depths):
        del path[depth:]
        parents.append(path[-1] if path else -1)
        path.append(index)
    return parents


def _node_row(depth: int, node: Mapping[str, Any], n_own: Dim, exact: _ExactText) -> list[Any]:
    entry = {
        **{key: printable(node[key]) for key in ("path", "type", "same_as")},
        **{key: exact(node[key]) for key in NODE_AMOUNTS},
        "depth": depth,
        "name": printable(node["name"] or node["type"] or "total"),
        "shape": "" if node["output_shape"] is None else shape_text(node["output_shape"]),
        "n_layers": node["n_layers"],
        "n_unknown": node["n_unknown"],
        "n_own": exact(n_own),
        "intensity": _ratio(node["flops"], node["mrw"]),
        "seconds": node.get("seconds"),
    }
    return [entry[key] for key in NODE]


class _DistinctLayers:
    # Calls refer to distinct layers by index.

    def __init__(self, ledger: Ledger, exact: _ExactText) -> None:
        self.rows: dict[tuple[Any, ...], int] = {}
        self._ledger = ledger
        self._exact = exact
        self._known: dict[tuple[Any, ...], int] = {}

    def index(self, record: CallCost) -> int:
        """Return the index of the layer of a call; a new layer is added."""
        call = record.call
        key = id(call.layer), id(record.cost), call.times, call.type, call.phase, call.native, record.reason
        if key not in self._known:
            self._known[key] = self.rows.setdefault(self._row(record), len(self.rows))
        return self._known[key]

    def _row(self, record: CallCost) -> tuple[Any, ...]:
        call, exact = record.call, self._exact
        if record.cost is None:
            entry = {**ignored(record), "op": "", "dtype": "", "params": {}, "operations": {}, "n_params": None}
            entry |= dict.fromkeys((*SUMS, "intensity"))
        else:
            entry = self._ledger.entries[call.name]
            entry = {**entry, "intensity": _ratio(entry["flops"], entry["mrw"])}
        settings = ", ".join(f"{name}={attribute_text(value)}" for name, value in entry["params"].items())
        layer = {
            **{key: printable(entry[key]) for key in ("type", "op", "phase", "dtype")},
            **{key: exact(entry[key]) for key in ("n_params", *SUMS)},
            "intensity": entry["intensity"],
            "native": printable(call.native),
            "inputs": ", ".join(f"{printable(name)} {shape_text(t.shape)}" for name, t in call.layer.inputs.items()),
            "outputs": ", ".join(map(shape_text, entry["output_shapes"])),
            "settings": printable(settings),
            "operations": ", ".join(f"{kind} {as_text(n)}" for kind, n in entry["operations"].items()),
            "reason": printable(record.reason),
        }
        return tuple(layer[name] for name in LAYER)


class _Sites:
    # Calls refer to lines of the user's code by index.

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}
        self._known: dict[str, int] = {}

    def index(self, where: str) -> int:
        """Return the index of the innermost line of a traceback."""
        if where not in self._known:
            self._known[where] = self.indices.setdefault(printable(call_site(where)), len(self.indices))
        return self._known[where]


def _call_row(
    record: CallCost, layers: _DistinctLayers, node_index: int, n_own: Dim, exact: _ExactText, sites: _Sites
) -> list[Any]:
    call = record.call
    return [
        printable(call.name),
        node_index,
        layers.index(record),
        exact(n_own),
        exact(call.times),
        record.seconds,
        sites.index(call.where),
    ]


def _ratio(flops: Dim, nbytes: Dim) -> float | None:
    ratio = intensity(flops, nbytes)
    return None if ratio is None else float(ratio)


# Further quantities: columns of the table and, if they add up, of the charts.


KINDS = {"flops": "flops", "count": "flops", "bytes": "bytes", "duration": "seconds", "seconds": "seconds"}

KINDS |= {"ratio": "intensity", "percent": "intensity"}
"""The number format of a kind of quantity on the page; other kinds are text."""

AMOUNTS = ("flops", "bytes")
"""The kinds of exact numbers on the page, available in its charts."""


class Added:
    """Quantities that the page shows in addition to the default ones.

    Args:
        columns: names of quantities, or quantities.
        known: the names of the quantities that every page has.
        ledger: the ledger of the report.
        exact: returns an exact number as text.

    Raises:
        ValueError, CostError, OSError: if a name is unknown, or if the report lacks the quantity.
    """

    def __init__(
        self,
        columns: Iterable[str | Quantity],
        known: Sequence[str],
        ledger: Ledger,
        exact: Callable[[Any], str | None],
    ) -> None:
        self._ledger, self._exact = ledger, exact
        self._cells = Cells(columns, known, ledger)
        self._quantities = self._cells.quantities
        self._by_call = [
            {} if each.is_of_run_only else {call.name: each.of(ledger, [call]) for call in ledger.calls}
            for each in self._quantities
        ]

    @property
    def keys(self) -> list[str]:
        """The keys of the columns."""
        return [each.name for each in self._quantities]

    @property
    def summed(self) -> list[str]:
        """The keys of columns that add up exactly, which charts show."""
        return [
            each.name
            for each, values in zip(self._quantities, self._by_call, strict=True)
            if each.has_share and KINDS.get(each.kind) in AMOUNTS and None not in values.values()
        ]

    def columns(self) -> list[dict[str, Any]]:
        """Return the data of each quantity for the page's script: key, title, kind, and whether charts show it."""
        return [
            {
                "key": each.name,
                "title": each.title,
                "kind": KINDS.get(each.kind, "text"),
                "adds": each.name in self.summed,
            }
            for each in self._quantities
        ]

    def add_to_tree(self, tree: dict[str, Any]) -> None:
        """Add the values to every module."""
        self._cells.add_to_tree(tree)

    def of_node(self, node: Mapping[str, Any]) -> list[Any]:
        """Return the values of a module."""
        return [self._value(each, node.get(each.name)) for each in self._quantities]

    def of_call(self, name: str) -> list[Any]:
        """Return the values of a call."""
        pairs = zip(self._quantities, self._by_call, strict=True)
        return [self._value(each, values.get(name)) for each, values in pairs]

    def of_calls(self, calls: Sequence[Call]) -> list[Any]:
        """Return the values of a group of calls for the charts."""
        return [self._exact(each.of(self._ledger, calls)) for each in self._quantities if each.name in self.summed]

    def _value(self, quantity: Quantity, value: Any) -> Any:
        kind = KINDS.get(quantity.kind, "text")
        if kind == "text":
            return printable(cell_text("" if value is None else value, quantity.kind, 3, fixed=False))
        if value is None or value == "":
            return None
        if kind in AMOUNTS:
            return self._exact(value)
        return None if is_symbolic(value) else float(value)


# Sections without script: totals, uncounted operators, assumptions, notes and versions.


def status(report: ReportData) -> str:
    """Return the badges on uncounted calls and assumptions."""
    if report.status == "complete":
        return '<span class="badge good">✓ complete</span>'
    badges = []
    if uncounted := len(report.ignored_layers):
        badges.append(f'<a class="badge bad" href="#unknown">⚠ partial: {_calls(uncounted)} not counted</a>')
    if report.assumptions:
        badges.append(f'<a class="badge caution" href="#basis">≈ assumed: {n_assumptions(report.trace)}</a>')
    return " ".join(badges)


def settings(report: ReportData) -> str:
    """Return one line with the convention and the options of the run."""
    run = report.trace.run
    fma = "a fused multiply-add counts as one FLOP" if run.fma_1flop else "a fused multiply-add counts as two FLOPs"
    layout = "data movement is counted" if run.layout == "framework" else "data movement is ignored"
    if run.unit != FLOPS:
        fma = f"counts {run.unit}"
    fused = [] if run.fusion is None else [f"bytes after fusion at level {run.fusion.level}"]
    rank = [] if run.rank is None else [f"costs of {run.rank}"]
    phrases = [f"convention {run.convention}", fma, layout, *fused, *rank]
    return " · ".join(map(text, phrases))


def totals(report: ReportData, tree: Mapping[str, Any]) -> list[str]:
    """Return a tile per total, with rounded and exact value; ``tree`` has the modules of the report."""
    total, unit = report.total_report, report.trace.run.unit
    cards = [
        amount_card(text(unit), total["flops"], "flops"),
        amount_card("MACs", total["macs"], "flops"),
        *_parameters(report, tree),
        amount_card("Bytes read", total["mread"], "bytes"),
        amount_card("Bytes written", total["mwrite"], "bytes"),
        card(text(per_byte(unit)), _intensity(report), "arithmetic intensity"),
        card("Calls", exact(total["n_layers"]), _uncounted_note(report)),
    ]
    if "mcomm" in total:
        cards.insert(-2, amount_card("Bytes sent", total["mcomm"], "bytes", "to other processes"))
    fusion = report.trace.run.fusion
    if fusion is not None:
        cards.append(amount_card("Bytes unfused", fusion.unfused, "bytes", f"read and written; fused: {fusion.level}"))
    if report.memory is not None:
        cards.append(amount_card("Peak memory", report.memory.peak, "bytes", report.memory.where))
    cards += _phases(report)
    if "seconds" in total:
        cards.append(card("Measured time", short(total["seconds"], "duration"), "of a real run"))
    return cards


def _parameters(report: ReportData, tree: Mapping[str, Any]) -> Iterator[str]:
    total = report.total_report
    n_params = total.get("n_params_model", total["n_params"])
    trainable, unused = tree["n_trainable"], n_params - total["n_params"]
    known = trainable is not None and not is_symbolic(trainable)
    trained = ["all trainable" if trainable == n_params else f"{exact(trainable)} trainable"] if known else []
    read = [] if unused == 0 else [f"{exact(total['n_params'])} of them read by these calls"]
    yield amount_card("Parameters", n_params, "flops", ", ".join([*trained, *read]))
    nbytes, dtypes = stored_weights(report)
    if nbytes:
        yield amount_card("Weights on disk", nbytes, "bytes", ", ".join(dtypes))


def stored_weights(report: ReportData) -> tuple[Dim, list[str]]:
    """Return the bytes of parameters and buffers, and their dtypes, largest first.

    For parameters that no call reads, the most common dtype is assumed.
    """
    sizes: dict[int, tuple[Dim, str]] = {}
    for record in report.trace:
        call = record.call
        operands = call.storages or call.inputs
        for operand, tensor in zip(operands, call.layer.inputs.values(), strict=False):
            if tensor.role in ("param", "state") and operand not in sizes:
                sizes[operand] = tensor.nbytes, tensor.dtype
    by_dtype: dict[str, Dim] = {}
    for nbytes, dtype in sizes.values():
        by_dtype[dtype] = by_dtype.get(dtype, 0) + nbytes
    dtypes = sorted(by_dtype, key=lambda dtype: -magnitude(by_dtype[dtype]))
    total = report.total_report
    unread = total.get("n_params_model", total["n_params"]) - total["n_params"]
    rest = Tensor((unread,), dtypes[0]).nbytes if dtypes and unread else 0
    return sum(by_dtype.values()) + rest, dtypes


def _phases(report: ReportData) -> list[str]:
    of_phases = report.ledger.by("phase")
    if len(of_phases) < 2:
        return []
    unit = report.trace.run.unit
    return [
        card(text(phase.capitalize()), short(sums["flops"], "flops"), f"{text(unit)}, {_calls(sums['n_layers'])}")
        for phase, sums in of_phases.items()
    ]


UNCOUNTED = (
    Column("operator", "Operator"),
    Column("reason", "Reason"),
    Column("calls", "Calls", "count"),
    Column("read", "Read", "bytes"),
    Column("written", "Written", "bytes"),
    Column("first", "First in module"),
    Column("site", "Called at"),
)
"""The columns of the table of uncounted operators."""


def uncounted(report: ReportData) -> str:
    """Return a table of the operators that are not counted; empty if every call is counted.

    The table has the number of calls of each operator, the bytes of their operands, and the location of the first call.
    """
    operators = uncounted_operators(report.trace)
    if not operators:
        return ""
    failures = [record for record in report.trace if record.uncounted not in (None, Uncounted.NO_CALCULATOR)]
    reasons = {(call.native or call.type, kind): reason for call, _, kind, reason, _ in reversed(failures)}
    rows = [
        {
            "operator": each.native,
            "reason": reasons.get((each.native, each.uncounted), ""),
            "calls": each.calls,
            "read": each.mread,
            "written": each.mwrite,
            "first": each.module or "–",
            "site": each.where or "–",
        }
        for each in operators
    ]
    columns = [column for column in UNCOUNTED if column.key != "reason" or any(reasons.values())]
    return (
        "<section id='unknown' class='warning' aria-labelledby='unknown-title'>"
        "<h2 id='unknown-title'>Not counted</h2>"
        "<p>These operators have no cost formula, or the shapes of their operands are unknown. "
        f"The totals do not include them.</p>{table(ReportTable('Not counted', columns, rows))}</section>"
    )


def basis(report: ReportData) -> str:
    """Return lists of the assumptions, notes and versions of a report."""
    assumptions = assumptions_as_text(report.trace.run.assumptions)
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    sections = (
        ("Assumptions", assumptions, "No assumptions were made."),
        ("Notes", [*remarks_on_mode(report.trace), *report.notes], ""),
        ("Versions", versions, ""),
    )
    lists = "\n".join(
        f"<div><h3>{title}</h3>{_list(lines) if lines else f'<p>{if_empty}</p>'}</div>"
        for title, lines, if_empty in sections
        if lines or if_empty
    )
    return (
        '<section class="basis" id="basis" aria-labelledby="basis-title">'
        f'<h2 id="basis-title">Assumptions and versions</h2><div class="columns">{lists}</div></section>'
    )


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def _intensity(report: ReportData) -> str:
    ratio = intensity(report.ledger.total["flops"], report.ledger.total["mrw"])
    return "–" if ratio is None else short(ratio, "ratio")


def _uncounted_note(report: ReportData) -> str:
    uncounted = len(report.ignored_layers)
    return f"{_calls(uncounted)} not counted" if uncounted else "all of them counted"


def _calls(n: int) -> str:
    return f"{exact(n)} call{'s' * (n != 1)}"


# Lines below the heading.


MOST_INPUTS = 4
"""The maximum number of listed inputs; a number stands for the others."""


def about(report: ReportData, made: str = "") -> list[str]:
    """Return the lines below the heading as HTML.

    Args:
        report: the report.
        made: the command that wrote the page, its inputs and the date; empty if unknown.
    """
    trace = report.trace
    found = [f"{shape_text(each.shape)} {each.dtype}" for each in inputs_of(trace)] if trace.run.nodes else []
    more = [f"{exact(len(found) - MOST_INPUTS)} more"] if len(found) > MOST_INPUTS else []
    named = ", ".join([*found[:MOST_INPUTS], *more])
    mode = mode_of(trace)
    phases = dict.fromkeys(record.call.phase for record in trace)
    phrases = [
        *([f"input{'s' * (len(found) > 1)} {named}"] if found else []),
        *([f"{mode} mode"] if mode else []),
        *([", ".join(phases)] if phases else []),
        *(f"{name} {version}" for name, version in report.versions.items() if name != "convention"),
    ]
    return [command_line(made), text(" · ".join(phrases))]


def inputs_of(trace: Trace) -> Iterator[Tensor]:
    """Yield the inputs of a graph: values that its calls read, but do not produce, except for weights and state.

    For a model that is run, they would include buffers; its page shows the inputs in the command instead.
    """
    known: set[int] = set()
    for record in trace:
        call = record.call
        if call.phase != "forward":
            continue
        for operand, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            if operand not in known and tensor.role == "data" and tensor.shape:
                yield tensor
            known.add(operand)
        known.update(call.outputs)
