"""Nodes and values of a graph in a file, and shared parts of frontends that read files.

Sections: execution order, input shapes given by the user, the module tree rebuilt from names, the most expensive
branch, loop contexts, open sizes of a file, and rules for the shapes of results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from costcore.counting import Pricer
from costcore.errors import CostError, did_you_mean, unknown
from costcore.ir import Operations, Tensor, prod
from costcore.numbers import (
    Dim,
    as_dim,
    ceil_div,
    floor_div,
    is_symbolic,
    magnitude,
    maximum,
    minimum,
    size_from,
    symbol_of,
)
from costcore.registry import MergedCalculators, calculators
from costcore.trace.call import Call, Module
from costcore.trace.run import Recorder
from costcore.translate import Arguments, Source

if TYPE_CHECKING:
    from costcore.translate import Row


REAL = frozenset(("bfloat16", "float16", "float32", "float64"))


@dataclass(slots=True, eq=False)
class GraphValue:
    """A value of a graph.

    Attributes:
        shape: the size of each axis.
        dtype: a key of :data:`costcore.ir.BITS`.
        name: its name in the file.
        is_stored: whether the file stores it: a weight or a constant.
        data: its elements in order, if it is a small constant; otherwise None.
        identity: its operand id; 0 until it is recorded.
        is_parameter: whether it is a learned parameter: a call reads it as a weight or bias, or the reader set it.
        is_state: whether a call reads it as a state, such as running statistics.
        base: the value it is a view of; None for a value with its own memory.
        beside: further values that rows of its readers may need, such as its scale.
    """

    shape: tuple[Dim, ...]
    dtype: str
    name: str = ""
    is_stored: bool = False
    data: tuple[Any, ...] | None = None
    identity: int = 0
    is_parameter: bool = False
    is_state: bool = False
    base: GraphValue | None = None
    beside: Sequence[GraphValue | None] = ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_real(self) -> bool:
        """Whether its elements are real numbers; a view may unpack stored weights."""
        return self.dtype in REAL or self.base is not None

    @property
    def nbytes(self) -> Dim:
        """The bytes in memory, or in the file."""
        return Tensor(self.shape, self.dtype).nbytes

    @property
    def signature(self) -> tuple[Hashable, ...]:
        """The properties that a row may read, as a key."""
        base = self.base
        owner = self if base is None else base
        own = (self.shape, self.dtype, self.data, owner.is_stored, owner.is_parameter, owner.is_state, base is None)
        return (*own, *[value and value.signature for value in self.beside]) if self.beside else own

    def viewed(self, *shape: Dim) -> GraphValue:
        """Return the same value with the axes of a formula, such as ``[N, C, H, W]`` for ``[N, H, W, C]``."""
        return GraphValue(shape, self.dtype, self.name, self.is_stored, self.data, base=self.base or self)

    def permuted(self, *axes: int) -> GraphValue:
        """Return the same value with its axes in another order."""
        return self.viewed(*(self.shape[axis] for axis in axes))


class GraphNode(NamedTuple):
    """An operator of a graph.

    Attributes:
        native: full name of the operator, ``tflite::CONV_2D``, as rows name it.
        type: its short name, ``CONV_2D``.
        args: operands (:class:`GraphValue`, lists of these, or None) and attributes, by name. Rows read the outputs by
            their number as the argument ``outputs``.
        outputs: the values that it produces.
        name: its name; empty if it has none.
        module: path of the module around it; empty if unknown.
        scratch: bytes of each buffer that the runtime takes for it while it runs.
        options: further attributes, in a mapping that nodes of one kind may share.
    """

    native: str
    type: str
    args: Mapping[str, Any]
    outputs: Sequence[GraphValue]
    name: str = ""
    module: str = ""
    scratch: Sequence[Dim] = ()
    options: Mapping[str, Any] = MappingProxyType({})


new_node: Callable[..., Any] = tuple.__new__
"""Builds a node of all its attributes in order three times as fast: ``new_node(GraphNode, (native, …, options))``."""


def values_and_settings(args: Mapping[str, Any]) -> tuple[list[GraphValue], tuple[Any, ...]]:
    """Return the values among the arguments of a node, also in lists, and all other arguments."""
    values: list[GraphValue] = []
    settings: list[Any] = []
    for name, item in args.items():
        if isinstance(item, GraphValue):
            values.append(item)
            item = GraphValue
        elif isinstance(item, (list, tuple)):
            found = [part for part in item if isinstance(part, GraphValue)]
            values += found
            if found and len(found) == len(item):
                item = GraphValue, len(found)
            elif found or isinstance(item, list):
                item = tuple([GraphValue if isinstance(part, GraphValue) else part for part in item])
        elif isinstance(item, dict):
            item = tuple(item.items())
        settings += name, item
    return values, tuple(settings)


# Execution order.


def in_order(before: Sequence[Collection[int]], describe: Callable[[int], str]) -> Sequence[int]:
    """Return the positions of nodes in an execution order: the order of the file if it is possible.

    Args:
        before: the positions of the nodes that each reads from, each once.
        describe: returns the name of a node in messages.

    Raises:
        CostError: for a cycle; the message has its nodes.
    """
    if all(not earlier or max(earlier) < i for i, earlier in enumerate(before)):
        return range(len(before))
    after: list[list[int]] = [[] for _ in before]
    waiting = [len(earlier) for earlier in before]
    for i, earlier in enumerate(before):
        for j in earlier:
            after[j].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    for i in ready:  # grows while it is walked
        for j in after[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    if len(ready) < len(before):
        raise CostError(f"the graph has a cycle: {_cycle(before, waiting, describe)}")
    return ready


def _cycle(before: Sequence[Collection[int]], waiting: Sequence[int], describe: Callable[[int], str]) -> str:
    at = next(i for i, count in enumerate(waiting) if count)
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        at = next(j for j in before[at] if waiting[j])
    circle = [*path][[*path].index(at) :]
    shown = [describe(i) for i in reversed(circle)]
    return " -> ".join([*shown[:10], "…"] if len(shown) > 10 else [*shown, shown[0]])


# Sources for rows of nodes whose argument ``inputs`` has the operands in order.


def given(a: Arguments, position: int) -> Any:
    """Return an operand by its position; None if it is absent."""
    inputs = a["inputs"]
    return inputs[position] if position < len(inputs) else None


def operand(position: int) -> Source:
    """Return a source for an operand by its position; None if it is absent."""
    return lambda a: given(a, position)


X: Mapping[str, Source] = {"x": operand(0)}

XS: Mapping[str, Source] = {"x*": lambda a: [value for value in a["inputs"] if value is not None]}


# Input shapes given by the user for files with open sizes.


def given_shapes(names: Sequence[str], inputs: Any) -> dict[int, tuple[Any, ...]]:
    """Return the given shapes by the position of the input.

    Args:
        names: the names of the inputs of the model.
        inputs: shapes or arrays in order or by name, or one of them; None for none.

    Raises:
        CostError: if an input does not exist.
        TypeError: if one of them is not a shape.
    """
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        if wrong := [name for name in inputs if name not in names]:
            raise CostError(unknown("input", wrong, list(names)))
        return {names.index(name): _shape(value) for name, value in inputs.items()}
    is_one = isinstance(inputs, tuple) and all(not isinstance(item, (tuple, list)) for item in inputs)
    listed = [inputs] if is_one or hasattr(inputs, "shape") else list(inputs)
    if len(listed) > len(names):
        raise CostError(f"{len(listed)} inputs were given, but the model has {len(names)}: {', '.join(names)}")
    return dict(enumerate(map(_shape, listed)))


def _shape(value: Any) -> tuple[Any, ...]:
    found: Any = getattr(value, "shape", value)
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"expected a shape such as (1, 3, 224, 224) or an array (got {value!r})")
    return tuple(found)


# Defaults of :class:`costcore.frontend.Frontend` for frontends that read files.


ROWS: tuple[Row, ...] = ()
"""No rows, for frontends with the operators of another frontend."""


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: files are read, not run."""
    return None


