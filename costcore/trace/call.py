"""Elements of a run: calls, modules, assumptions, records, patterns of operators, and the user's code of a call."""

from __future__ import annotations

import dis
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from inspect import currentframe
from itertools import dropwhile, takewhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, overload

from costcore.errors import unknown
from costcore.ir import Layer
from costcore.numbers import Dim

PHASES = ("forward", "backward", "recompute", "optimizer")


class Uncounted(Enum):
    """Why a call has no cost.

    Attributes:
        template: the reason as a sentence; ``{op}`` stands for the name of the operator.
        hint: what the user can do about it; empty if the reason says it all.
    """

    NO_CALCULATOR = (
        "no calculator for {op!r}",
        "see ignored_layers, or add one (--calculator FILE.py:NAME, calculators=… of estimate, "
        "add_custom_cost_calculator of a hook)",
    )
    NO_SHAPES = "no shapes for {op!r}", "the report's notes list the values whose shape is unknown"
    OTHER_THREADS = (
        "modules also ran in other threads",
        "a hook sees the thread it was entered in and those that this one starts; enter one in each other thread",
    )
    CALCULATOR_FAILED = "", ""

    def __init__(self, template: str, hint: str) -> None:
        self.template = template
        self.hint = hint

    def reason(self, op: str) -> str:
        """Return the reason for an operator; empty for a failed calculator, as its error is the reason."""
        return self.template.format(op=op)

    @classmethod
    def of(cls, reason: str, op: str) -> Uncounted:
        """Return the member that gives this reason for ``op``; any other reason is the error of a calculator."""
        return next((member for member in cls if member.reason(op) == reason), cls.CALCULATOR_FAILED)


class Call(NamedTuple):
    """One execution of a layer: its operator, its location in the model and the ids of its operands.

    A frontend builds it with keywords and passes it to the recorder; it never changes afterwards.

    Attributes:
        layer: the operator with its shapes, dtypes and attributes.
        type: the framework's short name of the operator (``conv2d``, ``Convolution2DFunction``, ``Conv``).
        native: the framework's full name (``aten::conv2d``, ``aten::add_``, ``ai.onnx::Conv``) of what ran.
        name: unique name in a report, ``<type>-<n>``. Until the report is made it is empty, or the key of the graph's
            nodes in :attr:`Recorder.nodes`.
        module: path of the module; ``""`` outside of any module.
        phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
        times: how often the call runs, an int or a symbolic expression; in the body of a loop its trip count.
        region: the loop body or branch that the call belongs to; ``""`` if none.
        inputs, outputs: operand ids, in the order of the layer's tensors; equal ids are the same value.
        storages: storage ids of inputs, then outputs; equal ids are views of the same memory.
        parameters: parameter ids of the learned parameters that the call reads.
        saved: operand ids that autograd keeps for the backward pass.
        where: traceback of the user's code as formatted text; empty unless requested.
        uncounted: why the call cannot be counted, if the frontend knows; None lets its calculator count it.
        overload: name of the operator's overload (``padding`` of ``aten::conv2d.padding``); ``""`` for the default.
        strided: positions among the layer's inputs of tensors that are not contiguous.
        function: qualified name of the function that the user's code called (``torch.nn.functional.relu``,
            ``torch.Tensor.matmul``), or of the symbol that it wrote (``operator.add``); ``""`` if unknown. Like the
            next two, it is recorded only with ``record_api_calls=True``.
        given: for a function with alternative arguments, the names of the passed ones:
            ``("scale_factor",)``.
        module_call: number of the innermost module call that it ran in, from 1, in :attr:`Run.module_calls`; 0 if
            unknown.
    """

    layer: Layer
    type: str
    native: str = ""
    name: str = ""
    module: str = ""
    phase: str = "forward"
    times: Dim = 1
    region: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    where: str = ""
    uncounted: Uncounted | None = None
    overload: str = ""
    strided: tuple[int, ...] = ()
    function: str = ""
    given: tuple[str, ...] = ()
    module_call: int = 0

    @property
    def operator(self) -> str:
        """``native`` as rules and custom calculators name it: out of place, ``aten::add`` for ``aten::add_``."""
        native = self.native
        is_in_place = native.endswith("_") and native.startswith("aten::") and not native.endswith("__")
        return native[:-1] if is_in_place else native

    def named(self, name: str) -> Call:
        """Return the same call with a name."""
        return tuple.__new__(Call, (*self[:3], name, *self[4:]))  # _make would cost as much again


