"""Shapes of matrix products, attention, recurrent layers and transforms."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.dims import Dim

from ..node import Node
from ..values.value import Shape, Undetermined, Value
from .elementwise import broadcast


def product(node: Node, a: Shape, b: Shape) -> Shape:
    """The shape of ``a @ b`` by numpy's rules.

    Raises:
        CostError: where they do not fit.
    """
    if not a or not b:
        raise node.error(f"multiplies matrices, but its inputs are {a} and {b}")
    left, right = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise node.error(f"cannot multiply {a} by {b}")
    batch = broadcast(node, left[:-2], right[:-2])
    return (*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))


def matmul(node: Node) -> Sequence[Value]:
    """Matrix products, also of integers."""
    a, b = node.value("A", "a"), node.value("B", "b")
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "MatMulInteger" else a.dtype
    return [node.result(product(node, a.known, b.known), dtype)]


def gemm(node: Node) -> Sequence[Value]:
    """A product of two matrices, either one transposed."""
    a, b = (
        value.known[::-1] if node.args.get(f"trans{name}") else value.known
        for name, value in (("A", node.value("A")), ("B", node.value("B")))
    )
    if len(a) != 2 or len(b) != 2:
        raise node.error(f"multiplies two matrices, but its inputs are {a} and {b}")
    return [node.result(product(node, a, b), node.value("A").dtype)]


def einsum(node: Node) -> Sequence[Value]:
    """Dimensions by the letters of the equation; an ellipsis stands for broadcast ones."""
    equation, values = node.args.get("equation", "").replace(" ", ""), node.values("Inputs")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise node.error(f"has {len(values)} inputs for the equation {equation!r}")
    lengths: dict[str, Dim] = {}
    spread: Shape = ()
    for term, value in zip(terms, values, strict=True):
        before, dots, after = term.partition("...")
        count = len(before) + len(after)
        if len(value.known) < count or (not dots and len(value.known) != count):
            raise node.error(f"has an input of shape {value.known} for {term!r}")
        tail = len(value.known) - len(after)
        for letter, d in (*zip(before, value.known, strict=False), *zip(after, value.known[tail:], strict=True)):
            lengths[letter] = broadcast(node, (lengths.get(letter, d),), (d,))[0]
        spread = broadcast(node, spread, value.known[len(before) : tail])
    if "->" not in equation:
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        )
    head, dots, tail_letters = right.partition("...")
    if any(letter not in lengths for letter in head + tail_letters):
        raise node.error(f"has an output letter that no input has: {equation!r}")
    shape = (*(lengths[c] for c in head), *(spread if dots else ()), *(lengths[c] for c in tail_letters))
    return [node.result(shape, values[0].dtype)]


def recurrent(node: Node) -> Sequence[Value]:
    """All steps, the last hidden state, and for LSTM the last cell state."""
    x, r = node.value("X"), node.value("R")
    directions, hidden = r.known[0], node.args.get("hidden_size") or r.known[-1]
    if len(x.known) != 3:
        raise node.error(f"needs an input of 3 dimensions, got {x.known}")
    if node.args.get("layout"):
        batch, steps = x.known[:2]
        last = node.result((batch, directions, hidden), x.dtype)
        return [node.result((batch, steps, directions, hidden), x.dtype), last, node.result(last.known, x.dtype)]
    steps, batch = x.known[:2]
    last = node.result((directions, batch, hidden), x.dtype)
    return [node.result((steps, directions, batch, hidden), x.dtype), last, node.result(last.known, x.dtype)]


def attention(node: Node) -> Sequence[Value]:
    """The output like the query, with the value's features; keys and values with the past before them; the scores."""
    q, k, v, past = node.value("Q"), node.value("K"), node.value("V"), node.get("past_key")
    if len(q.known) == 3:
        heads, kv_heads = node.args.get("q_num_heads"), node.args.get("kv_num_heads")
        if not heads or not kv_heads:
            raise node.error("has inputs of 3 dimensions, and no q_num_heads and kv_num_heads")
        (b, tq, _), (_, tk, ek), (_, _, ev) = q.known, k.known, v.known
        shape: Shape = (b, tq, ev // kv_heads * heads)
        dk, dv = ek // kv_heads, ev // kv_heads
    else:
        (b, heads, tq, _), (_, kv_heads, tk, dk), dv = q.known, k.known, v.known[-1]
        shape = (b, heads, tq, dv)
    total = tk + (past.known[2] if past is not None else 0)
    return [
        node.result(shape, q.dtype),
        node.result((b, kv_heads, total, dk), k.dtype),
        node.result((b, kv_heads, total, dv), v.dtype),
        node.result((b, heads, tq, total), q.dtype),
    ]


def fourier(node: Node) -> Sequence[Value]:
    """The discrete Fourier transform: real and imaginary parts last, half of the bins where one side is real."""
    x, length = node.value("input"), node.number("dft_length")
    axis = node.axis(len(x.known), "axis") if node.get("axis") is not None else len(x.known) - 2
    if axis is None:
        raise Undetermined
    if axis == len(x.known) - 1:
        raise node.error(f"transforms axis {axis}, which holds the real and imaginary parts of {x.known}")
    one_sided, inverse = node.args.get("onesided"), node.args.get("inverse")
    if length is None:
        length = 2 * (x.known[axis] - 1) if one_sided and inverse else x.known[axis]
    shape = [*x.known[:-1], 1 if one_sided and inverse else 2]
    shape[axis] = length // 2 + 1 if one_sided and not inverse else length
    return [node.result(shape, x.dtype)]


def short_fourier(node: Node) -> Sequence[Value]:
    """Transforms of windows along a signal; one side of the bins unless the attribute says otherwise."""
    x, window = node.value("signal"), node.get("window")
    frames: Dim | None = None
    bins: Dim | None = None
    try:
        length = window.known[0] if window is not None else node.number("frame_length")
        if length is None:
            length = x.known[1]  # where nothing says it, a frame is the whole signal
        bins = length // 2 + 1 if node.args.get("onesided", 1) else length
        frames = (x.known[1] - length) // node.number("frame_step") + 1
    except Undetermined:
        pass  # how many there are follows from data
    return [node.result((x.known[0], frames, bins, 2), x.dtype)]


RULES = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), matmul),
    "Gemm": gemm,
    "Einsum": einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "Attention": attention,
    "DFT": fourier,
    "STFT": short_fourier,
}