def accepts(model: object) -> bool:
    """Return False: a model is recognized as a file, by its content or its suffix."""
    return False


def native_names(op: object) -> tuple[str, ...]:
    """Return (): another frontend knows the names of its operators."""
    return ()


def names_of(prefix: str, short: Collection[str] = ()) -> Callable[[object], tuple[str, ...]]:
    """Return the function ``native_names`` of a frontend with operator names ``prefix::NAME``.

    Args:
        prefix: the prefix of full names.
        short: names that are accepted without the prefix.
    """

    def names(op: object) -> tuple[str, ...]:
        if not isinstance(op, str):
            return ()
        return (op,) if op.startswith(f"{prefix}::") else (f"{prefix}::{op}",) if op in short else ()

    return names


@contextmanager
def in_file(path: str) -> Iterator[None]:
    """Context manager: prefix errors with the name of a file, unless they begin with it."""
    try:
        yield
    except CostError as error:
        if str(error).startswith(path):
            raise
        raise CostError(f"{path}: {error}") from error


@contextmanager
def damaged(*kinds: type[Exception]) -> Iterator[None]:
    """Context manager: turn the exceptions of reading a damaged file, and further kinds, into a ``CostError``."""
    errors: tuple[type[Exception], ...] = (ValueError, OverflowError, struct.error, *kinds)
    try:
        yield
    except CostError:
        raise  # it already states the problem
    except errors as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CostError(f"the file is damaged: {reason[:200]}") from error


