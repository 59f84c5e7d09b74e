"""Patterns of recorded operators, which find groups of nodes that count as one operator, and explain near misses.

A node is a recorded operator; the root of a group is its last node. A frontend describes its nodes and values by a
:class:`Graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from costcore.errors import unknown

N = TypeVar("N")

V = TypeVar("V")

N_co = TypeVar("N_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Operand:
    """Any value; the same value wherever the name is used."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant with all elements equal to ``number`` (None: any number), bound to ``name`` if that is given."""

    number: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A value that ``pattern`` matches; the same value wherever the name is used.

    With ``moved``, its axes may be permuted at later uses.
    """

    name: str
    pattern: Pattern
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Either:
    """Any of several patterns, the first ones preferred."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, init=False, slots=True)
class Op:
    """An operator with operands; operands of sums, products and extremes may be swapped.

    Args:
        kind: the operator, as the framework names it.
        operands: patterns of its first inputs; without any, its inputs do not matter.
        check: a further condition on the node.
        output: the index of the output that is matched.
    """

    kind: str
    operands: tuple[Pattern, ...]
    check: Callable[[Any], bool] | None
    output: int

    def __init__(
        self, kind: str, *operands: Pattern, check: Callable[[Any], bool] | None = None, output: int = 0
    ) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "check", check)
        object.__setattr__(self, "output", output)


Pattern: TypeAlias = "Operand | Number | Named | Either | Op"


def product(*patterns: Pattern, kind: str = "Mul") -> Either:
    """Return the product of two or three patterns in any order; ``kind`` is the operator that multiplies."""
    if len(patterns) == 2:
        return Either((Op(kind, *patterns),))
    a, b, c = patterns
    return Either(tuple(Op(kind, x, Op(kind, y, z)) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))))


@dataclass(slots=True)
class Match(Generic[V, N]):
    """A match of a pattern: values by name, and the nodes between these and the root, the root first."""

    values: Mapping[str, V]
    nodes: tuple[N, ...]

    def with_value(self, name: str, value: V) -> Match[V, N]:
        """Return the match with one more value."""
        return Match({**self.values, name: value}, self.nodes)

    def with_nodes(self, nodes: tuple[N, ...]) -> Match[V, N]:
        """Return the match with more nodes."""
        return Match(self.values, (*self.nodes, *nodes)) if nodes else self


@dataclass(slots=True)
class Misses:
    """Why a pattern does not match: the mismatches of its best partial match.

    Attributes:
        n_nodes: the number of nodes that matched, plus one half for a constant with another number.
        why: the next mismatch.
        value: the name of the mismatched value; "" if it has none.
    """

    n_nodes: float = -1
    why: str = ""
    value: str = ""

    def add(self, n_nodes: float, why: str, value: str = "") -> None:
        """Record a mismatch after ``n_nodes`` matched."""
        if n_nodes > self.n_nodes:
            self.n_nodes, self.why, self.value = n_nodes, why, value

    def refuse(self, n_nodes: int, why: str | None) -> None:
        """Record why ``n_nodes`` that match the whole pattern are not its operator; this outranks all other misses."""
        self.add((1 << 16) + n_nodes, why or "shapes, dtypes or attributes match another operator")


class Graph(Protocol[V, N_co]):
    """The recorded operators of a run.

    Attributes:
        commutative: operators with two operands that may be swapped.
        misses: receives the mismatches of a pattern; None if they are not needed.
    """

    commutative: Collection[str]
    misses: Misses | None

    def described(self, value: V) -> tuple[str, str]:
        """Return the name of a value, "" if it has none, and its origin as a sentence."""

    def between(self, bound: V, value: V, moved: bool) -> tuple[N_co, ...] | None:
        """Return the casts (with ``moved``, also permutations) that lead from ``bound`` to ``value``.

        Empty if both are the same value; None if other nodes lie between them.
        """

    def number(self, value: V, number: float | None) -> tuple[N_co, ...] | None:
        """Return the nodes that make this constant (None: any constant); None if the value is another one."""

    def computed(self, value: V, op: Op) -> tuple[tuple[N_co, ...], Sequence[V | None]] | str:
        """Return the nodes that compute a value by ``op``, and its first inputs; or the mismatch as text."""