new_call: Callable[..., Call] = Call.__new__
"""Builds a call three times as fast: ``new_call(Call, layer=…)``, as ``Call(…)`` collects keywords in a dict first."""


def with_names(calls: Iterable[Call]) -> list[Call]:
    """Return the calls with their names, ``<type>-<n>``, counted from 1 for each type."""
    counts: dict[str, int] = {}
    named = []
    for call in calls:
        n = counts[call.type] = counts.get(call.type, 0) + 1
        named.append(call.named(f"{call.type}-{n}"))
    return named


class _WhatAndWhere(NamedTuple):
    what: str
    where: str


class Assumption(_WhatAndWhere):
    """An assumption about something that depends on data: the pair of the assumption and its place.

    Two assumptions are equal if both are; the place in the user's code and the number of times do not matter.

    Attributes:
        what: what was assumed, as a sentence, which may begin with what kind of assumption it is, and a colon.
        where: path of the module, or name of the node.
        line: the line of the user's code that needed the value, ``model.py:12 in forward``; empty if it is unknown.
        times: how often it was assumed there.
        is_branch: whether it decided which code ran. Files do not keep this.
    """

    line: str
    times: int
    is_branch: bool

    def __new__(cls, what: str, where: str = "", line: str = "", times: int = 1, is_branch: bool = False) -> Assumption:
        """Return an assumption; see the attributes of the class."""
        self = super().__new__(cls, what, where)
        self.line, self.times, self.is_branch = line, times, is_branch
        return self

    def __str__(self) -> str:
        if not self.line:
            return self.what + self._in_parentheses(self.where)
        kind, colon, rest = self.what.partition(": ")
        module = f"module `{self.where}`" if self.where else ""
        return f"{kind} at {self.line}{self._in_parentheses(module)}{colon}{rest}"

    def _in_parentheses(self, place: str) -> str:
        inside = ", ".join(filter(None, (place, f"{self.times} times" if self.times > 1 else "")))
        return f" ({inside})" if inside else ""


class Module(NamedTuple):
    """A module in the module hierarchy of a model.

    Attributes:
        type: name of its class, ``Conv2d``.
        parameters: parameter ids of the learned parameters that it owns directly, not through its children.
        frozen: its parameters that are not trained.
        buffers: number of elements of the state that it owns directly, such as running statistics.
        same_as: path at which the same module was seen first; empty unless the module is used twice.
        bases: qualified names of its class and the base classes of that, in method resolution order, before the class
            that all modules of the framework have in common:
            ``("torch.nn.modules.conv.Conv2d", "torch.nn.modules.conv._ConvNd")``.
        own: name and number of elements of each learned parameter that it owns directly; like ``parameters``, empty at
            every path but the first.
        kernel_is_int: whether its attribute ``kernel_size`` is an int, not a tuple.
    """

    type: str
    parameters: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    buffers: Dim = 0
    same_as: str = ""
    bases: tuple[str, ...] = ()
    own: tuple[tuple[str, Dim], ...] = ()
    kernel_is_int: bool = False


class ModuleCall(NamedTuple):
    """One call of a module.

    Attributes:
        module: path of the module.
        parent: number of the module call that made it, from 1; 0 if none did.
        inputs: shapes of the tensors among its positional arguments, also of those inside lists, tuples and dicts.
        outputs: shapes of the tensors that it returned, likewise; empty if it raised an exception.
    """

    module: str
    parent: int = 0
    inputs: tuple[tuple[Dim, ...], ...] = ()
    outputs: tuple[tuple[Dim, ...], ...] = ()


