"""What the page shows, as plain data. Exact numbers are decimal texts: a browser's own are exact only up to 2**53."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from costcore.dims import Dim, is_symbolic
from costcore.reports.caveats import call_site
from costcore.reports.ledger import SUMS, Ledger, ignored
from costcore.reports.module_tree import walk
from costcore.reports.text.escape import printable
from costcore.reports.text.values import attribute_text
from costcore.symbolic import magnitude, written
from costcore.trace.trace import CallCost, Trace

if TYPE_CHECKING:
    from costcore.reports.report_data import ReportData

METRICS = ("flops", "macs", "mrw", "n_own")
"""What the charts can be drawn by. ``n_own`` is the learned parameters that no earlier call reads: they add up."""

NODE = (
    *("depth", "name", "path", "type", "same_as", "shape", "n_layers", "n_unknown", "n_params", "n_trainable"),
    *("n_frozen", "n_shared", "n_buffers", "activations", *SUMS, "n_own", "seconds"),
)
"""What is told of a module: its sums over everything in it, see :meth:`costcore.Report.tree`."""

LAYER = (
    *("type", "op", "native", "phase", "dtype", "inputs", "outputs", "settings", "operations", "n_params"),
    *(*SUMS, "reason"),
)
"""What is told of a call and is the same for like calls; the costs of an unknown operator are None."""

CALL = ("name", "node", "layer", "n_own", "times", "seconds", "where")
"""What is told of a single call: ``node`` and ``layer`` are places in the other two tables."""


OPERATOR = ("op", "n_layers", *METRICS)
"""What is told of an operator: its sums over all calls."""


class _Exact:
    """Writes amounts as text: whole numbers in decimal digits, formulas as they are.

    Attributes:
        ranks: the formulas written so far, and the numbers they are sorted by.
    """

    def __init__(self) -> None:
        self.ranks: dict[str, str] = {}

    def __call__(self, value: Dim | None) -> str | None:
        if value is None:
            return None
        text = written(value)
        if is_symbolic(value) and text not in self.ranks:
            self.ranks[text] = str(magnitude(value))
        return text


class _Home(NamedTuple):
    """Where in the tree the calls of a module stand."""

    place: int
    is_own: bool


def page_data(report: ReportData) -> dict[str, Any]:
    """Everything that the page's script reads, in JSON types; tables are column names and rows."""
    trace, ledger = report.trace, report.ledger
    owned = own_parameters(trace)
    nodes = list(walk(report.tree()))
    homes = _homes(node for _, node in nodes)
    places = [homes[item.call.module].place for item in trace]
    sums = _sums(places, owned, [depth for depth, _ in nodes])
    layers: dict[tuple[Any, ...], int] = {}
    exact = _Exact()
    rows = zip(trace, places, owned, strict=True)
    calls = [_call(item, ledger, layers, place, own, exact) for item, place, own in rows]
    totals = {**ledger.total, "n_own": sums[0]}
    return {
        "model": printable(nodes[0][1]["type"]),
        "totals": {key: exact(totals[key]) for key in METRICS},
        "measured": "seconds" in ledger.total,
        "operators": {"columns": OPERATOR, "rows": _operators(ledger, exact)},
        "nodes": {"columns": NODE, "rows": [_node(*node, own, exact) for node, own in zip(nodes, sums, strict=True)]},
        "layers": {"columns": LAYER, "rows": [list(layer) for layer in layers]},
        "calls": {"columns": CALL, "rows": calls},
        "ranks": exact.ranks,
    }


def own_parameters(trace: Trace) -> list[Dim]:
    """For every call the elements of the learned parameters that no counted call before it reads."""
    seen: set[int] = set()
    found = []
    for item in trace:
        new = set() if item.cost is None else set(item.call.parameters) - seen
        seen |= new
        found.append(sum(trace.run.parameters[identity] for identity in sorted(new)))
    return found


def _operators(ledger: Ledger, exact: _Exact) -> list[list[Any]]:
    rows = []
    for op, sums in ledger.by("op").items():
        sums["n_own"] = sums["n_params"] - sums["n_shared"]
        rows.append([printable(op), sums["n_layers"], *(exact(sums[key]) for key in METRICS)])
    return rows


def _homes(nodes: Iterable[Mapping[str, Any]]) -> dict[str, _Home]:
    """Where the calls of each path stand: the module, or its child for what it does itself."""
    homes: dict[str, _Home] = {}
    for place, node in enumerate(nodes):
        if node["is_own"] or node["path"] not in homes:
            homes[node["path"]] = _Home(place, node["is_own"])
    return homes


def _sums(places: Iterable[int], amounts: Iterable[Dim], depths: list[int]) -> list[Dim]:
    """Amounts of calls added up for every node of a tree, which is told by the depths of its nodes in order."""
    sums: list[Dim] = [0] * len(depths)
    for place, amount in zip(places, amounts, strict=True):
        sums[place] += amount
    parents = _parents(depths)
    for place in range(len(depths) - 1, 0, -1):
        sums[parents[place]] += sums[place]
    return sums


def _parents(depths: list[int]) -> list[int]:
    path: list[int] = []
    parents = []
    for place, depth in enumerate(depths):
        del path[depth:]
        parents.append(path[-1] if path else -1)
        path.append(place)
    return parents


def _node(depth: int, node: Mapping[str, Any], own: Dim, exact: _Exact) -> list[Any]:
    texts = {key: printable(node[key]) for key in ("path", "type", "same_as")}
    amounts = {key: exact(node[key]) for key in NODE if key in node and (key in SUMS or key.startswith("n_"))}
    entry = {
        **texts,
        **amounts,
        "depth": depth,
        "name": printable(node["name"] or node["type"] or "total"),
        "shape": "" if node["output_shape"] is None else shape(node["output_shape"]),
        "n_layers": node["n_layers"],
        "n_unknown": node["n_unknown"],
        "activations": exact(node["activations"]),
        "n_own": exact(own),
        "seconds": node.get("seconds"),
    }
    return [entry[key] for key in NODE]


def _call(
    item: CallCost, ledger: Ledger, layers: dict[tuple[Any, ...], int], place: int, own: Dim, exact: _Exact
) -> list[Any]:
    call = item.call
    if item.cost is None:
        entry = {**ignored(item), "op": "", "dtype": "", "params": {}, "operations": {}, "n_params": None}
        entry |= dict.fromkeys(SUMS)
    else:
        entry = ledger.entries[call.name]
    layer = {
        **{key: printable(entry[key]) for key in ("type", "op", "phase", "dtype")},
        **{key: exact(entry[key]) for key in ("n_params", *SUMS)},
        "native": printable(call.native),
        "inputs": ", ".join(f"{printable(name)} {shape(t.shape)}" for name, t in call.layer.inputs.items()),
        "outputs": ", ".join(map(shape, entry["output_shapes"])),
        "settings": printable(", ".join(f"{name}={attribute_text(value)}" for name, value in entry["params"].items())),
        "operations": ", ".join(f"{kind} {written(n)}" for kind, n in entry["operations"].items()),
        "reason": printable(item.reason),
    }
    key = tuple(layer[name] for name in LAYER)
    found = layers.setdefault(key, len(layers))
    return [
        printable(call.name),
        place,
        found,
        exact(own),
        exact(call.times),
        item.seconds,
        printable(call_site(call.where)),
    ]


def shape(dims: Iterable[Dim]) -> str:
    """A shape as people write it, ``1 × 3 × 224 × 224``; a scalar is ``()``."""
    return printable(" × ".join(map(written, dims))) or "()"