# Module tree, rebuilt from names of nodes and stored tensors.


DEEPEST_MODULE = 100
"""The maximum depth of modules made from names."""


class Stored(Protocol):
    """A tensor that the file stores."""

    @property
    def size(self) -> Dim:
        """The number of its elements."""

    @property
    def is_parameter(self) -> bool:
        """Whether it is learned."""

    @property
    def is_state(self) -> bool:
        """Whether it is a state that is not learned, such as running statistics."""


S = TypeVar("S", bound=Stored)


class ModuleTree(Generic[S]):
    """The modules of one model. Nodes are added in the order they run in.

    Args:
        owner: returns the module in the name of a stored tensor, ``""`` if it has none.
    """

    def __init__(self, owner: Callable[[S], str] = lambda _: "") -> None:
        self._owner = owner
        self._types: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._readers: dict[S, dict[str, None]] = {}

    def enter(self, path: str, kind: str = "") -> None:
        """Add the module of that path, of class ``kind`` if that is known."""
        if not self._types.get(path):
            self._types[path] = kind

    def enter_within(self, path: str) -> str:
        """Add the module of that path after the modules around it; return its path, shortened if it is too deep."""
        if path and path not in self._types:
            around = path.rpartition(".")[0]
            if around in self._types and path.count(".") < DEEPEST_MODULE:
                self._types[path] = ""
                return path
            parts = path.split(".")[:DEEPEST_MODULE]
            for end in range(1, len(parts) + 1):
                path = ".".join(parts[:end])
                self.enter(path)
        return path

    def knows(self, path: str) -> bool:
        """Return whether the class of a module is known."""
        return bool(self._types.get(path))

    def read(self, path: str, stored: Iterable[S]) -> None:
        """Record that a node of the module reads stored tensors, and add the module."""
        for tensor in stored:
            owner = self._owner(tensor)
            if owner:
                self._owners.setdefault(owner, path)
            self._readers.setdefault(tensor, {})[path] = None
        if path and path not in self._types:
            self.enter(path)

    def readers(self, tensor: S) -> Iterable[str]:
        """Return the modules that have read a stored tensor so far."""
        return self._readers.get(tensor, ())

    def tree(self, stored: Iterable[S], identify: Callable[[S], int]) -> dict[str, Module]:
        """Return the modules by path; empty if no node has a module.

        A stored tensor belongs to the module in its name; if that module reads it, also to all other readers. Without a
        module in its name, it belongs to all readers.

        Args:
            stored: the stored tensors of the model.
            identify: returns the id of a learned parameter.
        """
        if not self._types:
            return {}
        types = self._in_order()
        parameters: dict[str, list[int]] = {}
        buffers: dict[str, Dim] = {}
        for tensor in stored:
            if tensor.is_parameter:
                for path in self._holders(tensor):
                    parameters.setdefault(path, []).append(identify(tensor))
            elif tensor.is_state:
                holder = self._holders(tensor)[0]
                buffers[holder] = buffers.get(holder, 0) + tensor.size
        empty = {kind: Module(kind) for kind in {*types.values()}}  # most of a tree
        found = {path: empty[kind] for path, kind in types.items()}
        for path in {**parameters, **buffers}:
            kind = types.get(path, "")
            found[path] = Module(kind, tuple(parameters.get(path, ())), buffers=buffers.get(path, 0))
        return found

    def _in_order(self) -> dict[str, str]:
        # A module known only by its tensors comes before the first module that reads them.
        types: dict[str, str] = {"": ""}
        if not self._owners:
            return types | self._types
        before: dict[str, list[str]] = {}
        for owner, reader in self._owners.items():
            if owner not in self._types:
                before.setdefault(reader, []).append(owner)
        for path, kind in {**types, **self._types}.items():
            types.update(dict.fromkeys(before.get(path, ()), ""))
            types[path] = kind
        return types

    def _holders(self, tensor: S) -> list[str]:
        owner, readers = self._owner(tensor), self._readers.get(tensor, {})
        if not owner:
            return [*readers] or [""]
        if owner not in readers:
            return [owner]
        return [owner, *(path for path in readers if not _are_nested(path, owner))]


