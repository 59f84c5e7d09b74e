"""The entry of a report file about fusion."""

from __future__ import annotations

from typing import cast

from costcore.analyses.fusion.levels import LEVELS
from costcore.analyses.fusion.patterns import PATTERNS
from costcore.errors import CostError
from costcore.ir import Pattern
from costcore.reports.serialization.codec import Decoder
from costcore.reports.serialization.file_object import FileObject
from costcore.trace.run import Fusion


def fusion_of(file: FileObject, n_calls: int, decoder: Decoder) -> Fusion | None:
    """Return how the calls were fused; None if the file has no such entry."""
    data = file.field("fusion", dict, None)
    if data is None:
        return None
    entry = FileObject(data, "fusion")
    groups = entry.field("groups", list)
    positions = [each for group in groups if type(group) is list for each in group if type(each) is int]
    if sorted(positions) != list(range(n_calls)) or not all(groups):
        raise CostError("fusion.groups: expected lists of indices of calls, with every call in exactly one of them")
    level, unfused = entry.choice("level", LEVELS), entry.amount("unfused_mrw", decoder)
    entry.end()
    return Fusion(level, tuple(map(tuple, groups)), unfused)


def patterns_of(file: FileObject, n_calls: int) -> dict[int, Pattern]:
    """Return the patterns that calculators of the run stated, by position of the call."""
    patterns: dict[int, Pattern] = {}
    for entry in file.objects("patterns", []):
        patterns[position_of_call(entry, n_calls)] = cast(Pattern, entry.choice("pattern", PATTERNS))
        entry.end()
    return patterns


def position_of_call(entry: FileObject, n_calls: int) -> int:
    """Return the call that an entry is about, as its index."""
    position: int = entry.field("call", int)
    if not 0 <= position < n_calls:
        raise CostError(f"{entry.where}: expected the index of a call, less than {n_calls}")
    return position
