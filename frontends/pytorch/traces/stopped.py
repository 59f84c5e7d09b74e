"""Operators of a recomputation that an exception ended before they did anything.

``torch.utils.checkpoint`` ends a recomputation as soon as all saved tensors are there: by an exception in the operator
that saves the last one. The trace has its span, of which the operator ran only what comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .records import Op

_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        *("view", "reshape", "_reshape_alias", "t", "transpose", "permute", "as_strided", "expand", "unsqueeze"),
        *("squeeze", "slice", "select", "narrow", "detach", "alias", "unflatten", "flatten", "empty", "resolve_conj"),
    )
)


def stopped(ops: Sequence[Op], device_times: Mapping[Op, int]) -> set[Op]:
    """Return the operators that were recomputed in part only: equal operators of the run did more.

    Args:
        ops: the operators.
        device_times: the time on the device of each of them.
    """
    recomputed = [op for op in ops if op.phase == "recompute" and op.arguments is not None]
    if not recomputed:
        return set()
    wanted = {_key(op) for op in recomputed}
    done: dict[tuple[str, str], set[str]] = {}
    timed: set[tuple[str, str]] = set()
    for op in ops:
        if op.phase == "forward" and op.arguments is not None and (key := _key(op)) in wanted:
            work = _work(op)
            done[key] = done[key] & work if key in done else work
            if device_times.get(op, 0):
                timed.add(key)
    return {
        op
        for op in recomputed
        if not done.get(key := _key(op), set()) <= _work(op) or (key in timed and not device_times.get(op, 0))
    }


def _key(op: Op) -> tuple[str, str]:
    return op.name, repr([x[:3] if len(x) > 3 else x for x in op.arguments or ()])


def _work(op: Op) -> set[str]:
    """Return the names of the operators inside that are not views."""
    found: set[str] = set()
    waiting: list[Iterable[Op]] = [op.children]
    while waiting:
        for child in waiting.pop():
            if child.name not in _VIEWS:
                found.add(child.name)
            if child.children:
                waiting.append(child.children)
    return found
