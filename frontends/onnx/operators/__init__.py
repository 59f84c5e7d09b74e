"""Helpers of operator modules: windows, sources of operands and attributes, common shape rules, and checks.

A source is a function that computes an operand or attribute of a row from the arguments of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

from costcore.errors import short_repr
from costcore.numbers import Dim, ceil_div, floor_div, maximum, minimum
from costcore.translate import Arguments

from ..node import NODE, Node, Rule
from ..values import UNARY, Shape, Undetermined, Value, each

# Windows of convolutions and poolings.


class Windows(NamedTuple):
    """Attributes of windows along the spatial axes, and the sizes of the output."""

    kernel: tuple[Dim, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    out: tuple[Dim, ...]

    @property
    def padding(self) -> tuple[Dim, ...] | tuple[tuple[Dim, Dim], ...]:
        """One number for each axis if both ends are padded equally, else a pair for each axis."""
        return self.before if self.before == self.after else tuple(zip(self.before, self.after, strict=True))


def window_attributes(
    node: Node, kernel: Sequence[Dim], rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return strides, dilations and pads (all at the start, then all at the end).

    Raises:
        CostError: if an attribute has too few or too many numbers, or too small a number.
    """

    def read(name: str, count: int, default: int, least: int | None) -> tuple[int, ...]:
        given: tuple[int, ...] = tuple(node.args.get(name) or ()) or (default,) * count
        if len(given) != count:
            raise node.error(f"has {len(given)} {name} for {rank} spatial dimensions")
        if least is not None and min(given) < least:
            raise node.error(f"has {name} {given} (expected {least} or more)")
        return given

    if len(kernel) != rank or any(isinstance(k, int) and k < 1 for k in kernel):
        raise node.error(f"has the kernel {tuple(kernel)} for {rank} spatial dimensions")
    automatic = node.args.get("auto_pad", "NOTSET") not in ("NOTSET", "")
    pads = (0,) * (2 * rank) if automatic else read("pads", 2 * rank, 0, None)
    return read("strides", rank, 1, 1), read("dilations", rank, 1, 1), pads


