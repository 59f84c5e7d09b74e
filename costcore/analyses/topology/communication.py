"""How long the collectives of a run take: latency of the steps of a ring, and bytes sent at the rate of a link.

Each group of processes communicates over its own link, one collective after the other. Nothing is overlapped with
computation or with other groups, and no link is shared. The model is that of Hockney (1994), with the steps of the ring
and of the binary tree; an all-reduce takes the faster of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.analyses.analysis import Analyzed
from costcore.analyses.topology.link import Link, links_by_group
from costcore.ir import Cost, Layer
from costcore.numbers.dims import ceil_log2
from costcore.trace.trace import Trace

COLLECTIVES = frozenset(
    (
        *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce_to_root"),
        *("gather_to_root", "scatter_from_root", "send", "recv", "barrier"),
    )
)
"""The operators that communicate."""


class Communication(NamedTuple):
    """What the processes of one group communicate.

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
    """Return what each group of a run communicates, in order of first call.

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


def communications_of(report: Analyzed, links: object = None) -> list[Communication]:
    """Return what each group of a run communicates; links as for :meth:`costcore.Report.time`, or none.

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
        tree = link.seconds(2 * ceil_log2(n), 2 * float(layer.read))
        return min(link.seconds(2 * (n - 1), sent), tree)
    if layer.op == "barrier":
        return link.seconds(2 * ceil_log2(n), 0)
    if layer.op == "recv":
        return link.seconds(1, float(layer.written))
    return link.seconds(1 if layer.op == "send" else n - 1, sent)
