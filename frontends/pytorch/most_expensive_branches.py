"""Branches of Python code that data decides: both sides are run, and the more expensive one is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costcore.errors import CostError
from costcore.graphs import dearest
from costcore.trace.recorder import Recorder

from .meta.branches import Branch, Branches

MAX_RUNS = 16
"""How many runs on other sides of branches an estimate makes."""


def count_most_expensive(recorder: Recorder, first: Branches, record: Callable[[Recorder, Branches], object]) -> None:
    """Replace what was recorded by a run on the more expensive sides of its branches, if another side is.

    Each branch is tried once: first in all modules whose code it is, then in each of them. A side on which the model
    fails, or does not end, is not taken.

    Args:
        recorder: has the first run, in which all conditions are True.
        first: the branches that it met.
        record: records a run on other sides.
    """
    best, branches = recorder, first
    tried: set[Branch] = set()
    n_runs = 0
    while n_runs < MAX_RUNS:
        branch = next((each for each in _waiting(branches) if each not in tried), None)
        if branch is None:
            break
        tried.add(branch)
        n_runs += 1
        sides = {**branches.sides, branch: not branches.sides.get(branch, _common_side(branches.sides, branch))}
        other, met = recorder.of_another_run(), Branches(sides)
        try:
            record(other, met)
        except CostError:
            continue
        if dearest({False: best.calls, True: other.calls}, recorder).counted:
            best, branches = other, met
    left = [each for each in _waiting(branches) if each not in tried and each[2] is None]
    if left:
        best.notes.append(
            f"{len(left)} data-dependent branch{'es' * (len(left) > 1)} took the side on which the condition is True: "
            f"the other sides of {MAX_RUNS} are tried"
        )
    if best is not recorder:
        recorder.adopt(best)


def _common_side(sides: Mapping[Branch, bool], branch: Branch) -> bool:
    return sides.get((*branch[:2], None), True)


def _waiting(branches: Branches) -> list[Branch]:
    """Return the branches to try: each in all of its modules, and then, if these are several, in each."""
    everywhere: list[Branch] = [*dict.fromkeys((code, position, None) for code, position, _ in branches.met)]
    n_modules = {each: sum(met[:2] == each[:2] for met in branches.met) for each in everywhere}
    return everywhere + [met for met in branches.met if n_modules[met[0], met[1], None] > 1]
