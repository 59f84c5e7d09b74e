"""Where a graph is walked, and which values it sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from costcore.dims import Dim

from ..values.value import Value
from .node import Node


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the model a graph is walked.

    Attributes:
        module: path of the modules around it.
        names: goes before the names of fresh symbols.
        times: how often it runs.
        region: the loop body or branch it is.
        opsets: version of each domain.
        attributes: the attributes of the call, inside a function.
        functions: names of the functions being expanded.
        source: the text of the model that is walked: equal for every call of a function.
    """

    opsets: Mapping[str, int]
    module: str = ""
    names: str = ""
    times: Dim = 1
    region: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    source: str = ""

    def resolved(self, node: Any) -> dict[str, Any]:
        """The attributes of a node by name; inside a function they may refer to those of its call, or be left out."""
        return {
            a.name: self.attributes[a.ref_attr_name] if a.ref_attr_name else a
            for a in node.attribute
            if not a.ref_attr_name or a.ref_attr_name in self.attributes
        }


class Scope:
    """The values a graph sees: its own, and those of the graphs around it."""

    __slots__ = ("absent", "declared", "parent", "values")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}
        self.declared: dict[str, Any] = {}
        self.absent: frozenset[str] = frozenset()

    def find(self, name: str) -> Value | None:
        """The value of that name, the innermost first; None also for an input that a function was not given."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.absent:
                return None
            scope = scope.parent
        return None

    def knows(self, name: str) -> bool:
        """Whether there is such a name, be it of an input that a function was not given."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values or name in scope.absent:
                return True
            scope = scope.parent
        return False


def inside(place: Place, node: Node, part: str, times: Dim = 1) -> Place:
    """The place of a graph inside ``node``."""
    name = node.proto.name or next(filter(None, node.proto.output), node.op)
    region = f"{name}.{part}"
    return replace(
        place,
        names=f"{place.names}{region}/",
        times=place.times * times,
        region=f"{place.region}/{region}" if place.region else region,
        source=f"{place.source}/{region}",
    )
