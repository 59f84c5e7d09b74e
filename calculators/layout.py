"""Operators that view, order, copy or create elements without computing on them."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, covers, layout_operator, maximum, minimum, pattern, prod

ZERO_COST: Mapping[str, str] = {
    "reshape": "x in another shape",
    "view": "the same memory with another shape or strides; never copied",
    "identity": "x",
    "constant": "a value that is given before the run",
    "shape": "the sizes of x along its axes",
    "size": "the number of elements of x",
    "empty": "uninitialized memory",
}


@pattern("free", constant="make", shape="make", size="make", empty="make")
@covers(ZERO_COST)
def calc_zero_cost(layer: Layer) -> Cost:
    """Zero-cost operators: nothing is computed, and no element is read or written.

    If the framework implements a reshape by copying, the copy is a separate ``copy``.

    Shapes: x[N, C] -> y[N*C]
    """
    return Cost(Operations(), 0, 0, layer.attrs)


COPIES: Mapping[str, str] = {
    "transpose": "axes permuted",
    "broadcast_to": "x repeated along axes of size 1 and along new axes",
    "copy": "x in separate memory",
    "flip": "axes reversed",
    "roll": "elements shifted cyclically along an axis",
    "rot90": "a plane rotated by multiples of 90 degrees",
    "pixel_shuffle": "channels rearranged into space, as depth_to_space",
    "depth_to_space": "channels rearranged into space",
    "space_to_depth": "blocks of space rearranged into channels, as pixel_unshuffle",
    "channel_shuffle": "channels of groups interleaved",
    "reverse_sequence": "the first elements of each row reversed",
}


@pattern("move")
@layout_operator
@covers(COPIES)
def calc_copy(layer: Layer) -> Cost:
    """Copies of the whole input: every element of x is read once, every element of y written once.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), layer["x"].nbytes, layer.written, layer.attrs)


SLICES: Mapping[str, str] = {
    "slice": "ranges along axes",
    "select": "one index along an axis",
    "split": "consecutive ranges along an axis, one per output",
    "unbind": "every index along an axis, one per output",
    "diagonal": "the elements with equal indices along two axes",
}


@pattern("move")
@layout_operator
@covers(SLICES)
def calc_slice_copy(layer: Layer) -> Cost:
    """Copies of a part of the input: the number of elements read is the number written.

    Shapes: x[N, C] -> y[M, C]
    """
    elements = sum(y.size for y in layer.outputs)
    return Cost(Operations(), layer["x"].bytes_of_part(elements), layer.written, layer.attrs)


OVERLAPPING: Mapping[str, str] = {
    "as_strided": "elements at given strides in memory",
    "unfold": "overlapping ranges along an axis",
}


@pattern("move")
@layout_operator
@covers(OVERLAPPING)
def calc_overlapping_copy(layer: Layer) -> Cost:
    """Copies of overlapping parts of the input: each element is read at most once, and no more than are written.

    Shapes: x[N] -> y[M, K]
    """
    x = layer["x"]
    return Cost(Operations(), x.bytes_of_part(minimum(layer.out.size, x.size)), layer.written, layer.attrs)


@pattern("opaque")
@layout_operator
def calc_assign(layer: Layer) -> Cost:
    """Updates written over a part of x in place; the other elements are neither read nor written.

    Shapes: x[N, C], updates[M, C] -> y[N, C]
    """
    updates = layer["updates"]
    return Cost(Operations(), updates.nbytes, layer.out.bytes_of(updates.size), layer.attrs)


DATA_MOVEMENTS: Mapping[str, str] = {
    "concat": "operands concatenated along an axis",
    "stack": "operands concatenated along a new axis",
    "pad_sequence": "sequences padded to one length and stacked",
    "block_diag": "operands along a diagonal, zeros elsewhere",
    "meshgrid": "operands repeated along the axes of all others",
    "broadcast_arrays": "operands repeated to one shape",
    "transpose_sequence": "a list of sequences as a list of steps",
    "tile": "x repeated along its axes",
    "repeat": "each element repeated",
    "diag_embed": "x on the diagonal of a matrix, zeros elsewhere",
    "cast": "x in another dtype",
    "bitcast": "the bits of x in another dtype",
    "complex": "complex numbers from real and imaginary parts",
    "one_hot": "one at the index, zero elsewhere",
    "shift": "channels shifted in space, each in its own direction",
}


