"""The data of the page. Exact numbers are decimal strings, because numbers in JavaScript are exact only to 2**53."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costcore.ledger.caveats import call_site
from costcore.ledger.intensity import intensity, multiply_add, peak_flops
from costcore.ledger.ledger import SUMS, Ledger, ignored
from costcore.ledger.module_tree import walk
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import RANKING_SIZE, as_text, magnitude
from costcore.reports.html.quantities import Added
from costcore.tables.quantity import Quantity
from costcore.text.counted_units import per_byte, short_per_byte
from costcore.text.escape import printable
from costcore.text.values import attribute_text
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace

if TYPE_CHECKING:
    from costcore.reports.data.report_data import ReportData

METRICS = ("flops", "macs", "mrw", "n_own")
"""The metrics of the charts. ``n_own`` counts the parameters that no earlier call reads, so that it is additive."""

NODE_AMOUNTS = (*SUMS, "n_params", "n_trainable", "n_frozen", "n_shared", "n_buffers", "activations")
"""The exact numbers of a module."""

NODE = (
    *("depth", "name", "path", "type", "same_as", "shape", "n_layers", "n_unknown", "n_params", "n_trainable"),
    *("n_frozen", "n_shared", "n_buffers", "activations", *SUMS, "n_own", "intensity", "seconds"),
)
"""The columns of the modules; sums include everything inside the module, see :meth:`costcore.Report.tree`."""

LAYER = (
    *("type", "op", "native", "phase", "dtype", "inputs", "outputs", "settings", "operations", "n_params"),
    *(*SUMS, "peak_flops", "intensity", "reason"),
)
"""The columns of the distinct layers, to which calls refer; the costs of a layer that is not counted are None."""

CALL = ("name", "node", "layer", "n_own", "times", "seconds", "where")
"""The columns of the calls; ``node`` and ``layer`` are indices of a module and a layer."""

OPERATOR = ("op", "n_layers", *METRICS)
"""The columns of the operators; sums over all calls."""


class _ExactText:
    """Converts amounts to text: integers to decimal digits, symbolic expressions to formulas.

    Attributes:
        ranks: for each symbolic expression converted so far, the number by which the page sorts and draws it.
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


def page_data(report: ReportData, columns: Sequence[str | Quantity] = ()) -> dict[str, Any]:
    """Return everything that the page's script reads, in JSON types; tables are column names and rows.

    Args:
        report: the report.
        columns: further quantities.
    """
    trace, ledger, tree, exact = report.trace, report.ledger, report.tree(), _ExactText()
    added = Added(columns, (*NODE, *LAYER, *CALL), ledger, exact)
    added.add_to_tree(tree)
    n_own = new_parameters(trace)
    nodes = list(walk(tree))
    node_of = _call_nodes(node for _, node in nodes)
    node_indices = [node_of[record.call.module] for record in trace]
    depths = [depth for depth, _ in nodes]
    sums = _sums(node_indices, n_own, depths)
    peak_flops_of = peak_flops_by_node(report, node_indices, depths)
    layers = _Layers(ledger, exact)
    rows = zip(trace, node_indices, n_own, strict=True)
    calls = [
        [*_call(record, layers, node_index, n, exact), *added.of_call(record.call.name)]
        for record, node_index, n in rows
    ]
    operators = [[*row, *added.of_calls(group)] for row, group in _operators(ledger, exact)]
    totals = {key: exact({**ledger.total, "n_own": sums[0]}[key]) for key in METRICS}
    node_amounts = zip(nodes, sums, peak_flops_of, strict=True)
    node_rows = [[*_node(*node, own, peak, exact), *added.of_node(node[1])] for node, own, peak in node_amounts]
    unit = printable(trace.run.unit)
    return {
        "model": printable(nodes[0][1]["type"]),
        "unit": {"name": unit, "perByte": per_byte(unit), "shortPerByte": short_per_byte(unit)}
        | {"multiplyAdd": multiply_add(report.trace.run.unit)},
        "totals": totals | dict(zip(added.summed, added.of_calls(ledger.calls), strict=True)),
        "measured": "seconds" in ledger.total,
        "added": added.columns(),
        "operators": {"columns": (*OPERATOR, *added.summed), "rows": operators},
        "nodes": {"columns": (*NODE, *added.keys), "rows": node_rows},
        "layers": {"columns": LAYER, "rows": [list(layer) for layer in layers.rows]},
        "calls": {"columns": (*CALL, *added.keys), "rows": calls},
        "ranks": exact.ranks,
        "drawn_at": RANKING_SIZE,
        "memory": _memory(report),
    }


def _memory(report: ReportData) -> dict[str, Any] | None:
    if report.trace.run.memory is None:
        return None
    from costcore.analyses.memory.section import memory_data

    return memory_data(report)


def new_parameters(trace: Trace) -> list[Dim]:
    """Return for each call the elements of the learned parameters that no earlier counted call reads."""
    seen: set[int] = set()
    amounts = []
    for record in trace:
        new = set() if record.cost is None else set(record.call.parameters) - seen
        seen |= new
        amounts.append(sum(trace.run.parameters[parameter] for parameter in sorted(new)))
    return amounts


def peak_flops_by_node(report: ReportData, node_indices: Sequence[int], depths: list[int]) -> list[Dim]:
    """Return the FLOPs of each node as peaks count them; those of symbolic calls are left out."""
    amounts = (0 if record.cost is None else peak_flops(record.call, record.cost) for record in report.trace)
    return _sums(node_indices, [0 if is_symbolic(amount) else amount for amount in amounts], depths)


