"""The run of a graph with the times that its runtime measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from os import PathLike, fsdecode
from typing import Any

from costcore.analyses.measured.join import ONLY_THERE, with_times
from costcore.analyses.measured.node_regions import Regions
from costcore.analyses.measured.rows import work_of
from costcore.analyses.measured.runtime_profile import KernelTime, read_runtime_profile
from costcore.errors import CostError
from costcore.trace.profile import CallTime, Elsewhere, Interval, Profile, divide
from costcore.trace.trace import Trace

CHANGES_OF_LAYOUT = "changes of layout"


def with_runtime_profile(trace: Trace, path: str | PathLike[str]) -> Trace:
    """Return the run of a graph with what a runtime measured.

    A kernel may compute several calls. Its time is that of the one with the most operations, and the others have no
    kernel of their own.

    Raises:
        CostError: if the run is not that of a graph with names, if the file cannot be read, or if it names none of the
            nodes.
    """
    if not trace.run.nodes:
        raise CostError(
            f"{fsdecode(path)} has times of the nodes of a graph. Measure the report of the model that the "
            "runtime read: estimate('model.onnx')"
        )
    found = read_runtime_profile(path)
    regions = Regions(trace, found.kernels)
    if not regions.anchors:
        raise CostError(f"{fsdecode(path)} names no node of this model: it is the profile of another one")
    members: dict[int, list[int]] = defaultdict(list)
    for position, k in regions.core.items():
        members[k].append(position)
    mains = {
        k: max(each, key=lambda i: (_operations(trace, i), i == regions.anchors.get(k))) for k, each in members.items()
    }
    owners = [_owner(k, kernel, mains, regions) for k, kernel in enumerate(found.kernels)]
    alone, idle = divide(
        [Interval(x.start, x.end, (-x.start, x.end), owner) for x, owner in zip(found.kernels, owners, strict=True)],
        0,
        found.span,
    )
    lengths, counts = Counter[Any](), Counter[Any]()
    for kernel, owner in zip(found.kernels, owners, strict=True):
        lengths[owner] += kernel.end - kernel.start
        counts[owner] += 1
    calls = {i: CallTime(0, lengths[i], alone.get(i, 0), counts[i]) for i in sorted(mains.values())}
    elsewhere = [
        Elsewhere(owner[0], owner[1], lengths[owner], alone.get(owner, 0), counts[owner])
        for owner in lengths
        if type(owner) is tuple
    ]
    elsewhere.sort(key=lambda each: -each.alone)
    inside = {i: mains[k] for i, k in sorted(regions.owner.items()) if i != mains[k]}
    profile = Profile(found.device, "host", found.span, idle, calls, tuple(elsewhere), inside=inside)
    return with_times(trace, profile)


def _operations(trace: Trace, position: int) -> int:
    record = trace.records[position]
    return work_of(record.cost, record.call)[0]


def _owner(k: int, kernel: KernelTime, mains: dict[int, int], regions: Regions) -> Any:
    """Return the position of the call that a kernel computes, or what it is otherwise."""
    if k in mains:
        return mains[k]
    if k in regions.anchors:  # a second kernel of a node
        return mains[regions.owner[regions.anchors[k]]]
    return (CHANGES_OF_LAYOUT if k in regions.layout else ONLY_THERE), kernel.op or kernel.names[0]