def qualified_bases(kind: type, root: type) -> tuple[str, ...]:
    """Return the qualified names of a class and its base classes, in method resolution order, before ``root``."""
    before = takewhile(lambda each: each is not root and each is not object, kind.__mro__)
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in before)


# Patterns of recorded operators.
#
# Frontends find groups that are one operator by these, and say why others are not. They describe their recorded
# operators, the nodes, and values by a :class:`Graph`. The root of a group is its last node.


N = TypeVar("N")

V = TypeVar("V")

N_co = TypeVar("N_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Operand:
    """Any value; the same one wherever the name is used."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant with all elements equal to ``number``, by ``name`` if that is given; with None, any number."""

    number: float | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A value that ``pattern`` matches; the same one wherever the name is used.

    If ``moved``, its axes may be in another order there.
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
        check: what else holds for the node.
        output: which of its outputs is meant.
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
        n_nodes: how many nodes matched there, and a half for a constant in the place of another.
        why: what was wrong next.
        value: the name of the value that was wrong; "" if it has none.
    """

    n_nodes: float = -1
    why: str = ""
    value: str = ""

    def add(self, n_nodes: float, why: str, value: str = "") -> None:
        """Note that ``n_nodes`` matched until something was wrong."""
        if n_nodes > self.n_nodes:
            self.n_nodes, self.why, self.value = n_nodes, why, value

    def refuse(self, n_nodes: int, why: str | None) -> None:
        """Note why ``n_nodes`` that match the whole pattern are not its operator, which says more than other misses."""
        self.add((1 << 16) + n_nodes, why or "shapes, dtypes or attributes match another operator")


class Graph(Protocol[V, N_co]):
    """The recorded operators of a run.

    Attributes:
        commutative: operators with two operands that may be swapped.
        misses: receives why a pattern does not match; None if nobody asks.
    """

    commutative: Collection[str]
    misses: Misses | None

    def described(self, value: V) -> tuple[str, str]:
        """Return the name of a value, "" if it has none, and a sentence on where it comes from."""

    def between(self, bound: V, value: V, moved: bool) -> tuple[N_co, ...] | None:
        """Return the nodes that only cast ``bound`` to ``value``, and move its axes if ``moved``; None if others do.

        There are none if both are the same value.
        """

    def number(self, value: V, number: float | None) -> tuple[N_co, ...] | None:
        """Return the nodes that make this number, any number for None; None if the value is another one."""

    def computed(self, value: V, op: Op) -> tuple[tuple[N_co, ...], Sequence[V | None]] | str:
        """Return the nodes that compute a value as ``op`` says, and its first inputs; why not, if they do not."""


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
    """Why groups of nodes are not the operators of some patterns.

    Attributes:
        patterns: names of these patterns.
    """

    patterns: Collection[str]
    _found: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)

    def add(self, pattern: str, misses: Misses | None, root: str) -> None:
        """Note why nodes that end in ``root`` are not the operator of ``pattern``, if more than the root matched."""
        if misses is not None and misses.n_nodes >= 2:
            at = f" (at {misses.value!r})" if misses.value else ""
            self._found.setdefault((pattern, misses.why), {})[f"{root}{at}"] = None

    def notes(self) -> Iterator[str]:
        """Yield a line for every reason, and one for every pattern that nothing resembles, if few were asked for."""
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
        TypeError, ValueError: with what was expected.
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
    """Return the path of the innermost module around all of these."""
    paths = [module.split(".") for module in modules]
    count = next((i for i, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1), min(map(len, paths)))
    return ".".join(paths[0][:count])


# Records: what a run keeps beside its calls and options, each declared by one :class:`Record`.


T = TypeVar("T")

DECLARED: dict[str, Record[Any]] = {}
"""Every declared record by name."""

_WITHOUT_SIZES = frozenset((int, str, float, bool, type(None)))
"""The types of values without sizes inside."""


class Recorded(Protocol):
    """A run: anything with records."""

    @property
    def records(self) -> Mapping[str, Any]:
        """The records by name."""


class Record(Generic[T]):
    """The declaration of a value that runs record under a name, by its reader.

    ::

        CYCLES = Record("cycles", 0)                      # declare
        run = run.recording(cycles=512)                   # write
        CYCLES.of(run)                                    # read: 512; 0 if it was not recorded

    Files keep it: numbers, symbolic sizes, strings, tuples, lists and dicts of these. ``subs`` puts values into the
    symbolic sizes inside of it.

    Args:
        name: its key in :attr:`Run.records`.
        absent: its value if it was not recorded.
        of_part: returns it for some of the calls of the run, given the new position of each by its old one. Default:
            it does not depend on the positions of calls.
        is_kept: whether files keep it.
    """

    name: str
    of_part: Callable[[Any, Mapping[int, int]], T] | None
    is_kept: bool

    def __init__(
        self,
        name: str,
        absent: T,
        *,
        of_part: Callable[[Any, Mapping[int, int]], T] | None = None,
        is_kept: bool = True,
    ) -> None:
        self.name, self.absent, self.of_part, self.is_kept = name, absent, of_part, is_kept
        DECLARED[name] = self

    def of(self, run: Recorded) -> T:
        """Return the recorded value of a run."""
        found: T = run.records.get(self.name, self.absent)
        return found

    @overload
    def __get__(self, run: None, owner: object) -> Record[T]: ...

    @overload
    def __get__(self, run: Recorded, owner: object) -> T: ...

    def __get__(self, run: Recorded | None, owner: object) -> Record[T] | T:
        return self if run is None else self.of(run)


def records_of_part(records: Mapping[str, Any], new: Mapping[int, int]) -> dict[str, Any]:
    """Return the records of a run that has only some of its calls.

    Args:
        records: the records of the whole run.
        new: the new position of each of these calls by its old one.
    """
    followed = {name: record.of_part for name, record in DECLARED.items() if record.of_part is not None}
    return {name: followed[name](value, new) if name in followed else value for name, value in records.items()}


def with_sizes(value: Any, substitute: Callable[[Any], Any]) -> Any:
    """Return a value with other sizes inside of its tuples, lists and dicts."""
    if type(value) in _WITHOUT_SIZES or (type(value) is tuple and _WITHOUT_SIZES.issuperset(map(type, value))):
        return value
    if isinstance(value, tuple):
        inside = [with_sizes(item, substitute) for item in value]
        return value._make(inside) if hasattr(value, "_make") else tuple(inside)
    if isinstance(value, list):
        return [with_sizes(item, substitute) for item in value]
    if isinstance(value, Mapping):
        return {name: with_sizes(item, substitute) for name, item in value.items()}
    return substitute(value)


# The user's code that made a call.


_OWN = tuple(str(Path(__file__).parents[2] / package) + os.sep for package in ("costcore", "calculators", "frontends"))


def user_traceback(*frameworks: str) -> str:
    """Return the stack of the user's code as formatted text, the innermost frame last.

    Frames of this package and of the framework are omitted.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``.
    """
    stack = [
        (
            frame.f_globals.get("__name__", "").partition(".")[0],
            traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name),
        )
        for frame, line in traceback.walk_stack(currentframe())
        if not frame.f_code.co_filename.startswith(_OWN)
    ]
    outside = [*dropwhile(lambda pair: pair[0] in frameworks, stack)] or stack
    return "".join(traceback.format_list([summary for _, summary in reversed(outside)]))


def user_line(*frameworks: str) -> str:
    """Return the innermost line of the user's code, ``model.py:12 in forward``; ``""`` if there is none.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``, whose frames are omitted.
    """
    for frame, line in user_frames():
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in frameworks:
            return f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return ""


def user_frames() -> Iterator[tuple[FrameType, int]]:
    """Yield the frames outside of this package with their lines, the innermost first."""
    for frame, line in traceback.walk_stack(currentframe()):
        # the decorators of this package run inside contextlib, which no user writes
        path = frame.f_code.co_filename
        is_own = path.startswith(_OWN) or path.endswith(_COMMAND)
        if not is_own and frame.f_globals.get("__name__") != "contextlib":
            yield frame, line


_COMMAND = (f"{os.sep}bin{os.sep}costcore", "costcore.exe")
"""How the path of the installed command ends."""


# Symbols (``+``, ``@=``, ``[]``) that a line of Python was running, from its byte code.


_BINARY = {
    "add": "+",
    "and": "&",
    "floordiv": "//",
    "lshift": "<<",
    "matmul": "@",
    "mod": "%",
    "mul": "*",
    "or": "|",
    "pow": "**",
    "rshift": ">>",
    "sub": "-",
    "truediv": "/",
    "xor": "^",
}
"""The binary operators with an in-place form, by the function of :mod:`operator` without an underscore."""

_COMPARISONS = {"eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<", "ne": "!="}

_COMPARISON_SHIFT = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
"""How many flags precede the number of the comparison in the argument of ``COMPARE_OP``."""

_WITH_ARGUMENT = frozenset(("BINARY_OP", "CALL_INTRINSIC_1", "COMPARE_OP"))
"""Instructions with an argument that decides what they compute."""

_PREFIXES = (
    "BINARY_",
    "CALL_INTRINSIC_1",
    "COMPARE_OP",
    "CONTAINS_OP",
    "DELETE_SUBSCR",
    "INPLACE_",
    "STORE_S",
    "UNARY_",
)
"""Prefixes of the names of instructions that run a symbol."""


def operator_name(word: str) -> str:
    """Return the name of a function of :mod:`operator`, in which keywords end in an underscore."""
    return f"{word}_" if word in ("and", "or", "not") else word


def symbol_at(code: CodeType, offset: int) -> str:
    """Return the function of :mod:`operator` for the symbol at an offset in byte code; empty if there is no symbol.

    Args:
        code: the code of a frame.
        offset: ``f_lasti`` of the frame.
    """
    if offset < 0:
        return ""
    instructions = code.co_code
    while (name := dis.opname[instructions[offset]]) == "CACHE":
        offset -= 2
    return _SYMBOLS.get(_key(name, instructions[offset + 1]), "")


def _key(name: str, argument: int) -> tuple[str, int]:
    if name not in _WITH_ARGUMENT:
        return name, 0
    return name, argument >> _COMPARISON_SHIFT if name == "COMPARE_OP" else argument


def _symbols() -> dict[tuple[str, int], str]:
    # Byte code differs between releases of Python, so this one compiles each symbol.
    sources = {
        **{operator_name(word): f"a {symbol} b" for word, symbol in _BINARY.items()},
        **{f"i{word}": f"a {symbol}= b" for word, symbol in _BINARY.items()},
        **{word: f"a {symbol} b" for word, symbol in _COMPARISONS.items()},
        "neg": "-a",
        "pos": "+a",
        "invert": "~a",
        "contains": "a in b",
        "delitem": "del a[b]",
    }
    pairs = [
        *sources.items(),
        ("getitem", "a[b]"),
        ("getitem", "a[b:c]"),
        ("setitem", "a[b] = c"),
        ("setitem", "a[b:c] = d"),
    ]
    return {key: word for word, source in pairs for key in _keys(source)}


def _keys(source: str) -> list[tuple[str, int]]:
    instructions = dis.get_instructions(compile(source, "", "exec"))
    return [_key(each.opname, each.arg or 0) for each in instructions if each.opname.startswith(_PREFIXES)]


_SYMBOLS = _symbols()


# By path of a module: its number of nonzero weights, and of all weights, without biases.
NONZERO_WEIGHTS: Record[Mapping[str, tuple[int, int]] | None] = Record("nonzero_weights", None)
