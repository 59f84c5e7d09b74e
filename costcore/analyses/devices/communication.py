"""The time of collectives: latency of the steps of a ring or tree, and bytes over the rate of a link.

Each group of processes communicates over its own link, one collective after the other. Nothing is overlapped with
computation or with other groups, and no link is shared. The model is that of Hockney (1994), with the steps of the ring
and of the binary tree; an all-reduce takes the faster of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.errors import CostError, short_repr, unknown
from costcore.files import read_toml
from costcore.ir import Cost, Layer
from costcore.numbers import ceil_log2
from costcore.trace.trace import Trace

COLLECTIVES = frozenset(
    (
        *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce_to_root"),
        *("gather_to_root", "scatter_from_root", "send", "recv", "barrier"),
    )
)
"""The operators that communicate."""


class Communication(NamedTuple):
    """The communication of one group of processes.

    Attributes:
        group: name of the dimension of the mesh; empty if it has none.
        group_size: number of its processes.
        n_calls: how many collectives run.
        sent: bytes that a process sends.
        link: the link; None if none was stated.
        seconds: how long they take; None without a link.
    """

    group: str
    group_size: int
    n_calls: int
    sent: int
    link: Link | None
    seconds: float | None


def communications(trace: Trace, links: Mapping[str, Link]) -> list[Communication]:
    """Return the communication of each group of a run, in order of first call.

    Args:
        trace: the run, with numbers for all sizes.
        links: links by group; ``""`` is that of every other group.
    """
    found: dict[tuple[str, int], Communication] = {}
    for call, cost, *_ in trace:
        size = call.layer.attrs.get("group_size")
        if cost is None or size is None or call.layer.op not in COLLECTIVES:
            continue
        group = str(call.layer.attrs.get("group", ""))
        link = links.get(group, links.get(""))
        before = found.get((group, size), Communication(group, size, 0, 0, link, None))
        times = int(call.times)
        seconds = None
        if link is not None:
            seconds = (before.seconds or 0.0) + times * collective_seconds(call.layer, cost, link)
        sent = before.sent + times * int(cost.mcomm)
        found[group, size] = before._replace(n_calls=before.n_calls + times, sent=sent, seconds=seconds)
    return [*found.values()]


def communications_of(report: ReportLike, links: object = None) -> list[Communication]:
    """Return the communication of each group of a run; links as for :meth:`costcore.Report.time`, or none.

    Raises:
        TypeError, ValueError: if a link is invalid.
    """
    return communications(report.trace, {} if links is None else links_by_group(links))


def collective_seconds(layer: Layer, cost: Cost, link: Link) -> float:
    """Return how long one collective takes over a link."""
    n, sent = int(layer.attrs["group_size"]), float(cost.mcomm)
    if n == 1:
        return 0.0
    if layer.op == "all_reduce":
        return all_reduce_seconds(n, float(layer.read), link)
    if layer.op == "barrier":
        return link.seconds(2 * ceil_log2(n), 0)
    if layer.op == "recv":
        return link.seconds(1, float(layer.written))
    return link.seconds(1 if layer.op == "send" else n - 1, sent)


def all_reduce_seconds(n: int, nbytes: float, link: Link) -> float:
    """Return how long an all-reduce of a number of bytes takes n processes, by ring or by tree."""
    ring = link.seconds(2 * (n - 1), 2 * (n - 1) / n * nbytes)
    return min(ring, link.seconds(2 * ceil_log2(n), 2 * nbytes))


# Links between processes: rate and latency.


DATA = Path(__file__).parent / "links.toml"


class Link(NamedTuple):
    """A link between processes.

    Attributes:
        name: its name.
        gbs: GB/s that one process sends, in one direction, with the other direction busy too.
        latency_us: microseconds until the first byte of a message has arrived.
    """

    name: str
    gbs: float
    latency_us: float

    def seconds(self, steps: int, nbytes: float) -> float:
        """Return the time of a process to send this number of bytes in this number of steps, one after the other."""
        return steps * self.latency_us * 1e-6 + nbytes / (self.gbs * 1e9)


@cache
def links() -> Mapping[str, Link]:
    """Return the known links by name."""
    content, _ = read_toml(DATA, CostError)
    return {name: Link(name, entry["gbs"], entry["latency_us"]) for name, entry in content["link"].items()}


def link_of(value: object) -> Link:
    """Return a link by its name, or from ``{"gbs": 25, "latency_us": 5}``; a :class:`Link` is returned as it is.

    Raises:
        TypeError, ValueError: if it is not a link; the message lists the known ones.
    """
    if isinstance(value, Link):
        return value
    if isinstance(value, str):
        if value not in links():
            raise ValueError(unknown("link", value, [*links(), 'or {"gbs": …, "latency_us": …}']))
        return links()[value]
    if not isinstance(value, Mapping) or set(value) != {"gbs", "latency_us"}:
        raise TypeError(f'a link must be a name or {{"gbs": …, "latency_us": …}} (got {short_repr(value)})')
    return Link("custom", _number(value, "gbs", 0), _number(value, "latency_us", None))


def _number(table: Mapping[str, Any], key: str, above: float | None) -> float:
    value = table[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or value == above:
        raise ValueError(f"{key} of a link must be a positive number (got {short_repr(value)})")
    return float(value)


def links_by_group(value: object) -> dict[str, Link]:
    """Return links by the name of the group that uses them; the name ``""`` stands for every other group.

    Args:
        value: one link for all groups, or a dict of links by the name of a dimension of the mesh.

    Raises:
        TypeError, ValueError: if a link is invalid.
    """
    if isinstance(value, Mapping) and not {"gbs", "latency_us"} & set(value):
        return {str(group): link_of(link) for group, link in value.items()}
    return {"": link_of(value)}