def _are_nested(a: str, b: str) -> bool:
    return f"{a}.".startswith(f"{b}." if b else "") or f"{b}.".startswith(f"{a}." if a else "")


# Data-dependent branches: the most expensive one is counted.


K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Choice(Generic[K]):
    """The counted branch.

    Attributes:
        counted: its name.
        flops: FLOPs of each branch by name, without calls that have no formula.
        uncounted: calls without a formula in the other branches; the report lists them, too.
    """

    counted: K
    flops: Mapping[K, Dim]
    uncounted: list[Call]


def most_expensive(branches: Mapping[K, Sequence[Call]], recorder: Recorder) -> Choice[K]:
    """Return the most expensive branch by FLOPs, the first of equal ones.

    Args:
        branches: the calls of each branch by name.
        recorder: the recorder of the run, which may have calculators of its own.
    """
    price = _pricer(recorder)
    flops = {name: _flops(price, calls) for name, calls in branches.items()}
    counted = max(flops, key=lambda name: magnitude(flops[name]))
    others = (call for name, calls in branches.items() if name != counted for call in calls)
    return Choice(counted, flops, [call for call in others if price(call).cost is None])


def operations_of(calls: Iterable[Call], recorder: Recorder) -> tuple[Operations, Dim, list[Call]]:
    """Return the summed operations and MACs of all executions of calls, and the calls without a cost.

    Args:
        calls: the calls.
        recorder: the recorder of the run, which may have calculators of its own.
    """
    price = _pricer(recorder)
    operations, macs, unknown = Operations(), 0, []
    for call in calls:
        cost = price(call).cost
        if cost is None:
            unknown.append(call)
            continue
        flops = cost.flops if isinstance(cost.flops, Operations) else Operations(add=cost.flops)
        operations += call.times * flops
        macs += call.times * cost.macs
    return operations, macs, unknown


def _pricer(recorder: Recorder) -> Pricer:
    return Pricer(MergedCalculators(recorder.calculators, calculators()))


def _flops(price: Pricer, calls: Sequence[Call]) -> Dim:
    total: Dim = 0
    for call in calls:
        cost = price(call).cost
        if cost is not None:
            total += (cost.flops.flops() if isinstance(cost.flops, Operations) else cost.flops) * call.times
    return total


# Loop context of a graph: how often it runs, in which loop or branch, and how deep.


DEEPEST = 32
"""The maximum depth of nested graphs."""

MOST_NODES = 100_000
"""The maximum number of recorded nodes, with every expansion of a graph."""

P = TypeVar("P", bound="Place")


@dataclass(frozen=True, slots=True)
class Place:
    """The loop context of a graph: how often it runs, in which loop or branch, and how deep.

    Attributes:
        times: how often it runs.
        region: the loops and branches around it, ``loop1/if``; empty if there are none.
        depth: the number of graphs around it.
    """

    times: Dim = 1
    region: str = ""
    depth: int = 0

    def inside(self: P, region: str, times: Dim = 1) -> P:
        """Return the place of a graph that a node here runs.

        Raises:
            CostError: if graphs are nested deeper than :data:`DEEPEST`.
        """
        if self.depth >= DEEPEST:
            raise CostError(f"graphs are nested more than {DEEPEST} deep")
        return replace(self, times=self.times * times, region=self.inner_region(region), depth=self.depth + 1)

    def inner_region(self, name: str) -> str:
        """Return the region of a loop or branch of that name inside this one."""
        return f"{self.region}/{name}" if self.region else name


# Dynamic dimensions of files, and inference of symbolic shapes.
#
# Sizes come from the user, from defaults, or are symbols. Rules take and return integers or symbols; frontends
# translate attributes of operators (axes, strides) into their arguments.

