"""The calls of a run beside those of a profile of the same model: which of the two are the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

from costcore.analyses.measured.alignment import aligned
from costcore.errors import CostError
from costcore.trace.call import Call
from costcore.trace.profile import Elsewhere, Profile
from costcore.trace.trace import Trace

ONLY_THERE = "in the profile only"


def with_profile(trace: Trace, other: Trace) -> Trace:
    """Return a run with what was measured of it in another capture.

    Calls are the same if they have the same phase, module, operator and shapes, in the same order. Modules are compared
    by their classes and the order in which they first ran, as a profile names them.

    Args:
        trace: the run, such as an estimate of the model.
        other: the run that was measured.

    Raises:
        CostError: if nothing was measured there, or no call is the same.
    """
    profile = other.run.profile
    if profile is None:
        raise CostError("the profile has no times. Pass the report of a trace: estimate('step.pt.trace.json.gz')")
    found = pairs_of(trace, other)
    if not found:
        raise CostError("no call of the profile has the phase, operator and shapes of a call of the run")
    calls = {position: profile.calls[there] for position, there in found.items() if there in profile.calls}
    left: dict[str, list[int]] = defaultdict(list)
    taken = {*found.values()}
    for position, call in enumerate(other.calls):
        if position in profile.calls and position not in taken:
            left[call.native].append(position)
    clock = "device" if profile.clock == "device" else "host"
    elsewhere = [
        Elsewhere(
            ONLY_THERE,
            native,
            sum(getattr(profile.calls[i], clock) for i in positions),
            sum(profile.calls[i].alone for i in positions),
            len(positions),
        )
        for native, positions in left.items()
    ]
    elsewhere.sort(key=lambda each: -each.time)
    found_profile = profile._replace(calls=calls, elsewhere=(*profile.elsewhere, *elsewhere))
    return with_times(trace, found_profile)


def with_times(trace: Trace, profile: Profile) -> Trace:
    """Return a run with what was measured of it."""
    clock = "device" if profile.clock == "device" else "host"
    records = (
        record._replace(seconds=getattr(profile.calls[i], clock) / 1e9 if i in profile.calls else None)
        for i, record in enumerate(trace)
    )
    return Trace(tuple(records), trace.run.recording(profile=profile))


def pairs_of(trace: Trace, other: Trace) -> dict[int, int]:
    """Return the position of the same call of another run, by the position of the call.

    A profile numbers modules when they are called, so that its names stay right if it lacks events; if it began to
    number before the run, or lacks modules, others fit better.
    """
    names = module_names(trace)
    attempts: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...]
    attempts = ((names, {path: path for path in other.run.modules}), (names, module_names(other)), ({}, {}))
    found: dict[int, int] = {}
    for own, theirs in attempts:
        pairs = _pairs(trace, own, other, theirs)
        if len(pairs) > len(found):
            found = pairs
    return found | _leftovers(trace, other, found)


def _pairs(trace: Trace, names: Mapping[str, str], other: Trace, other_names: Mapping[str, str]) -> dict[int, int]:
    theirs = _by_place(other, other_names)
    found: dict[int, int] = {}
    for place, positions in _by_place(trace, names).items():
        there = theirs.get(place, [])
        pairs = aligned([_key(trace.records[i].call) for i in positions], [_key(other.records[i].call) for i in there])
        found.update((positions[a], there[b]) for a, b in pairs)
    return found


def _leftovers(trace: Trace, other: Trace, found: Mapping[int, int]) -> dict[int, int]:
    """Return further pairs of the same phase, class of module, operator and shapes, wherever they ran."""
    taken = {*found.values()}
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(other) - 1, -1, -1):
        if position not in taken:
            waiting[_loose_key(other, position)].append(position)
    more: dict[int, int] = {}
    for position in range(len(trace)):
        if position not in found and (there := waiting.get(_loose_key(trace, position))):
            more[position] = there.pop()
    return more


def _loose_key(trace: Trace, position: int) -> Hashable:
    call = trace.records[position].call
    module = trace.run.modules.get(call.module)
    return call.phase, "" if module is None else module.type, _key(call)


def _key(call: Call) -> Hashable:
    return call.layer.op, tuple(tensor.shape for tensor in call.layer.inputs.values())


def _by_place(trace: Trace, names: Mapping[str, str]) -> dict[Any, list[int]]:
    places: dict[Any, list[int]] = defaultdict(list)
    for position, call in enumerate(trace.calls):
        places[call.phase, names.get(call.module, "")].append(position)
    return places


def module_names(trace: Trace) -> dict[str, str]:
    """Return modules by classes and the order in which they first ran, ``Block_0.Linear_3``, by path."""
    modules = trace.run.modules
    numbers: dict[str, int] = defaultdict(int)
    own: dict[str, str] = {"": ""}
    for call in trace.calls:
        _name(call.module, modules, numbers, own)
    return own


def _name(path: str, modules: Mapping[str, Any], numbers: dict[str, int], own: dict[str, str]) -> str:
    if path in own:
        return own[path]
    around = path.rpartition(".")[0]
    while around and around not in modules:
        around = around.rpartition(".")[0]
    outer = _name(around, modules, numbers, own)
    module = modules.get(path)
    kind = module.type if module is not None else path.rpartition(".")[2]
    own[path] = f"{outer}.{kind}_{numbers[kind]}".lstrip(".")
    numbers[kind] += 1
    return own[path]