def matches(
    pattern: Pattern, value: V | None, graph: Graph[V, N], found: Match[V, N] | None = None
) -> Iterator[Match[V, N]]:
    """Yield every match of ``pattern`` with the nodes that produced ``value``, added to the match ``found``."""
    if value is None:
        return
    found = found or Match({}, ())
    if isinstance(pattern, Op):
        yield from _computed(pattern, value, graph, found)
    elif isinstance(pattern, Either):
        for alternative in pattern.patterns:
            yield from matches(alternative, value, graph, found)
    elif isinstance(pattern, Number):
        nodes = graph.number(value, pattern.number)
        if nodes is None and graph.misses is None:
            return
        if nodes is None:
            expected = "a constant" if pattern.number is None else f"the constant {pattern.number:g}"
            _missed(graph, found, value, expected, 0.5 * (graph.number(value, None) is not None))
        else:
            longer = found.with_nodes(nodes)
            yield longer.with_value(pattern.name, value) if pattern.name else longer
    elif (bound := found.values.get(pattern.name)) is not None:
        nodes = graph.between(bound, value, isinstance(pattern, Named) and pattern.moved)
        if nodes is None:
            _missed(graph, found, value, f"the same value as before, {pattern.name!r}")
        else:
            yield found.with_nodes(nodes)
    elif isinstance(pattern, Operand):
        yield found.with_value(pattern.name, value)
    else:
        for match in matches(pattern.pattern, value, graph, found):
            yield match.with_value(pattern.name, value)


def _computed(op: Op, value: V, graph: Graph[V, N], found: Match[V, N]) -> Iterator[Match[V, N]]:
    computed = graph.computed(value, op)
    if isinstance(computed, str):
        _missed(graph, found, value, computed)
        return
    nodes, inputs = computed
    start = found.with_nodes(nodes)
    yield from _all(op.operands, inputs, graph, start)
    if len(op.operands) == 2 and op.kind in graph.commutative:
        yield from _all(op.operands, inputs[::-1], graph, start)


def _all(
    patterns: Sequence[Pattern], values: Sequence[V | None], graph: Graph[V, N], found: Match[V, N]
) -> Iterator[Match[V, N]]:
    if not patterns:
        yield found
        return
    for match in matches(patterns[0], values[0], graph, found):
        yield from _all(patterns[1:], values[1:], graph, match)


def _missed(graph: Graph[V, N], found: Match[V, N], value: V, expected: str, nearer: float = 0) -> None:
    if graph.misses is not None:
        name, what = graph.described(value)
        graph.misses.add(len(found.nodes) + nearer, f"{what} (expected {expected})", name)


@dataclass(slots=True)
class NearMisses:
    """Explanations of why groups of nodes do not match some patterns.

    Attributes:
        patterns: names of these patterns.
    """

    patterns: Collection[str]
    _found: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)

    def add(self, pattern: str, misses: Misses | None, root: str) -> None:
        """Record why nodes that end in ``root`` do not match ``pattern``, if more than the root matched."""
        if misses is not None and misses.n_nodes >= 2:
            at = f" (at {misses.value!r})" if misses.value else ""
            self._found.setdefault((pattern, misses.why), {})[f"{root}{at}"] = None

    def notes(self) -> Iterator[str]:
        """Yield a line for every reason, and one that lists the patterns without a near miss, if few were requested."""
        for (pattern, why), roots in self._found.items():
            names = list(roots)
            more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            yield f"regroup: not {pattern}: {why}. Nodes that end in {', '.join(names[:_MOST_NAMES])}{more}"
        unlike = [name for name in self.patterns if all(name != pattern for pattern, _ in self._found)]
        if unlike and len(unlike) <= _MOST_NAMES:
            yield f"regroup: no other nodes begin to match {', '.join(unlike)}"


_MOST_NAMES = 5


def selected_patterns(
    regroup: object, known: Collection[str], option: str = "regroup", what: str = "pattern"
) -> list[str]:
    """Return the names that an option such as ``regroup`` selects: all for True, none for False, or the listed ones.

    Raises:
        TypeError, ValueError: if the option is invalid; the message lists what is expected.
    """
    if isinstance(regroup, bool):
        return list(known) if regroup else []
    if isinstance(regroup, str) or not isinstance(regroup, Collection):
        raise TypeError(f"{option} must be True, False or names of {what}s (got {regroup!r})")
    for name in regroup:
        if name not in known:
            raise ValueError(f"{option}: {unknown(what, name, known)}")
    return [name for name in known if name in regroup]


def common_module(modules: Sequence[str]) -> str:
    """Return the path of the innermost module that contains all ``modules``."""
    paths = [module.split(".") for module in modules]
    count = next((i for i, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1), min(map(len, paths)))
    return ".".join(paths[0][:count])