def _operators(ledger: Ledger, exact: _ExactText) -> Iterator[tuple[list[Any], Sequence[Call]]]:
    """Yield the row of every operator, and its calls."""
    for (op, sums), calls in zip(ledger.by("op").items(), ledger.groups("op").values(), strict=True):
        sums["n_own"] = sums["n_params"] - sums["n_shared"]
        yield [printable(op), sums["n_layers"], *(exact(sums[key]) for key in METRICS)], calls


def _call_nodes(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the index of the node with the calls of each module path: the module, or its child with its own calls."""
    by_path: dict[str, int] = {}
    for index, node in enumerate(nodes):
        if node["is_own"] or node["path"] not in by_path:
            by_path[node["path"]] = index
    return by_path


def _sums(node_indices: Iterable[int], amounts: Iterable[Dim], depths: list[int]) -> list[Dim]:
    """Return the sum of the amounts of all calls below each node.

    Args:
        node_indices: the node of each call.
        amounts: the amount of each call.
        depths: the depth of each node, parents before children.
    """
    sums: list[Dim] = [0] * len(depths)
    for index, amount in zip(node_indices, amounts, strict=True):
        sums[index] += amount
    parents = _parents(depths)
    for index in range(len(depths) - 1, 0, -1):
        sums[parents[index]] += sums[index]
    return sums


def _parents(depths: list[int]) -> list[int]:
    """Return the index of each node's parent, -1 for the root."""
    path: list[int] = []
    parents = []
    for index, depth in enumerate(depths):
        del path[depth:]
        parents.append(path[-1] if path else -1)
        path.append(index)
    return parents


def _node(depth: int, node: Mapping[str, Any], n_own: Dim, peak: Dim, exact: _ExactText) -> list[Any]:
    """Return the row of a module; ``peak`` are its FLOPs as peaks count them, without those of symbolic calls."""
    entry = {
        **{key: printable(node[key]) for key in ("path", "type", "same_as")},
        **{key: exact(node[key]) for key in NODE_AMOUNTS},
        "depth": depth,
        "name": printable(node["name"] or node["type"] or "total"),
        "shape": "" if node["output_shape"] is None else shape_text(node["output_shape"]),
        "n_layers": node["n_layers"],
        "n_unknown": node["n_unknown"],
        "n_own": exact(n_own),
        "intensity": _ratio(node["flops"] if is_symbolic(node["flops"]) else peak, node["mrw"]),
        "seconds": node.get("seconds"),
    }
    return [entry[key] for key in NODE]


class _Layers:
    """The distinct layers, to which calls refer by their index."""

    def __init__(self, ledger: Ledger, exact: _ExactText) -> None:
        self.rows: dict[tuple[Any, ...], int] = {}
        self._ledger = ledger
        self._exact = exact
        self._known: dict[tuple[Any, ...], int] = {}

    def index(self, record: CallCost) -> int:
        """Return the index of the layer of a call, which is added unless there is an equal one."""
        call = record.call
        key = id(call.layer), id(record.cost), call.times, call.type, call.phase, call.native, record.reason
        if key not in self._known:
            self._known[key] = self.rows.setdefault(self._row(record), len(self.rows))
        return self._known[key]

    def _row(self, record: CallCost) -> tuple[Any, ...]:
        call, exact = record.call, self._exact
        if record.cost is None:
            entry = {**ignored(record), "op": "", "dtype": "", "params": {}, "operations": {}, "n_params": None}
            entry |= dict.fromkeys((*SUMS, "peak_flops", "intensity"))
        else:
            entry = self._ledger.entries[call.name]
            flops = peak_flops(call, record.cost)
            entry = {**entry, "peak_flops": flops, "intensity": _ratio(flops, entry["mrw"])}
        settings = ", ".join(f"{name}={attribute_text(value)}" for name, value in entry["params"].items())
        layer = {
            **{key: printable(entry[key]) for key in ("type", "op", "phase", "dtype")},
            **{key: exact(entry[key]) for key in ("n_params", *SUMS, "peak_flops")},
            "intensity": entry["intensity"],
            "native": printable(call.native),
            "inputs": ", ".join(f"{printable(name)} {shape_text(t.shape)}" for name, t in call.layer.inputs.items()),
            "outputs": ", ".join(map(shape_text, entry["output_shapes"])),
            "settings": printable(settings),
            "operations": ", ".join(f"{kind} {as_text(n)}" for kind, n in entry["operations"].items()),
            "reason": printable(record.reason),
        }
        return tuple(layer[name] for name in LAYER)


def _call(record: CallCost, layers: _Layers, node_index: int, n_own: Dim, exact: _ExactText) -> list[Any]:
    """Return the row of a call."""
    call = record.call
    return [
        printable(call.name),
        node_index,
        layers.index(record),
        exact(n_own),
        exact(call.times),
        record.seconds,
        printable(call_site(call.where)),
    ]


def _ratio(flops: Dim, nbytes: Dim) -> float | None:
    ratio = intensity(flops, nbytes)
    return None if ratio is None else float(ratio)


def shape_text(dims: Iterable[Dim]) -> str:
    """Return a shape as text, ``1 × 3 × 224 × 224``; ``()`` for a scalar."""
    return printable(" × ".join(map(as_text, dims))) or "()"