Shape = tuple[Dim, ...]

MOST_ELEMENTS = 1024
"""The maximum number of elements of a value that is computed from sizes."""


class OpenSizes:
    """The sizes that a file leaves open: numbers or formulas of the user, else symbols.

    Args:
        dims: sizes by the name of the symbol, ``{"x_0": 8}``; a size may be a formula, ``"16*h"``.
        defaults: fallback sizes of dimensions that the user does not set.

    Attributes:
        assumed: the names whose default was used.

    Raises:
        TypeError: if a size is neither an integer nor a formula.
        CostError: if a size is negative.
    """

    def __init__(self, dims: Mapping[str, Any] | None = None, defaults: Mapping[str, int] | None = None) -> None:
        self._given, self._defaults = dict(dims or {}), dict(defaults or {})
        self.assumed: set[str] = set()
        self._known: dict[str, Dim] = {}
        for name, size in self._given.items():
            self._from_user(size, f"the size of {name!r}")

    def _from_user(self, given: Any, where: str) -> Dim:
        try:
            size = symbol_of(given) if isinstance(given, str) and given.isidentifier() else size_from(given, symbol_of)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
        if isinstance(size, int) and size < 0:
            raise CostError(f"{where} must be 0 or more (got {size})")
        return size

    def __call__(self, name: str) -> Dim:
        """Return the size of that name; invalid characters are replaced by ``_``."""
        name = "".join(c if c.isalnum() else "_" for c in name)
        if name not in self._known:
            if name in self._given:
                self._known[name] = self._from_user(self._given[name], f"the size of {name!r}")
            elif name in self._defaults:
                self._known[name] = self._defaults[name]
                self.assumed.add(name)
            else:
                self._known[name] = symbol_of(name)
        return self._known[name]

    def bind(
        self, inputs: Sequence[tuple[str, Sequence[int | None]]], given: Any, name: Callable[[str, int], str]
    ) -> list[Shape]:
        """Return the shapes of the inputs of a file.

        Args:
            inputs: names and sizes of the inputs; None is an open size.
            given: shapes that the user gives for open sizes, in order or by name, or None.
            name: returns the name of an open size, from the name of the input and the axis.

        Raises:
            CostError: if a shape does not fit the file.
            TypeError: if one of them is not a shape.
        """
        shapes = given_shapes([label for label, _ in inputs], given)
        found: dict[int, Shape] = {}
        for position, stated in shapes.items():
            label, sizes = inputs[position]
            where = f"input {label!r}"
            bound = tuple(self._from_user(size, f"a size of {where}") for size in stated)
            if len(bound) != len(sizes) or any(a not in (None, b) for a, b in zip(sizes, bound, strict=True)):
                shown = ", ".join("?" if size is None else str(size) for size in sizes)
                raise CostError(f"{where} has the shape ({shown}) in the file (got {tuple(stated)})")
            for i, size in enumerate(sizes):
                if size is None:
                    self._known.setdefault("".join(c if c.isalnum() else "_" for c in name(label, i)), bound[i])
            found[position] = bound
        for position, (label, sizes) in enumerate(inputs):
            if position not in found:  # after the given shapes: an open size may have a name that they set
                found[position] = tuple(self(name(label, i)) if s is None else s for i, s in enumerate(sizes))
        return [found[position] for position in range(len(inputs))]

    def check(self) -> None:
        """Check that the file has every name for which the user gives a size.

        Raises:
            CostError: if it does not; the message lists the sizes that the file leaves open.
        """
        if extra := [name for name in self._given if name not in self._known]:
            if not self._known:
                raise CostError("the file leaves no dimension open: leave out dims")
            raise CostError(unknown("dimension", extra, sorted(self._known)[:20]) + did_you_mean(extra, self._known))


# Shapes of results.