def windows(node: Node, space: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """Return the windows of a convolution or pooling over ``space``.

    Raises:
        CostError: if a window is larger than the padded input, or an attribute is invalid.
    """
    rank = len(space)
    stride, dilation, pads = window_attributes(node, kernel, rank)
    before, after, out = list[Dim](pads[:rank]), list[Dim](pads[rank:]), list[Dim]()
    mode = node.args.get("auto_pad", "NOTSET")
    for i, (length, k, s, d) in enumerate(zip(space, kernel, stride, dilation, strict=True)):
        reach = d * (k - 1) + 1
        if mode.startswith("SAME"):
            out.append(ceil_div(length, s))
            total = maximum((out[i] - 1) * s + reach - length, 0)
            before[i] = total // 2 if mode == "SAME_UPPER" else total - total // 2
            after[i] = total - before[i]
            continue
        if node.args.get("ceil_mode"):  # no window starts beyond the input
            count = ceil_div(length + before[i] + minimum(after[i] + s - reach, 0), s)
        else:
            count = floor_div(length + before[i] + after[i] - reach, s) + 1
        if isinstance(count, int) and count < 1 and length != 0:
            raise node.error(f"has the kernel {tuple(kernel)}, larger than its padded input of shape {tuple(space)}")
        out.append(maximum(count, 0) if isinstance(count, int) else count)
    return Windows(tuple(kernel), stride, dilation, tuple(before), tuple(after), tuple(out))


def transposed_windows(node: Node, space: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """Return the windows of a transposed convolution, which are windows over its output.

    Raises:
        CostError: if an attribute is invalid.
    """
    rank = len(space)
    stride, dilation, pads = window_attributes(node, kernel, rank)
    extra = tuple(node.args.get("output_padding") or ()) or (0,) * rank
    wanted = tuple(node.args.get("output_shape") or ())[-rank:]
    mode = node.args.get("auto_pad", "NOTSET")
    before, after, out = list[Dim](pads[:rank]), list[Dim](pads[rank:]), list[Dim]()
    for i, (length, k, s, d) in enumerate(zip(space, kernel, stride, dilation, strict=True)):
        full = s * (length - 1) + extra[i] + d * (k - 1) + 1
        if wanted or mode.startswith("SAME"):
            out.append(wanted[i] if wanted else length * s)
            total = maximum(full - out[i], 0)
            after[i] = total // 2 if mode != "SAME_UPPER" else total - total // 2
            before[i] = total - after[i]
        else:
            out.append(full - before[i] - after[i])
        if isinstance(out[i], int) and out[i] < 1 and length != 0:
            raise node.error(f"has an output of size {out[i]} along spatial axis {i}")
    return Windows(tuple(kernel), stride, dilation, tuple(before), tuple(after), tuple(out))


def kernel_of(node: Node) -> tuple[Dim, ...]:
    """Return the kernel of a pooling.

    Raises:
        CostError: if it is missing.
    """
    kernel = node.args.get("kernel_shape")
    if not kernel:
        raise node.error("lacks the attribute 'kernel_shape'")
    return tuple(kernel)


def kernel_of_weight(node: Node, weight: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the kernel of a convolution with a weight of this shape.

    Raises:
        CostError: if the attribute ``kernel_shape`` differs from it.
    """
    kernel, declared = tuple(weight[2:]), tuple(node.args.get("kernel_shape") or ())
    if declared and declared != kernel and all(isinstance(k, int) for k in kernel):
        raise node.error(f"has the kernel_shape {declared}, but a weight of shape {tuple(weight)}")
    return declared or kernel


def spatial_dims(node: Node, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the spatial dimensions of ``[N, C, ...]``.

    Raises:
        CostError: if there are none.
    """
    if len(shape) < 3:
        raise node.error(f"needs an input of 3 or more dimensions (got the shape {tuple(shape)})")
    return tuple(shape[2:])


Computed = Callable[[Arguments], Any]
"""A source that computes an operand or attribute from all arguments."""

F = TypeVar("F")


def node_of(a: Arguments) -> Node:
    """Return the node of these arguments."""
    found: Node = a[NODE]
    return found


def determined(read: Callable[[Node], Any]) -> Computed:
    """Return a source that calls ``read`` on the node, and returns None if the value depends on data."""

    def source(a: Arguments) -> Any:
        try:
            return read(node_of(a))
        except Undetermined:
            return None

    return source


def first_given(*names: str) -> Computed:
    """Return a source for the first argument of these names that is given."""
    return lambda a: node_of(a).get(*names)


def operands(*names: str) -> Computed:
    """Return a source for the inputs of these names that are given, as one list."""
    return lambda a: [a[name] for name in names if isinstance(a.get(name), Value)]


def fact(kind: type[F], read: Callable[[F], Any]) -> Computed:
    """Return a source that reads a fact of the shape rule."""

    def source(a: Arguments) -> Any:
        found = a[NODE].inferred.facts  # Node.facts would cost two more calls per fact
        if not isinstance(found, kind):
            raise Undetermined
        return read(found)

    return source


def optional_fact(kind: type[F], read: Callable[[F], Any]) -> Computed:
    """Return a source that reads a fact of the shape rule; it returns None if the rule failed on unknown data."""

    def source(a: Arguments) -> Any:
        found = a[NODE].inferred.facts
        return read(found) if isinstance(found, kind) else None

    return source


def number(name: str) -> Computed:
    """Return a source for a number that is an attribute or a constant input."""
    return determined(lambda n: n.number(name))


def numbers(name: str) -> Computed:
    """Return a source for numbers that are an attribute or a constant input."""
    return determined(lambda n: n.numbers(name))


def axis_of(operand: str, name: str = "axis", default: int = 0) -> Computed:
    """Return a source for an axis of ``operand``, counted from the front."""

    def read(n: Node) -> int:
        found = n.axis(len(n.value(operand).known_shape), name)
        return default if found is None else found

    return determined(read)


def flag(name: str) -> Computed:
    """Return a source for an attribute of 0 or 1, as a bool."""
    return lambda a: bool(a.get(name))


def true_or_none(name: str) -> Computed:
    """Return a source for an attribute of 0 or 1: True or None."""
    return lambda a: True if a.get(name) else None


def first_outputs(count: int) -> Callable[[Arguments, Any], Any]:
    """Return a function that selects the first ``count`` outputs."""
    return lambda a, values: values[:count]


SPATIAL: Mapping[str, Any] = {
    "kernel": fact(Windows, lambda windows: windows.kernel),
    "stride": fact(Windows, lambda windows: windows.stride),
    "padding": fact(Windows, lambda windows: windows.padding),
    "dilation": fact(Windows, lambda windows: windows.dilation),
}


def axes_from(operand: str, default: int) -> Any:
    """Return a source for the axes from ``axis`` to the last; a negative default counts from the end."""

    def read(a: Arguments) -> tuple[int, ...]:
        rank = len(node_of(a).value(operand).known_shape)
        start = axis_of(operand, default=default)(a)
        return tuple(range(start + rank if start < 0 else start, rank))

    return read


INPUT = first_given("X", "input", "data", "x")
"""The first input, by its name in any schema."""


def nonzero(name: str) -> Any:
    """Return a source for an attribute; None if it is 0."""
    return lambda a: a.get(name) or None


X = {"x": first_given("X", "input", "data")}
"""Operands of an operator with one data input."""


# Common shape rules, and checks.


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """Return the shape that all ``shapes`` broadcast to.

    Raises:
        CostError: if they do not.
    """

    def pair(a: Dim, b: Dim) -> Dim:
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        if isinstance(a, int) and isinstance(b, int):
            raise node.error(f"cannot broadcast its inputs {' and '.join(map(str, shapes))}")
        if isinstance(a, int) or isinstance(b, int):
            return a if isinstance(a, int) else b  # the symbol equals this number or 1
        for size in (a, b):
            if _exceeds_one(size):
                return size  # the other one equals it or 1
        return maximum(a, b)

    def both(a: Shape, b: Shape) -> Shape:
        rank = max(len(a), len(b))
        return tuple(map(pair, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))

    return reduce(both, shapes)


def common_shape(a: Shape, b: Shape) -> Shape | None:
    """Return the common shape of two inputs, with numbers instead of symbols; None if they differ.

    A symbol may equal any size.
    """
    if len(a) != len(b) or any(isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a, b, strict=True)):
        return None
    return tuple(q if isinstance(q, int) else p for p, q in zip(a, b, strict=True))


def _exceeds_one(size: Any) -> bool:
    # Only for a sum of products of sizes, such as ``past + 1``: sizes are at least 1.
    terms: Mapping[Any, Any] = size.as_coefficients_dict()
    if any(not (term.is_integer and term.is_positive and factor.is_positive) for term, factor in terms.items()):
        return False
    return bool(sum(terms.values()) > 1)  # each term is 1 or more


def present_inputs(node: Node) -> list[Value]:
    """Return the inputs that are not omitted.

    Raises:
        CostError: if there are none.
    """
    values = [value for value in node.inputs if value is not None]
    if not values:
        raise node.error("has no inputs")
    return values


def same_shape(node: Node) -> Sequence[Value]:
    """Infer an output like the first input."""
    x = present_inputs(node)[0]
    function = UNARY.get(node.op)
    return [node.result(x.known_shape, x.dtype, each(lambda a, *_: function(a)) if function else None)]


def same_shape_in(dtype: str) -> Rule:
    """Return a rule for an output with the shape of the first input, in this dtype."""
    return lambda node: [node.result(present_inputs(node)[0].known_shape, dtype)]


def positive(node: Node, name: str) -> int:
    """Return a positive integer attribute.

    Raises:
        CostError: if it is missing or not a positive integer.
    """
    number = node.args.get(name)
    if number is None:
        raise node.error(f"lacks the required attribute {name!r}")
    if not isinstance(number, int) or number < 1:
        raise node.error(f"needs a positive integer {name} (got {short_repr(number)})")
    return number


def check_ranks(node: Node, **ranks: int) -> None:
    """Check the ranks of the named inputs.

    Raises:
        CostError: if one is omitted or has another rank.
    """
    for name, rank in ranks.items():
        shape = node.value(name).known_shape
        if len(shape) != rank:
            raise node.error(f"needs {name} of {rank} dimensions (got the shape {shape})")


def broadcast_of(first: str, second: str) -> Rule:
    """Return a rule for the broadcast of two inputs, in the dtype of the first."""
    return lambda node: [
        node.result(
            broadcast(node, node.value(first).known_shape, node.value(second).known_shape), node.value(first).dtype
        )
    ]


def like(*names: str, dtype: str = "") -> Rule:
    """Return a rule for one output like each of these inputs; the first input replaces omitted ones.

    ``dtype``: dtype of the outputs; default: the dtypes of the inputs.
    """

    def rule(node: Node) -> list[Value]:
        first = node.value(names[0])
        values = [node.get(name) or first for name in names]
        return [node.result(value.known_shape, dtype or value.dtype) for value in values]

    return rule