@pattern("move", broadcast_arrays="map", cast="map", bitcast="map", complex="map", one_hot="map")
@covers(DATA_MOVEMENTS)
def calc_data_movement(layer: Layer) -> Cost:
    """Joined, repeated, padded or converted elements: no operations.

    Operands are read once, y is written once. The elements that fill a border or a repetition are read once, as part of
    x.

    Shapes: x[N, C] -> y[M, C]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("move")
def calc_pad(layer: Layer) -> Cost:
    """X with a border: constant, reflected, replicated or wrapped; a negative width crops.

    Elements that fill a border are read once, as part of x. Cropped elements are not read: no more elements are read
    than written.

    Shapes: x[N, C] -> y[M, C]
    """
    x, kept = layer["x"], layer["x"].size
    if "padding" in layer.attrs:
        kept = prod(minimum(size, padded) for size, padded in zip(x.shape, layer.out.shape, strict=True))
    return Cost(Operations(), x.bytes_of_part(kept) + layer.read - x.nbytes, layer.written, layer.attrs)


TRIANGLES: Mapping[str, str] = {
    "triu": "the upper triangle, zeros elsewhere",
    "tril": "the lower triangle, zeros elsewhere",
}


def _triangular_number(n: Dim) -> Dim:
    # 1 + 2 + … + n, 0 for a negative n.
    n = maximum(n, 0)
    return n * (n + 1) // 2


def _below(rows: Dim, columns: Dim, diagonal: Dim) -> Dim:
    # Row i has i + 1 + diagonal elements on and below the diagonal, at least 0 and at most ``columns``; diagonals are
    # counted from the main one to the right.
    unbounded = _triangular_number(rows + diagonal) - _triangular_number(diagonal)
    surplus = _triangular_number(rows + diagonal - columns) - _triangular_number(diagonal - columns)
    return unbounded - surplus


@pattern("map")
@covers(TRIANGLES)
def calc_triangle(layer: Layer) -> Cost:
    """A triangle of each matrix, zeros elsewhere: its elements are read, y is written completely.

    The attribute ``diagonal`` (default: 0) is the last or first diagonal that is kept, to the right of the main one;
    "data" if it is not a constant, and x is read completely. n (n + 1) / 2 elements of a square matrix are read.

    Shapes: x[N, N] -> y[N, N]
    """
    x, diagonal = layer["x"], layer.attrs.get("diagonal", 0)
    if diagonal == "data":
        return Cost(Operations(), layer.read, layer.written, layer.attrs)
    *batch, rows, columns = x.shape
    below = _below(rows, columns, diagonal if layer.op == "tril" else diagonal - 1)
    elements = prod(batch) * (below if layer.op == "tril" else rows * columns - below)
    return Cost(Operations(), x.bytes_of_part(elements), layer.written, layer.attrs)


CROPS: Mapping[str, str] = {
    "center_crop_pad": "the center of x, padded if x is too small",
    "im2col": "patches of x as columns",
}


@pattern("move")
@covers(CROPS)
def calc_crop(layer: Layer) -> Cost:
    """Copies that omit elements: each element is read at most once, and no more than are written.

    Shapes: x[N, C, H, W] -> y[N, K*C, L]
    """
    x = layer["x"]
    return Cost(Operations(), x.bytes_of_part(minimum(layer.out.size, x.size)), layer.written, layer.attrs)


@pattern("window")
def calc_col2im(layer: Layer) -> Cost:
    """Columns added back as overlapping patches: one add per input element, to an output of zeros.

    Shapes: x[N, K*C, L] -> y[N, C, H, W]
    """
    return Cost(Operations(add=layer["x"].size), layer.read, layer.written, layer.attrs)


CREATED: Mapping[str, str] = {
    "full": "one value everywhere",
    "arange": "equally spaced values from a start by a step",
    "linspace": "equally spaced values between two ends",
    "eye": "ones on a diagonal, zeros elsewhere",
    "triangle_indices": "the indices of a triangle",
}


@pattern("make")
@covers(CREATED)
def calc_creation(layer: Layer) -> Cost:
    """New tensors: no operations; only the output is written.

    An operand that only provides the shape is not read; scalar operands (bounds, steps) are read.

    Shapes: -> y[N, C]
    """
    scalars = sum(operand.nbytes for operand in layer.inputs.values() if not operand.shape)
    return Cost(Operations(), scalars, layer.written, layer.attrs)


@pattern("window")
def calc_repeat_backward(layer: Layer) -> Cost:
    """Gradient of repeat: the sum of dy over the copies of each element.

    Shapes: dy[N, C, K] -> dx[N, C]
    """
    dy = layer["dy"]
    return Cost(Operations(add=dy.size - layer.out.size), dy.nbytes, layer.written, layer.attrs)