def broadcast(*shapes: Sequence[Dim]) -> Shape:
    """Return the broadcast shape. Of several sizes other than 1, take the first number, else the first; no check."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = []
    for axis in zip(*padded, strict=True):
        sizes = [size for size in axis if is_symbolic(size) or size != 1]
        found.append(next((size for size in sizes if not is_symbolic(size)), sizes[0] if sizes else 1))
    return tuple(found)


def window(
    size: Dim, kernel: Dim, step: int = 1, dilation: int = 1, padding: Dim = 0, divide: Callable[..., Dim] = floor_div
) -> Dim:
    """Return the number of windows. ``padding`` is the total of both sides, ``divide`` floor or ceil division."""
    return divide(size + padding - dilation * (kernel - 1) - 1, max(step, 1)) + 1


def same_padding(size: Dim, kernel: Dim, step: int = 1, dilation: int = 1) -> Dim:
    """Return the total padding with which an axis has ``ceil(size / step)`` windows."""
    total: Dim = (ceil_div(size, max(step, 1)) - 1) * step + dilation * (kernel - 1) + 1 - size
    return maximum(total, 0)


def matmul(x: Sequence[Dim], y: Sequence[Dim], turn_x: bool = False, turn_y: bool = False) -> Shape:
    """Return the shape of a product; 1-d operands are handled as by ``torch.matmul``."""
    rows = () if len(x) == 1 else (x[-1] if turn_x else x[-2],)
    columns = () if len(y) == 1 else (y[-2] if turn_y else y[-1],)
    return (*broadcast(x[:-2], y[:-2]), *rows, *columns)


def reduced(x: Sequence[Dim], axes: Iterable[int] | None, keeps: bool) -> Shape:
    """Return the shape after a reduction over ``axes``; None means all axes."""
    over = set(range(len(x))) if axes is None else {axis % max(len(x), 1) for axis in axes}
    return tuple(1 if i in over else size for i, size in enumerate(x) if keeps or i not in over)


def reshaped(x: Sequence[Dim], wanted: Sequence[Dim], zero_copies: bool = True) -> Shape:
    """Return a wanted shape: -1 is inferred, 0 is the size of the same axis if ``zero_copies``."""
    sizes = [x[i] if zero_copies and _is(size, 0) and i < len(x) else size for i, size in enumerate(wanted)]
    unknown_axes = [i for i, size in enumerate(sizes) if _is(size, -1)]
    if len(unknown_axes) == 1:
        rest = prod(size for i, size in enumerate(sizes) if i not in unknown_axes)
        sizes[unknown_axes[0]] = _quotient(prod(x), rest)
    return tuple(sizes)


def _is(size: Dim, number: int) -> bool:
    return bool(size == number)


def _quotient(a: Dim, b: Dim) -> Dim:
    """Return a quotient, exact where symbols cancel."""
    if not is_symbolic(a) and not is_symbolic(b):
        return a // b if b else 0
    if _is(b, 0):
        return 0
    ratio = _rational(a, b) / _rational(b, a)
    return as_dim(ratio) if ratio.is_integer else floor_div(a, b)


def joined(shapes: Sequence[Sequence[Dim]], axis: int) -> Shape:
    """Return the shape of arrays joined along an axis."""
    first = shapes[0]
    axis %= max(len(first), 1)
    others = broadcast(*([*shape[:axis], 1, *shape[axis + 1 :]] for shape in shapes))
    return tuple(sum(shape[i] for shape in shapes) if i == axis else size for i, size in enumerate(others))


def expanded(x: Sequence[Dim], axes: Sequence[int]) -> Shape:
    """Return a shape with further axes of size 1, at these positions of the result."""
    shape, rank = list(x), len(x) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return tuple(shape)


def squeezed(x: Sequence[Dim], axes: Iterable[int] | None) -> Shape:
    """Return a shape without some axes; for None, without all of size 1."""
    if axes is None:
        return tuple(size for size in x if not _is(size, 1))
    gone = {axis % max(len(x), 1) for axis in axes}
    return tuple(size for i, size in enumerate(x) if i not in gone)


def gathered(x: Sequence[Dim], indices: Sequence[Dim], axis: int = 0, batch_dims: int = 0) -> Shape:
    """Return the shape of elements looked up along an axis."""
    axis %= max(len(x), 1)
    return (*x[:axis], *indices[batch_dims if batch_dims >= 0 else batch_dims + len(indices) :], *x[axis + 1 :])


LARGE = 2**31 - 1
"""A slice bound of at least this value means the end of the axis."""


def sliced(size: Dim, begin: Dim | None, end: Dim | None, step: int = 1) -> Dim:
    """Return how many elements of an axis a slice keeps, as in Python; None begins or ends with the axis."""
    step = step or 1
    if all(not is_symbolic(each) for each in (size, begin, end)):
        return len(range(*slice(begin, end, step).indices(size)))
    if step < 0:
        return _slice_down(size, begin, end, step)
    first = _position(0 if begin is None else begin, size)
    last = size if end is None or (isinstance(end, int) and end >= LARGE) else _position(end, size)
    if last is not size and not _is(last - size, 0):
        last = last if _at_most(last, size) else minimum(last, size)
    return ceil_div(last - first, step)


def _slice_down(size: Dim, begin: Dim | None, end: Dim | None, step: int) -> Dim:
    first = size - 1 if begin is None or (isinstance(begin, int) and begin >= LARGE) else _position(begin, size)
    last: Dim = -1 if end is None or (isinstance(end, int) and end <= -LARGE) else _position(end, size)
    return ceil_div(first - last, -step)


def _position(place: Dim, size: Dim) -> Dim:
    is_negative = place < 0 if isinstance(place, int) else place.is_negative
    return place + size if is_negative else place


def _at_most(a: Dim, b: Dim) -> bool:
    """Return whether the end of a slice can be assumed to lie within its axis.

    A number is assumed to be within an axis of unknown size, because the exporter saw a valid one.
    """
    return not is_symbolic(a) or (b - a).is_nonnegative is not False  # type: ignore[union-attr]


def padded(x: Sequence[Dim], before: Sequence[Dim], after: Sequence[Dim]) -> Shape:
    """Return the shape of a padded array."""
    return tuple(size + a + b for size, a, b in zip(x, before, after, strict=True))


def einsum(equation: str, shapes: Sequence[Sequence[Dim]]) -> Shape | None:
    """Return the shape of an einsum; None without an explicit ``->``, or if ranks do not match."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(shapes):
        return None
    sizes: dict[str, Dim] = {}
    outer: list[Sequence[Dim]] = []
    for term, shape in zip(terms, shapes, strict=True):
        before, dots, after = term.partition("...")
        end = len(shape) - len(after)
        if end < len(before) or (not dots and end != len(before)):
            return None
        sizes |= dict(zip(before, shape, strict=False)) | dict(zip(after, shape[end:], strict=True))
        outer.append(shape[len(before) : end])
    if not sizes.keys() >= set(right.replace("...", "")):
        return None
    before, dots, after = right.partition("...")
    return (*(sizes[name] for name in before), *(broadcast(*outer) if dots else ()), *(sizes[name] for name in after))


