"""The search for groups of equations that are one operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from costcore.trace.call import Call
from costcore.trace.patterns import Misses, NearMisses, common_module, matches
from costcore.trace.run import Regrouping

from ..capture.recording import Recorded, Recording
from ..capture.values import Value
from .matcher import Graph, Match, looked_through
from .patterns.builders import Decomposition, Group


def regroup_calls(
    recording: Recording,
    patterns: Mapping[str, Decomposition],
    outputs: Sequence[Value],
    explained: Collection[str] = (),
) -> None:
    """Replace the calls of equations that are one operator together, from the last to the first.

    Args:
        recording: the run.
        patterns: what to look for, by name.
        outputs: the values that the program returns.
        explained: names of the patterns of which to note why other equations do not match them.
    """
    history = recording.history
    producers = {value.identity: i for i, each in enumerate(history) for value in each.outputs if _is_new(each, value)}
    returned = {value.identity for value in outputs}
    search = _Search(recording, Graph(history, producers), _readers(history), returned, NearMisses(explained))
    for position in reversed(range(len(history))):
        if position not in search.taken:
            search.at(position, patterns)
    search.take_views_inside()
    recorder = recording.recorder
    gone = {id(history[i].call) for i in search.taken if i not in search.replaced}
    replaced = {id(history[i].call): call for i, call in search.replaced.items()}
    recorder.calls[:] = [replaced.get(id(call), call) for call in recorder.calls if id(call) not in gone]
    recorder.regrouped.extend(search.found[::-1])
    recorder.notes.extend(search.near_misses.notes() if explained else ())


def _is_new(recorded: Recorded, value: Value) -> bool:
    """Return whether an equation computes a value, rather than passing one on."""
    return bool(value.identity) and all(value.identity != given.identity for given in recorded.inputs)


def _readers(history: Sequence[Recorded]) -> dict[int, set[int]]:
    """Return the positions of the equations that read each value; views of it do not."""
    readers: dict[int, set[int]] = {}
    for i, recorded in enumerate(history):
        for value in recorded.inputs:
            if value.identity and any(_is_new(recorded, output) for output in recorded.outputs):
                readers.setdefault(value.identity, set()).add(i)
    return readers


@dataclass
class _Search:
    """The search, with what it found.

    Attributes:
        recording: the run.
        graph: its equations.
        readers: the equations that read each value.
        returned: ids of the values that the program returns.
        near_misses: why equations do not match patterns.
        taken: equations of groups.
        replaced: the call of each group, by its last equation.
        found: the groups, the last first.
    """

    recording: Recording
    graph: Graph
    readers: Mapping[int, set[int]]
    returned: set[int]
    near_misses: NearMisses
    taken: set[int] = field(default_factory=set)
    replaced: dict[int, Call] = field(default_factory=dict)
    found: list[Regrouping] = field(default_factory=list)

    def at(self, position: int, patterns: Mapping[str, Decomposition]) -> None:
        """Take the first group that ends in an equation."""
        root = self.graph.history[position]
        if len(root.outputs) != 1 or looked_through(root) is not None:
            return
        for name, decomposition in patterns.items():
            self.graph.misses = Misses() if name in self.near_misses.patterns else None
            for match in matches(decomposition.pattern, root.outputs[0], self.graph):
                if self._is_taken(match, decomposition, position):
                    return
            self.near_misses.add(name, self.graph.misses, f"equation {position} ({root.primitive})")

    def _is_taken(self, match: Match, decomposition: Decomposition, position: int) -> bool:
        """Take a match as a group if it is one; return whether it is."""
        nodes = self._separate(frozenset(match.nodes), position)
        if not isinstance(nodes, str):
            match = Match(match.values, tuple(nodes))
            group = decomposition.build(match, self.graph.history[position], self.graph)
            if group is not None:
                self._take(position, nodes, group)
                return True
        if self.graph.misses is not None:
            self.graph.misses.refuse(len(match.nodes), nodes if isinstance(nodes, str) else None)
        return False

    def take_views_inside(self) -> None:
        """Take the views of values that exist only inside of groups."""
        taken = self.taken - self.replaced.keys()
        inside = {value.identity for i in taken for value in self.graph.history[i].outputs}
        for i, recorded in enumerate(self.graph.history):
            if any(value.identity in inside for value in recorded.inputs):
                self.taken.add(i)

    def _separate(self, nodes: frozenset[int], root: int) -> frozenset[int] | str:
        """Return the equations of a group without those of numbers that others read too, or why there are not any."""
        history = self.graph.history
        kept = set(nodes)
        for i in nodes - {root}:
            output = history[i].outputs[0]
            if not self.readers.get(output.identity, set()) <= nodes or output.identity in self.returned:
                if output.number is None:
                    return "others read a value between the equations"
                kept.discard(i)
        call = history[root].call
        same_loop = all(history[i].call.region == call.region and history[i].call.times == call.times for i in kept)
        same_phase = all(history[i].call.phase == call.phase for i in kept)
        if not same_loop or not same_phase:
            return "the equations are in different loops or passes"
        return "some of the equations are counted as another operator" if kept & self.taken else frozenset(kept)

    def _take(self, position: int, nodes: frozenset[int], group: Group) -> None:
        layer, values = group
        calls = [self.graph.history[i].call for i in sorted(nodes)]
        inputs = tuple(map(self.recording.identity, values))
        self.replaced[position] = calls[-1]._replace(
            layer=self.recording.recorder.intern(layer),
            type=layer.op,
            native=f"jax::{layer.op}",
            module=common_module([call.module for call in calls]),
            inputs=inputs,
            outputs=(self.recording.identity(self.graph.history[position].outputs[0]),),
            parameters=tuple(dict.fromkeys(value.parameter for value in values if value.parameter)),
        )
        self.taken |= nodes
        self.found.append(Regrouping(layer.op, tuple(call.type for call in calls)))
