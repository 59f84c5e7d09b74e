"""Count as one operator what an exporter wrote as several: exact patterns, on request only."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from costcore.ir import Layer
from costcore.trace.call import Call
from costcore.trace.run import Regrouping
from costcore.translate import ROLES

from ..graph.node import Node
from ..reading.exporter_metadata import origin, source_line
from ..values.value import Stored, Value
from ..walk.walker import Walker
from .exported_program import Program
from .matcher import Group, Groups, Made, Match, Pattern, matches
from .patterns.layers import PATTERNS, TRACED

ELEMENTS_READ = {"Shape": 0, "Size": 0, "CastLike": 1}
"""Operators that read the elements of so many inputs only, and of the others the shape or the type."""

PARTS = ("Slice", "Split")
"""Operators that take a part of their first input."""


def regroup(walker: Walker, asked: bool | Collection[str], producer: str) -> None:
    """Replace the calls of every group of nodes that spells out one operator by one call, and list them as notes.

    A group is taken only where its nodes run equally often at one place, and where nothing else reads a value between
    them (no other node, no inner graph, no output of the model). Unless groups are asked for by name, an exporter must
    have spelled it out, as far as can be told: one that notes from which operation of the user's program a node comes
    notes the same one for all of them, and one that notes nothing wrote just these nodes in this order.

    Args:
        walker: the walk that recorded the calls; it kept its history.
        asked: True, or names of :data:`PATTERNS`, which are found whoever spelled them out.
        producer: what wrote the model.
    """
    recorder = walker.recorder
    counted = set(map(id, recorder.calls))
    history = [Made(node, call, order) for order, (node, call) in enumerate(walker.history or ())]
    nodes = [made for made in history if id(made.call) in counted]
    search = Search(walker, nodes, _readers(walker, history), by_anyone=asked is not True)
    is_traced = producer == "pytorch" and not any(origin(made.node.proto) for made in nodes)
    chosen = list(_chosen(asked, TRACED if is_traced else {}))
    for made in reversed(history):
        if id(made.call) in counted and made.node not in search.taken:
            search.at(made, chosen)
    calls = [search.replaced.get(id(call), call) for call in recorder.calls if id(call) not in search.gone]
    recorder.calls[:] = calls
    search.forget_constants()
    recorder.regrouped.extend(reversed(search.regrouped))


def _chosen(asked: bool | Collection[str], spelled: Mapping[str, Pattern | None]) -> Iterator[Groups]:
    """The groups to look for: those of these names, else all, as the exporter spells them."""
    for name, groups in PATTERNS.items():
        if not isinstance(asked, bool):
            if name in asked:
                yield groups
            continue
        pattern = spelled.get(name, groups.pattern)
        if pattern is not None:
            yield groups._replace(pattern=pattern)


def _readers(walker: Walker, history: Iterable[Made]) -> dict[Value, set[Node | None]]:
    """What reads the elements of a value; None stands for whatever is no recorded node."""
    readers: dict[Value, set[Node | None]] = {value: {None} for value in walker.kept}
    for made in history:
        for value in made.node.inputs[: ELEMENTS_READ.get(made.node.op)]:
            if value is not None:
                readers.setdefault(value, set()).add(made.node)
    return readers


class Search:
    """The groups found so far.

    Args:
        walker: the walk.
        history: the nodes that are counted.
        readers: the nodes that read a value, None for anything else that does.
        by_anyone: whether groups may be spelled out by the user's program as well as by an exporter.
    """

    def __init__(
        self, walker: Walker, history: Iterable[Made], readers: dict[Value, set[Node | None]], *, by_anyone: bool
    ) -> None:
        self.walker = walker
        self.by_anyone = by_anyone
        self.makers = {value: made for made in history for value in made.node.outputs if value is not None}
        self.readers = readers
        self.program = Program(origin(made.node.proto) for made in history)
        self.taken: set[Node] = set()
        self.gone: set[int] = set()
        self.replaced: dict[int, Call] = {}
        self.regrouped: list[Regrouping] = []
        self._stored: dict[int, Stored] = {}

    def at(self, root: Made, patterns: Iterable[Groups]) -> None:
        """Take the first group that ends in ``root``."""
        for groups in patterns:
            if root.node.op in groups.roots:
                group = next(self._groups(groups, root), None)
                if group is not None:
                    self._take(root, group)
                    return

    def _groups(self, groups: Groups, root: Made) -> Iterator[Group]:
        for match in matches(groups.pattern, root.node.outputs[0], self.makers):
            if self.is_one(match.nodes, groups.taken_apart):
                group = groups.build(match, Extension(self, groups.taken_apart))
                if group is not None and all(value.shape is not None for value in group.operands.values()):
                    yield group

    def is_one(self, nodes: tuple[Made, ...], taken_apart: str = "") -> bool:
        """Whether nodes, the root first, are a group of their own.

        Args:
            nodes: the nodes.
            taken_apart: the call in the user's program that the exporter's framework itself takes apart.
        """
        root, inside = nodes[0], {made.node for made in nodes}
        if inside & self.taken:
            return False
        if any(made.call.times != root.call.times or made.call.region != root.call.region for made in nodes):
            return False
        between = (value for node in inside if node is not root.node for value in node.outputs)
        if any(value is not None and not self.readers.get(value, set()) <= inside for value in between):
            return False
        if any(value is not None and self.readers.get(value) for value in root.node.outputs[1:]):
            return False
        if self.by_anyone:
            return True
        origins = {origin(node.proto) for node in inside}
        if len(origins) == 1 or not taken_apart:
            return len(origins) == 1
        return all(re.search(taken_apart, source_line(node.proto)) for node in inside)

    def _take(self, root: Made, group: Group) -> None:
        nodes = sorted({made.order: made for made in group.nodes}.values(), key=lambda made: made.order)
        self.taken.update(made.node for made in nodes)
        self.gone.update(id(made.call) for made in nodes if made is not root)
        for value in (value for made in nodes for value in made.node.inputs):
            if value is not None and value.stored is not None:
                self._stored[id(value.stored)] = value.stored
        tensors = {
            name: value.tensor(ROLES.get(name.rstrip(string.digits), "data")) for name, value in group.operands.items()
        }
        layer = self.walker.recorder.intern(Layer(group.op, tensors, root.call.layer.outputs, group.attrs))
        inputs = tuple(self.walker.identity(value) for value in group.operands.values())
        self.replaced[id(root.call)] = replace(
            root.call,
            layer=layer,
            type=group.type,
            native=f"ai.onnx::{group.type}",
            module=_around([made.call.module for made in nodes]),
            inputs=inputs,
            parameters=tuple(i for i, t in zip(inputs, layer.inputs.values(), strict=True) if t.role == "param"),
        )
        self.regrouped.append(Regrouping(group.op, tuple(made.node.label for made in nodes)))

    def forget_constants(self) -> None:
        """Stored tensors that only spelled-out definitions read (the ones and zeros of a norm) are no parameters."""
        recorder = self.walker.recorder
        read = {identity for call in recorder.calls for identity in call.parameters}
        for stored in self._stored.values():
            if stored.identity in recorder.parameters and stored.identity not in read:
                del recorder.parameters[stored.identity]
                stored.uses = {"setting"}


@dataclass(frozen=True)
class Extension:
    """The search for more nodes of a group that PyTorch takes apart where it is called so."""

    search: Search
    taken_apart: str

    @property
    def program(self) -> Program:
        """The operations that nodes were written for."""
        return self.search.program

    def whole(self, value: Value) -> Value:
        """The tensor that a value is a part of, the value itself where it is no part."""
        made = self.search.makers.get(value)
        while made is not None and made.node.op in PARTS and (source := made.node.inputs[0]) is not None:
            value, made = source, self.search.makers.get(source)
        return value

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """``match`` with the nodes that made ``value``, where they fit ``pattern``.

        Unless they may be ``shared``, nothing else may read from them.
        """
        found = matches(pattern, value, self.search.makers, match)
        return next((longer for longer in found if shared or self.search.is_one(longer.nodes, self.taken_apart)), None)


def _around(modules: list[str]) -> str:
    """The innermost module around all of these."""
    paths = [module.split(".") for module in modules]
    count = next((i for i, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1), min(map(len, paths)))
    return ".".join(paths[0][:count])
