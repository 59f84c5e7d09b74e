"""The definitions of operators as plain loops that yield one item per multiply-accumulate.

An item is a triple of indices: an element of the output, and the elements of the two operands whose product it
accumulates. To test a definition, its triples are executed on numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

__all__ = ["Triple", "attention", "conv", "conv_transpose", "each", "einsum", "gates", "linear", "recurrent", "window"]

Index = tuple[int, ...]
Triple = tuple["Index | None", "Index | None", "Index | None"]
"""Indices in output, first and second operand; None for an index outside, in padding or cropped."""


def each(*sizes: int) -> Iterator[Index]:
    """Yield every index of an array of these sizes."""
    return product(*(range(size) for size in sizes))


def einsum(equation: str, sizes: Mapping[str, int]) -> Iterator[Triple]:
    """Yield the multiply-accumulates of a contraction of two operands, such as ``ij,jk->ik``."""
    operands, output = equation.split("->")
    first, second = operands.split(",")
    letters = sorted(set(first + second))
    for index in each(*(sizes[letter] for letter in letters)):
        at = dict(zip(letters, index, strict=True))
        yield tuple(at[c] for c in output), tuple(at[c] for c in first), tuple(at[c] for c in second)


def linear(rows: int, inputs: int, outputs: int) -> Iterator[Triple]:
    """Yield the multiply-accumulates of ``x @ w.T``: x has ``inputs`` columns, w is (outputs, inputs)."""
    return einsum("ri,oi->ro", {"r": rows, "i": inputs, "o": outputs})


def window(sizes: Sequence[int], kernel: Sequence[int], stride: int = 1, padding: int = 0, dilation: int = 1) -> Index:
    """Return the sizes of the output of a convolution or pool."""
    reach = [dilation * (k - 1) for k in kernel]
    return tuple((n + 2 * padding - r - 1) // stride + 1 for n, r in zip(sizes, reach, strict=True))


def conv(
    batch: int,
    inputs: int,
    outputs: int,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Iterator[Triple]:
    """Yield the multiply-accumulates of a convolution: the weight is (outputs, inputs // groups, kernel)."""
    each_in, each_out = inputs // groups, outputs // groups
    for n, o in each(batch, outputs):
        for place in each(*window(sizes, kernel, stride, padding, dilation)):
            for i, tap in product(range(each_in), each(*kernel)):
                at = tuple(p * stride - padding + t * dilation for p, t in zip(place, tap, strict=True))
                inside = all(0 <= a < size for a, size in zip(at, sizes, strict=True))
                channel = (o // each_out) * each_in + i
                yield (n, o, *place), (n, channel, *at) if inside else None, (o, i, *tap)


def conv_transpose(
    batch: int,
    inputs: int,
    outputs: int,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Iterator[Triple]:
    """Yield the multiply-accumulates of a transposed convolution: every input adds its taps to the output.

    The weight is (inputs, outputs // groups, kernel).
    """
    each_in, each_out = inputs // groups, outputs // groups
    ends = [
        (n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1
        for n, k in zip(sizes, kernel, strict=True)
    ]
    for n, i in each(batch, inputs):
        for place in each(*sizes):
            for o, tap in product(range(each_out), each(*kernel)):
                at = tuple(p * stride - padding + t * dilation for p, t in zip(place, tap, strict=True))
                inside = all(0 <= a < end for a, end in zip(at, ends, strict=True))
                channel = (i // each_in) * each_out + o
                yield (n, channel, *at) if inside else None, (n, i, *place), (i, o, *tap)


def attention(
    batch: int, heads: int, queries: int, keys: int, size: int, values: int | None = None
) -> Iterator[Triple]:
    """Yield the multiply-accumulates of attention: every query with every key, then every score with every value.

    Masked pairs count, as a dense kernel computes them.
    """
    sizes = {"b": batch, "h": heads, "q": queries, "k": keys, "d": size, "v": values or size}
    yield from einsum("bhqd,bhkd->bhqk", sizes)
    yield from einsum("bhqk,bhkv->bhqv", sizes)


def gates(rows: int, count: int, inputs: int, hidden: int, recurrent_inputs: int | None = None) -> Iterator[Triple]:
    """Yield the multiply-accumulates of ``count`` gates for ``rows`` rows: of the input, and of the state before."""
    yield from linear(rows, inputs, count * hidden)
    yield from linear(rows, recurrent_inputs or hidden, count * hidden)


def recurrent(
    steps: int,
    batch: int,
    count: int,
    inputs: int,
    hidden: int,
    layers: int = 1,
    directions: int = 1,
    projected: int = 0,
) -> Iterator[Triple]:
    """Yield the multiply-accumulates of an RNN (1 gate), GRU (3) or LSTM (4), step by step."""
    state = projected or hidden
    for layer in range(layers):
        for _direction, _step in each(directions, steps):
            yield from gates(batch, count, directions * state if layer else inputs, hidden, state)
            if projected:
                yield from linear(batch, hidden, projected)
