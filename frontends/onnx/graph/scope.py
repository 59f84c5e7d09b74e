"""The values a graph sees, and the context it is walked in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from costcore.graphs import Place
from costcore.numbers.dims import Dim

from ..values.value import Value
from .node import Node


@dataclass(frozen=True, slots=True)
class GraphContext(Place):
    """What surrounds a graph that is walked, besides the place where it runs.

    Attributes:
        opsets: version of each domain.
        module: path of the modules around the graph.
        prefix: prefix of the full names of its values, ``loop.body/``; fresh symbols are named after these.
        call_attributes: attributes of the function call, inside a function.
        expanding: full names of the functions that are being expanded.
        source: the part of the file that holds the graph: equal for all calls of a function.
    """

    opsets: Mapping[str, int] = field(default_factory=dict)
    module: str = ""
    prefix: str = ""
    call_attributes: Mapping[str, Any] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    source: str = ""

    def attributes_of(self, node: Any) -> dict[str, Any]:
        """Return the attributes of a node (``NodeProto``) by name.

        Inside a function they may refer to attributes of the function call; such an attribute is absent if the call
        omits it.
        """
        return {
            a.name: self.call_attributes[a.ref_attr_name] if a.ref_attr_name else a
            for a in node.attribute
            if not a.ref_attr_name or a.ref_attr_name in self.call_attributes
        }

    def of_subgraph(self, node: Node, part: str, times: Dim = 1) -> GraphContext:
        """Return the context of a graph inside ``node``, its body or branch ``part``."""
        name = node.proto.name or next(filter(None, node.proto.output), node.op)
        region = f"{name}.{part}"
        return replace(
            self,
            prefix=f"{self.prefix}{region}/",
            times=self.times * times,
            region=self.inner_region(region),
            source=f"{self.source}/{region}",
        )


class Scope:
    """The values a graph sees: its own, and those of the graphs around it."""

    __slots__ = ("absent", "declared", "parent", "values")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}
        self.declared: dict[str, Any] = {}
        self.absent: frozenset[str] = frozenset()

    def find(self, name: str) -> Value | None:
        """Return the value of that name, the innermost first; None also for a function input that the call omits."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.absent:
                return None
            scope = scope.parent
        return None

    def defines(self, name: str) -> bool:
        """Return True if the name exists, also for a function input that the call omits."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values or name in scope.absent:
                return True
            scope = scope.parent
        return False