# Elements of small values that are computed from sizes.


def over_elements(function: Callable[..., Any], *operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """Apply a function element by element; lengths of 1 are broadcast. None if lengths differ or are too large."""
    count = max(map(len, operands), default=0)
    if count > MOST_ELEMENTS or any(len(each) not in (1, count) for each in operands):
        return None
    return tuple(function(*(each[i if len(each) > 1 else 0] for each in operands)) for i in range(count))


def as_integer(number: Any) -> Dim:
    """Truncate a number; a symbolic one is floored."""
    if is_symbolic(number):
        if number.is_integer:
            return as_dim(number)
        numerator, denominator = number.as_numer_denom()
        return floor_div(as_dim(numerator), as_dim(denominator))
    return int(number)


def times(a: Any, b: Any) -> Any:
    """Return a product, exact for a symbol and a fraction."""
    found = _rational(a, b) * _rational(b, a)
    return found.numerator if isinstance(found, Fraction) and found.denominator == 1 else found


def quotient(a: Any, b: Any, are_integers: bool) -> Any:
    """Return a quotient: of integers truncated, otherwise exact.

    Raises:
        ZeroDivisionError: if the divisor is 0.
    """
    if are_integers:
        if _is(b, 0):
            raise ZeroDivisionError
        is_negative = isinstance(a, int) and isinstance(b, int) and (a < 0) != (b < 0)
        return -_quotient(-a, b) if is_negative else _quotient(a, b)
    if not is_symbolic(a) and not is_symbolic(b):
        found = Fraction(a) / Fraction(b)
        return found.numerator if found.denominator == 1 else found
    return _rational(a, b) / _rational(b, a)


def _rational(number: Any, other: Any) -> Any:
    """Return an exact number for products and quotients with ``other``, of sympy if ``other`` is symbolic."""
    if is_symbolic(number):
        return number
    found = Fraction(number)
    if is_symbolic(other):
        from sympy import Rational

        return Rational(found.numerator, found.denominator)
    return found.numerator if found.denominator == 1 else found
