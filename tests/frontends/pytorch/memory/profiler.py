"""The tensor peak of a run on a CPU as the profiler of PyTorch measures it, in bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

REGION = "measured: "
"""What the names of the regions begin with that the profiler marks."""


class _Event(NamedTuple):
    """Memory that the allocator of the CPU gives or takes back.

    Attributes:
        time: when, in nanoseconds.
        address: where.
        nbytes: how much; negative if it is taken back.
        end: when the operator ends that a dispatch mode sees and that caused it; 0: none did.
    """

    time: int
    address: int
    nbytes: int
    end: int


class _Names(TorchDispatchMode):
    """Collects the names of the operators that a dispatch mode sees, or would if derivatives were those of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {"aten::masked_select", "aten::nonzero", "aten::_index_put_impl"}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        self.names.add(func._schema.name.rstrip("_"))
        return func(*args, **(kwargs or {}))


class Run(NamedTuple):
    """What is measured.

    Attributes:
        run: the run; what it returns lives until its end.
        prepare: what precedes it; it runs before a first run as well, which is not measured.
    """

    run: Callable[[], Any]
    prepare: Callable[[], Any] = lambda: None


def profiled_peaks(runs: Mapping[str, Run]) -> dict[str, int]:
    """Return for every run the highest sum of blocks that it allocates, without workspace.

    Workspace are blocks that are allocated and freed inside one operator that a dispatch mode sees.
    """
    with _Names() as seen:
        for each in runs.values():
            each.prepare()
            each.run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for name, each in runs.items():
            each.prepare()
            gc.collect()
            with record_function(f"{REGION}{name}"):
                held = each.run()
            del held
    peaks = {}
    stack = [*profiler.profiler.kineto_results.experimental_event_tree()]
    while stack:
        node = stack.pop()
        if node.name.startswith(REGION):
            peaks[node.name.removeprefix(REGION)] = _peak(sorted(_events(node.children, seen.names)))
        else:
            stack += node.children
    return peaks


def _events(tree: Any, names: set[str]) -> Iterator[_Event]:
    stack: list[tuple[Any, int]] = [(node, 0) for node in tree]
    while stack:
        node, end = stack.pop()
        if node.name == "[memory]":
            fields = node.extra_fields
            yield _Event(node.start_time_ns, fields.ptr, fields.alloc_size, end)
        elif not end and node.name.rstrip("_") in names:
            end = node.end_time_ns
        stack += [(child, end) for child in node.children]


def _peak(events: list[_Event]) -> int:
    """Return the highest sum of blocks; those that lived before the run are not counted."""
    open_blocks: dict[int, tuple[int, int]] = {}
    changes: list[int] = []
    for time, address, nbytes, end in events:
        if nbytes > 0:
            open_blocks[address] = len(changes), end
            changes.append(nbytes)
        elif address in open_blocks:
            position, end = open_blocks.pop(address)
            if end and time <= end:
                changes[position] = 0  # workspace
            else:
                changes.append(nbytes)
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return peak
