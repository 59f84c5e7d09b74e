"""Loops, branches, sharded functions and solvers: how often their jaxprs run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from costcore.graphs import most_expensive
from costcore.numbers import Dim, is_symbolic, symbol_of
from costcore.trace.call import Call

from .dims import dim_of
from .recording import Place
from .values import Value, value_of
from .walker import Handler, Walker


def scan(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the body of ``scan`` once; it runs ``length`` times on slices of the scanned inputs."""
    params = equation.params
    shared, carried = params["num_consts"], params["num_carry"]
    steps, region = dim_of(params["length"]), _region(place, "scan", walker)
    entering = [_copied(value) for value in inputs[shared : shared + carried]]
    slices = [_slice(value) for value in inputs[shared + carried :]]
    inside = place._replace(times=place.times * steps, region=region)
    results = walker.walk_closed(params["jaxpr"], [*inputs[:shared], *entering, *slices], inside)
    stacked = [value_of(variable.aval) for variable in equation.outvars[carried:]]
    for inner, outer in zip(results[carried:], stacked, strict=True):
        outer.has_gradient = inner.has_gradient
    return [*results[:carried], *stacked]


def while_loop(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk condition and body of ``while`` once.

    A loop that counts from one literal to another runs as often as that; any other as often as the option ``trips``
    says, else a symbol of its own says how often.
    """
    params = equation.params
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    entering = inputs[of_condition + of_body :]
    trips = _counted_trips(params, inputs[:of_condition], entering)
    name = place.names.inside(equation).module("")
    if trips is None and walker.trips is not None:
        trips = walker.trips
        walker.recording.recorder.assume(f"the trip count of a while loop depends on data: {trips} (trips)", name)
    elif trips is None:
        trips = symbol_of(f"trips_{walker.number_of_loop()}")
        walker.recording.recorder.assume(
            f"the trip count of a while loop depends on data: it is the symbol {trips}. Give it with trips=…", name
        )
    region = _region(place, "while", walker)
    carried = [_copied(value) for value in entering]
    condition = place._replace(times=place.times * (trips + 1), region=region)
    walker.walk_closed(params["cond_jaxpr"], [*inputs[:of_condition], *carried], condition)
    body = place._replace(times=place.times * trips, region=region)
    return walker.walk_closed(params["body_jaxpr"], [*inputs[of_condition : of_condition + of_body], *carried], body)


def _counted_trips(params: Mapping[str, Any], shared: Sequence[Value], entering: Sequence[Value]) -> Dim | None:
    """Return the trip count of ``for i in range(start, stop)`` with known ends; None for any other loop.

    Of several such comparisons that are joined by ``and``, as TensorFlow writes, the first that fails ends the loop.
    """
    condition = params["cond_jaxpr"].jaxpr
    made = {eqn.outvars[0]: eqn for eqn in condition.eqns if eqn.outvars}
    waiting, counts = [*condition.outvars], []
    while waiting:
        atom = waiting.pop()
        equation = None if hasattr(atom, "val") else made.pop(atom, None)
        if equation is None:
            return None
        name = equation.primitive.name
        if name in ("and", "convert_element_type"):  # JAX converts a comparison with a number of Python to bool
            waiting += equation.invars
        elif name == "lt":
            counts.append(_trips_below(equation, params, shared, entering))
        else:
            return None
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or (len({*known}) > 1 and any(map(is_symbolic, known))):
        return None
    return min(known) if len({*known}) > 1 else known[0]


def _trips_below(
    comparison: Any, params: Mapping[str, Any], shared: Sequence[Value], entering: Sequence[Value]
) -> Dim | None:
    """Return how often ``i < stop`` holds, of a value that the body adds 1 to; None if that depends on data."""
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    known = dict(zip(condition.invars, [*shared, *entering], strict=True))
    counter, end = comparison.invars
    if hasattr(counter, "val") or counter not in known or not (hasattr(end, "val") or end in known):
        return None
    position = condition.invars.index(counter) - len(shared)
    start = known[counter].number
    stop = end.val if hasattr(end, "val") else known[end].number
    if start is None or stop is None or position < 0 or not _counts(body, params["body_nconsts"] + position, position):
        return None
    if not hasattr(end, "val") and not _is_carried(condition, body, end, len(shared), params["body_nconsts"]):
        return None
    return stop - start if is_symbolic(stop) or is_symbolic(start) else max(int(stop) - int(start), 0)


def _counts(body: Any, entering: int, leaving: int) -> bool:
    """Return whether the body adds 1 to its input number ``entering`` as its output number ``leaving``."""
    made = next((eqn for eqn in body.eqns if eqn.outvars[0] is body.outvars[leaving]), None)
    if made is None or made.primitive.name != "add":
        return False
    literals = [int(atom.val) for atom in made.invars if hasattr(atom, "val")]
    return literals == [1] and any(atom is body.invars[entering] for atom in made.invars)


def _is_carried(condition: Any, body: Any, end: Any, shared: int, body_shared: int) -> bool:
    """Return whether the body leaves the end of the loop as it is."""
    position = condition.invars.index(end) - shared
    return position < 0 or body.outvars[position] is body.invars[body_shared + position]


def cond(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the branch that a literal selects, else the most expensive one."""
    index, operands = inputs[0], inputs[1:]
    branches = equation.params["branches"]
    if index.number is not None:
        selected = min(max(int(index.number), 0), len(branches) - 1)
        return walker.walk_closed(branches[selected], operands, place)
    region, recorder = _region(place, "cond", walker), walker.recording.recorder
    walked: list[tuple[list[Call], list[Any], list[Value]]] = []
    for i, branch in enumerate(branches):
        mark, known = len(recorder.calls), len(walker.recording.history)
        outputs = walker.walk_closed(branch, operands, place._replace(region=f"{region}.{i}"))
        walked.append((recorder.calls[mark:], walker.recording.history[known:], outputs))
        del recorder.calls[mark:], walker.recording.history[known:]
    choice = most_expensive({i: calls for i, (calls, _, _) in enumerate(walked)}, recorder)
    recorder.assume(
        f"the condition depends on data: the most expensive of {len(walked)} branches, number {choice.counted} "
        f"({choice.flops[choice.counted]} FLOPs), is counted",
        place.names.module(""),
    )
    calls, history, outputs = walked[choice.counted]
    recorder.calls += [*calls, *choice.uncounted]
    walker.recording.history += history
    return outputs


def shard_map(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk what one device runs; it is counted once per device of the mesh."""
    params = equation.params
    devices = prod(params["mesh"].shape.values())
    walker.recording.recorder.notes.append(
        f"shard_map: the calls of one device are listed, each {devices} times (mesh {dict(params['mesh'].shape)})"
    )
    outputs = [value_of(variable.aval) for variable in equation.outvars]
    inside = place._replace(devices=place.devices * devices, axes={**place.axes, **params["mesh"].shape})
    parts = [_sharded(value, var) for value, var in zip(inputs, params["jaxpr"].invars, strict=True)]
    walker.walk_closed(params["jaxpr"], parts, inside)
    return outputs


def _sharded(value: Value, variable: Any) -> Value:
    """Return the part of a value that one device has."""
    return replace(value_of(variable.aval), role=value.role, parameter=value.parameter, is_weight=value.is_weight)


def custom_linear_solve(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the solver of ``custom_linear_solve``: that is what runs."""
    lengths = equation.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    constants = inputs[before : before + lengths.solve]
    right = inputs[before + lengths.solve + lengths.transpose_solve :]
    return walker.walk_closed(equation.params["jaxprs"].solve, [*constants, *right], place)


def _slice(value: Value) -> Value:
    """Return one step of a scanned value."""
    return replace(value, shape=value.shape[1:], identity=0)


def _copied(value: Value) -> Value:
    """Return what a loop carries: the value of the first step, which is data from then on."""
    return replace(value, number=None)


def _region(place: Place, kind: str, walker: Walker) -> str:
    """Return the name of a loop body or a branch, unique in the run."""
    name = f"{kind}{len(walker.recording.history) + 1}"
    return f"{place.region}.{name}" if place.region else name


HANDLERS: Mapping[str, Handler] = {
    "cond": cond,
    "custom_linear_solve": custom_linear_solve,
    "scan": scan,
    "shard_map": shard_map,
    "while": while_loop,
}
