"""Linear layers and matrix products, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from costcore.ir import (
    Arrangement,
    Cost,
    Dim,
    Layer,
    Operations,
    Pattern,
    Tensor,
    covers,
    maximum,
    minimum,
    pattern,
    prod,
)

from ._shared import (
    axes_in_memory,
    dot_products,
    gradient_input_bytes,
    gradient_product_count,
    index_bytes,
    input_bytes,
    needed_gradients,
    operations_of,
    products_of_pairs,
)
from .indexing import UPDATES

# Linear layers and matrix products.


def scaling_products(layer: Layer) -> Operations:
    """Return the products with ``alpha`` (matrix product) and ``beta`` (addend), if these are not 1."""
    alpha = layer.out.size if layer.attrs.get("alpha", 1) != 1 else 0
    beta = layer["b"].size if "b" in layer and layer.attrs.get("beta", 1) != 1 else 0
    return Operations(mul=alpha + beta)


def batched_layout(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement:
    """Return the layout of a batched product: the batch is one axis in memory, and not the innermost one.

    An operand with another layout is copied, for example with heads between positions and channels. A linear layer with
    an input that is not contiguous is such a product, and PyTorch adds its bias afterwards.
    """
    operands = ("x",) if "x" in layer else ("x0", "x1")
    copied = [name for name in operands if not _is_batch(layer[name], orders.get(name))]
    memory = axes_in_memory(layer["x"], orders.get("x")) if "x" in layer else []
    adds_bias = "b" in layer and layer.out.ndim > 2 and memory != sorted(memory)
    return Arrangement(copied, tuple(range(layer.out.ndim)), adds_bias)


def _is_batch(operand: Tensor, order: Sequence[int] | None) -> bool:
    memory = axes_in_memory(operand, order)
    batch = [axis for axis in memory if axis < operand.ndim - 2]
    start = memory.index(batch[0]) if batch else 0
    return batch == sorted(batch) and memory[start : start + len(batch)] == batch and memory[-1:] != batch[-1:]


@pattern("product", layout=batched_layout)
def calc_linear(layer: Layer) -> Cost:
    """Fully connected layer: every output is one dot product over the input features, plus the bias.

    The attributes ``alpha`` and ``beta``, as in ONNX's Gemm, multiply the product and the bias: one mul per element if
    they are not 1.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out]
    """
    macs = layer.out.size * layer["x"].shape[-1]
    operations = dot_products(layer.out.size, macs, "b" in layer) + scaling_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product", layout=batched_layout)
def calc_matmul(layer: Layer) -> Cost:
    """Matrix product, batched and broadcast like numpy.matmul: one dot product of length K per output.

    * Operand ``b``: the products are added to it, as in addmm and baddbmm.
    * ``alpha`` and ``beta`` multiply product and addend: one mul per element if they are not 1.
    * ``transpose_x0``: the first operand is stored as [..., K, M].
    * ``transpose_x1``: the second operand is stored as [..., N, K].
    * ``pairs``, which ``attention="computed"`` adds: the number of scores that masks allow. Only their products count.
      ``scores`` names the operand with the scores, or "y" for the output.

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    """
    x0 = layer["x0"]
    products = layer.out.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    count, macs = products_of_pairs(layer, layer.out.size, products)
    operations = dot_products(count, macs, "b" in layer) + scaling_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_dropconnect_linear(layer: Layer) -> Cost:
    """Fully connected layer with random dropout of weights in training, per row or for all rows.

    Per element of the mask 1 cmp and 1 mul, as in ``dropout``; then ``linear``. The mask is read if it is an operand;
    otherwise it is drawn, and written as an output.

    Source: Wan et al., "Regularization of Neural Networks using DropConnect", ICML 2013.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out], mask[N, F_out, F_in]
    """
    mask = layer["mask"] if "mask" in layer else layer.outputs[1]
    macs = layer.out.size * layer["w"].shape[1]
    operations = Operations(mul=mask.size, cmp=mask.size) + dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


# Bilinear layers: products of two activations through a weight.


@pattern("product")
def calc_biaffine(layer: Layer) -> Cost:
    """Bilinear layer with linear terms, y_o = x0^T W_o x1 + x0^T u_o + x1^T v_o + b_o.

    ``w0`` is W, ``w1`` is u and ``w2`` is v. The bilinear part is counted as in ``bilinear``. One sum adds its last
    products and the products of both linear terms to the bias. MACs: |y| (F_1 (F_0 + 1) + F_0 + F_1).

    Source: Dozat and Manning, "Deep Biaffine Attention for Neural Dependency Parsing", arXiv:1611.01734.

    Shapes: x0[N, F_0], x1[N, F_1], w0[F_out, F_0, F_1], w1[F_0, F_out], w2[F_1, F_out], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w0"].shape[1:]
    y = layer.out.size
    vector, last = y * second, y * (first + 2 * second)
    operations = dot_products(vector, vector * first) + dot_products(y, last, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * first + last)


@pattern("product")
def calc_bilinear(layer: Layer) -> Cost:
    """Bilinear layer, y_o = x0^T W_o x1 + b_o for every output feature o, evaluated from left to right.

    * x0^T W_o is a vector of F_1 dot products of length F_0.
    * Its dot product with x1, of length F_1, is added to the bias.

    MACs: |y| F_1 (F_0 + 1).

    Shapes: x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1], b[F_out] -> y[N, F_out]
    """
    first, second = layer["w"].shape[1:]
    vector, y = layer.out.size * second, layer.out.size
    operations = dot_products(vector, vector * first) + dot_products(y, vector, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, vector * (first + 1))


# Einstein summation.


def einsum_pattern(layer: Layer) -> Pattern:
    """Return ``product`` if operands are contracted, ``map`` for outer and elementwise products.

    Of one operand it is ``reduce`` for a sum, ``move`` for a transpose or a diagonal.
    """
    tensors = [tensor for name, tensor in layer.inputs.items() if name != "b"]
    terms, result = einsum_labels(layer.attrs["equation"], [tensor.ndim for tensor in tensors])
    is_sum = bool(set(chain(*terms)) - set(result))
    if len(tensors) == 1:
        return "reduce" if is_sum else "move"
    return "product" if is_sum else "map"


def einsum_layout(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement:
    """Return the operands that a batched matrix product copies first, and the order of the output in memory.

    The product needs three groups of indices per operand: indices of both operands and the output, indices of this
    operand alone, and summed indices. An operand is copied if a group is not one axis in memory: its indices are apart,
    or in another order.
    """
    names = [name for name in layer.inputs if name != "b"]
    terms, result = einsum_labels(layer.attrs["equation"], [layer[name].ndim for name in names])
    if len(names) != 2:
        return Arrangement([], tuple(range(len(result))))
    both = set(terms[0]) & set(terms[1])
    batch = [label for label in result if label in both]
    summed = [label for label in terms[0] if label in both and label not in result]
    own = [[label for label in result if label in term and label not in both] for term in terms]
    copied = []
    for name, term, alone in zip(names, terms, own, strict=True):
        order = orders.get(name, range(len(term)))
        memory = [term[axis] for axis in order if layer[name].shape[axis] != 1]
        if memory and not (memory[-1] not in batch and all(_is_run(memory, group) for group in (batch, alone, summed))):
            copied.append(name)
    return Arrangement(copied, tuple(result.index(label) for label in (*batch, *own[0], *own[1])))


def _is_run(memory: Sequence[str], group: Sequence[str]) -> bool:
    there = [label for label in group if label in memory]
    start = memory.index(there[0]) if there else 0
    return list(memory[start : start + len(there)]) == there


def einsum_labels(equation: str, ranks: list[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the index of every axis, for each operand and for the output.

    The axes of an ellipsis are ``.0``, ``.1`` and so on, counted from the last.

    Raises:
        ValueError: if the equation does not fit operands of these ``ranks``.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    written = left.split(",")
    if len(written) != len(ranks):
        raise ValueError(f"the equation {equation!r} has {len(written)} operands, the layer {len(ranks)}")
    terms, hidden = [], 0
    for term, rank in zip(written, ranks, strict=True):
        before, ellipsis, after = term.partition("...")
        inside = rank - len(before) - len(after)
        if inside < 0 or (inside and not ellipsis):
            raise ValueError(f"{term!r} of the equation {equation!r} does not fit an operand of {rank} axes")
        hidden = max(hidden, inside)
        terms.append((*before, *_ellipsis_labels(inside), *after))
    if not arrow:
        letters = "".join(written).replace(".", "")
        right = "..." + "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    before, ellipsis, after = right.partition("...")
    result = (*before, *_ellipsis_labels(hidden if ellipsis else 0), *after)
    if unknown := set(result) - set(chain(*terms)):
        raise ValueError(f"the output of the equation {equation!r} has {sorted(unknown)}, which no operand has")
    return terms, result


def _ellipsis_labels(axes: int) -> tuple[str, ...]:
    return tuple(f".{i}" for i in reversed(range(axes)))


@pattern(einsum_pattern, layout=einsum_layout)
def calc_einsum(layer: Layer) -> Cost:
    """Einstein summation of any number of operands, with ellipsis, repeated indices and implicit output.

    * Two operands: a dot product for every output element over the indices that the output lacks. The number of
      products is the product of the sizes of all indices. They are MACs if an index is summed over; an outer or
      elementwise product is plain mul.
    * More operands: pairwise from left to right. An index is summed over as soon as no later operand and no output has
      it.
    * One operand: additions only (a sum, a trace), or none (a transpose, a diagonal).
    * Operand ``b``: the result is added to it.
    * Attributes ``pairs`` and ``scores``, with two operands: as in ``matmul``.

    Only the diagonal of an operand with a repeated index is read. Intermediate results are not materialized.

    An equation that does not fit the operands raises ValueError.

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    Settings: equation="bmk,bkn->bmn"
    """
    tensors = [tensor for name, tensor in layer.inputs.items() if name != "b"]
    terms, result = einsum_labels(layer.attrs["equation"], [tensor.ndim for tensor in tensors])
    sizes = _label_sizes(terms, tensors)

    def elements(labels: set[str]) -> Dim:
        return prod(sizes[label] for label in sorted(labels))

    operations, macs, left = Operations(), 0, set(terms[0])
    for i, term in enumerate(terms[1:], start=2):
        together = left | set(term)
        left = together & set(chain(result, *terms[i:]))
        start = "b" in layer and i == len(terms)
        count, products = products_of_pairs(layer, elements(left), elements(together))
        operations += dot_products(count, products, start)
        macs += products if together - left else 0
    summed = elements(left) - (0 if "b" in layer and len(terms) == 1 else elements(set(result)))
    operations += Operations(add=summed)
    read = input_bytes(layer, "b")
    for term, tensor in zip(terms, tensors, strict=True):
        read += tensor.bytes_of_part(prod(dict(zip(term, tensor.shape, strict=True)).values()))
    return Cost(operations, read, layer.written, layer.attrs, macs)


def _label_sizes(terms: list[tuple[str, ...]], tensors: list[Tensor]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, size in zip(term, tensor.shape, strict=True):
            # An axis of size 1 is broadcast.
            sizes[label] = maximum(sizes.get(label, size), size)
    return sizes


# Matrix products with scales, of groups, and of lists.


def _scale_products(layer: Layer) -> Dim:
    scales = [tensor for name, tensor in layer.inputs.items() if name.rstrip("0123456789").endswith("scale")]
    vectors = sum(1 for scale in scales if scale.ndim and scale.size != 1)
    # One product for all scalar scales together, else one per vector of scales.
    return vectors or (1 if scales else 0)


@pattern("product")
def calc_scaled_matmul(layer: Layer) -> Cost:
    """Matrix product of low-precision operands, times their scales.

    The scales are ``x0_scale``, ``x1_scale`` and ``y_scale``.

    * The matrix product; a bias is the starting value.
    * Scales of whole operands are joined first: 1 mul per output element in all.
    * A scale per row or block: 1 mul per output element for each operand that has one.
    * ``alpha`` and ``beta`` multiply product and bias: one mul per element if they are not 1.

    Source: Micikevicius et al., "FP8 Formats for Deep Learning", arXiv:2209.05433.

    Shapes: x0[M, K], x1[K, N], x0_scale[1], x1_scale[1], b[N]? -> y[M, N]
    """
    y = layer.out.size
    macs = y * layer["x0"].shape[-1]
    operations = dot_products(y, macs, "b" in layer) + Operations(mul=y * _scale_products(layer))
    return Cost(operations + scaling_products(layer), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_grouped_matmul(layer: Layer) -> Cost:
    """Matrix products of groups of rows, each with its own matrix.

    The operand ``offsets`` contains the ends of the groups.

    * Every row of x0 [M, K] is multiplied by one matrix of x1 [G, K, N]: M N dot products of length K for any grouping.
    * Two operands of two axes are grouped along K, and each group yields its own matrix: M K N products in all, for
      min(G, K) M N results; a group without columns yields zeros.
    * M rows need at most M of the G matrices: min(G, M) are read, with their scales and biases.

    Scales are those of ``scaled_matmul``.

    Shapes: x0[M, K], x1[G, K, N], offsets[G] -> y[M, N]
    """
    x0, y = layer["x0"], layer.out.size
    is_split = x0.ndim == 2 and layer.out.ndim == 3
    macs = x0.size * layer["x1"].shape[-1] if is_split else y * x0.shape[-1]
    count = _of_used_groups(layer.out, x0.shape[-1]) if is_split else y
    operations = dot_products(count, macs, "b" in layer) + Operations(mul=y * _scale_products(layer))
    return Cost(operations, layer.read - _bytes_of_unused_groups(layer), layer.written, layer.attrs, macs)


@pattern("product")
def calc_grouped_matmul_backward(layer: Layer) -> Cost:
    """Backward of matrix products of groups of rows: the gradients of the rows and of the matrices.

    * dx0: every row of dy is multiplied by its matrix, transposed: M K dot products of length N.
    * dx1: the matrix of a group sums over its rows: M K N products in all, for min(G, M) K N results.
    * M rows need at most M of the G matrices: min(G, M) are read.

    Shapes: dy[M, N], x0[M, K], x1[G, K, N], offsets[G] -> dx0[M, K], dx1[G, K, N]
    """
    x0, x1 = layer["x0"], layer["x1"]
    products = x0.size * x1.shape[-1]
    operations = dot_products(x0.size, products) + dot_products(_of_used_groups(x1, x0.shape[0]), products)
    return Cost(operations, layer.read - _bytes_of_unused_groups(layer), layer.written, layer.attrs, 2 * products)


def _of_used_groups(matrices: Tensor, rows: Dim) -> Dim:
    # The number of groups read is at most the number of rows.
    groups = matrices.shape[0]
    return matrices.size // groups * minimum(groups, rows)


def _bytes_of_unused_groups(layer: Layer) -> Dim:
    ranks = layer["x0"].ndim, layer["x1"].ndim
    if ranks not in ((2, 3), (3, 2)):
        return 0
    stacked, rows = ("x1", layer["x0"].shape[0]) if ranks[1] == 3 else ("x0", layer["x1"].shape[1])
    groups = layer[stacked].shape[0]
    # Groups without a row are not read, nor are their scales and biases.
    used = minimum(groups, rows)
    per_group = [x for name, x in layer.inputs.items() if (name.startswith(stacked) or name == "b") and x.ndim > 1]
    return sum(x.nbytes - x.bytes_of(x.stored_size // groups * used) for x in per_group)


@pattern("product")
def calc_foreach_matmul(layer: Layer) -> Cost:
    """Matrix products of the pairs of two lists.

    Operands ``x0`` … are those of the first list, followed by those of the second list.

    Shapes: x0[M, K], x1[K, N] -> y[M, N]
    """
    half = len(layer.outputs)
    operations, macs = Operations(), 0
    for i, y in enumerate(layer.outputs):
        pair = {"x0": layer[f"x{i}"], "x1": layer[f"x{half + i}"]}
        cost = calc_matmul(Layer("matmul", pair, [y]))
        operations, macs = operations + operations_of(cost), macs + cost.macs
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


# Products with sparse matrices, and conversions.
#
# The shape of a sparse operand is the shape of its Z stored values. The attribute ``indices`` is the number of 8-byte
# integers that give their positions.


REDUCTION_NAMES: Mapping[str, str] = {"amax": "max", "amin": "min", "prod": "mul"}
"""Reductions of sparse products that have another name in scatters."""


@pattern("product")
def calc_sparse_dense_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: each of Z values times ``width`` elements, added to the output.

    * ``side`` names the sparse operand if it is not x0: "x1", or x or w of a linear layer.
    * ``width`` is the number of columns of the other operand, or of its rows if it is the first operand; if both are
      sparse, the maximum number of elements that one value is multiplied by.
    * The output starts at zero or at ``b``.
    * ``alpha`` and ``beta`` other than 1: 1 mul per output element each.
    * ``reduction`` other than "sum" joins products differently: mean divides (1 div per output element), amax and amin
      compare, prod multiplies.
    * ``products`` has the exact number of products if both are sparse and their indices are known.
    * A matrix of ones has no values: the attribute ``values`` has their number, and nothing is multiplied.

    Shapes: x0[Z], x1[K, N] -> y[M, N]
    Settings: width=N, indices=2*Z
    """
    attrs, side = layer.attrs, layer.attrs.get("side", "x0")
    joined = attrs["products"] if "products" in attrs else attrs["width"] * attrs.get("values", 0)
    macs, reduction = 0, attrs.get("reduction", "sum")
    if side in layer:
        macs = joined = attrs["products"] if "products" in attrs else layer[side].size * attrs["width"]
    if reduction == "sum":
        operations = Operations(fma=macs) if side in layer else Operations(add=joined)
    else:
        update = UPDATES[REDUCTION_NAMES.get(reduction, reduction)]
        operations = Operations(mul=macs) + joined * update
        operations += Operations(div=layer.out.size if reduction == "mean" else 0)
    scaled = sum(layer.out.size for name in ("alpha", "beta") if layer.attrs.get(name, 1) != 1)
    operations += Operations(mul=scaled)
    return Cost(operations, layer.read + index_bytes(layer), layer.written, layer.attrs, macs)


@pattern("product")
def calc_sparse_dense_matmul_backward(layer: Layer) -> Cost:
    """Gradients of a sparse matrix x0 times a dense matrix x1, as named by ``needs``.

    * dx0: each value is a dot product of ``width`` elements of dy and of x1.
    * dx1: the transposed product, Z ``width`` fma to zeros.
    * ``reduction`` "mean" divides each part of dy, "amax" and "amin" choose by the position of the extremum: 1 div or 1
      cmp per product more.

    Shapes: x0[Z], dy[M, N], x1[K, N] -> dx0[Z], dx1[K, N]
    Settings: width=N, indices=2*Z, needs=("x0", "x1")
    """
    values, needed = layer["x0"].size, needed_gradients(layer, "x0", "x1")
    products = values * layer.attrs["width"]
    operations = dot_products(values, products) if "x0" in needed else Operations()
    operations += Operations(fma=products if "x1" in needed else 0)
    chosen = {"mean": Operations(div=1), "amax": Operations(cmp=1), "amin": Operations(cmp=1)}
    operations += products * len(needed) * chosen.get(layer.attrs.get("reduction", "sum"), Operations())
    return Cost(operations, layer.read + index_bytes(layer), layer.written, layer.attrs, products * len(needed))


@pattern("product")
def calc_sparse_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: every stored value times a row of x1, added to an output of zeros.

    x0 contains the values at ``rows`` and ``columns``; all values are multiplied, including padding. With the attribute
    ``transpose_x1``, the dense matrix is stored as [..., N, K].

    Shapes: x0[Z], rows[Z], columns[Z], x1[K, N] -> y[M, N]
    """
    width = layer["x1"].shape[-2 if layer.attrs.get("transpose_x1") else -1]
    macs = layer["x0"].size * width
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_sampled_product(layer: Layer) -> Cost:
    """Elements of a matrix product at the Z positions of a sparse matrix x, each added to its value.

    One dot product of length K per value; ``alpha`` and ``beta`` take 1 mul each if not 1. The result has the positions
    of x, which are written too.

    Shapes: x[Z], x0[M, K], x1[K, N] -> y[Z]
    Settings: indices=2*Z
    """
    values = layer["x"].size
    macs = values * layer["x0"].shape[-1]
    scaled = sum(values for name in ("alpha", "beta") if layer.attrs.get(name, 1) != 1)
    places = index_bytes(layer)
    return Cost(Operations(fma=macs, mul=scaled), layer.read + places, layer.written + places, layer.attrs, macs)


@pattern("product")
def calc_sampled_matmul(layer: Layer) -> Cost:
    """Chosen elements of a matrix product: one dot product of length K each.

    With ``transpose_x0`` the first operand is stored as [..., K, M], with ``transpose_x1`` the second as [..., N, K].
    Both are read completely, because the chosen rows are unknown.

    Shapes: x0[M, K], x1[K, N], rows[Z], columns[Z] -> y[Z]
    """
    length = layer["x0"].shape[-2 if layer.attrs.get("transpose_x0") else -1]
    count = layer.out.size
    return Cost(dot_products(count, count * length), layer.read, layer.written, layer.attrs, count * length)


@pattern("opaque")
def calc_to_sparse(layer: Layer) -> Cost:
    """Nonzero values of a dense tensor and their indices: 1 cmp per element of x.

    One index of 8 bytes is written per axis of each value.

    Shapes: x[M, N] -> y[Z]
    """
    x = layer["x"]
    return Cost(Operations(cmp=x.size), layer.read, layer.written + 8 * layer.out.size * x.ndim, layer.attrs)


CONVERSIONS: Mapping[str, str] = {
    "to_dense": "a sparse tensor with explicit zeros",
    "sparse_mask": "the elements of x at the positions of a sparse mask",
}


@pattern("opaque")
@covers(CONVERSIONS)
def calc_sparse_conversion(layer: Layer) -> Cost:
    """Conversions between sparse and dense tensors: no operations.

    The indices are read. With a mask, one element of a dense x is read per position in the mask, and the positions are
    written with the result.

    Shapes: x[Z], mask[Z]? -> y[M, N]
    Settings: indices=2*Z
    """
    places = index_bytes(layer)
    if "mask" not in layer:
        return Cost(Operations(), layer.read + places, layer.written, layer.attrs)
    x, y = layer["x"], layer.out
    return Cost(Operations(), x.bytes_of(y.size) + places, layer.written + places, layer.attrs)


@pattern("opaque")
def calc_coalesce(layer: Layer) -> Cost:
    """Sum of the values of a sparse tensor at equal positions: 1 add per value that joins another.

    A position has one index of 8 bytes for each of ``axes`` sparse axes. Positions are sorted first, which counts as
    index arithmetic.

    Shapes: x[Z, N] -> y[U, N]
    Settings: axes=2
    """
    x, y = layer["x"], layer.out
    position = 8 * layer.attrs["axes"]
    operations = Operations(add=x.size - y.size)
    read, written = (each.nbytes + position * each.shape[0] for each in (x, y))
    return Cost(operations, read, written, layer.attrs)


# Gradients of linear, bilinear and matrix products.
#
# The attribute ``needs`` names the operands that receive a gradient; the outputs are these gradients. Default: all.
# Each gradient is a product of the size of the forward product.


@pattern("product")
def calc_linear_backward(layer: Layer) -> Cost:
    """Backward of a fully connected layer: dx, dw and db from dy, as named by ``needs``.

    * dx: every element is a dot product over the output features.
    * dw: every element is a dot product over the rows.
    * db: the sum of the rows.

    Shapes: dy[N, F_out], x[N, F_in], w[F_out, F_in] -> dx[N, F_in], dw[F_out, F_in]
    Settings: needs=("x", "w")
    """
    dy, needed = layer["dy"], needed_gradients(layer, "x", "w", "b")
    features = dy.shape[-1]
    width = (layer.get("w") or layer.get("x") or layer.out).shape[-1]
    products = dy.size * width
    input_gradient = dot_products(prod(dy.shape[:-1]) * width, products) if "x" in needed else Operations()
    weight_gradient = dot_products(features * width, products) if "w" in needed else Operations()
    bias_gradient = Operations(add=dy.size - features) if "b" in needed else Operations()
    operations = input_gradient + weight_gradient + bias_gradient
    return Cost(
        operations,
        gradient_input_bytes(layer, needed),
        layer.written,
        layer.attrs,
        products * gradient_product_count(needed),
    )


@pattern("product")
def calc_matmul_backward(layer: Layer) -> Cost:
    """Backward of a matrix product: the gradients of both operands, as named by ``needs``.

    Each is a matrix product of dy and the other operand, with the MACs of the forward pass. If an operand was
    broadcast, the dot products of its gradient also sum over the batch. The gradient of an addend ``b`` sums dy to its
    shape.

    Shapes: dy[B, M, N], x0[B, M, K], x1[B, K, N] -> dx0[B, M, K], dx1[B, K, N]
    Settings: needs=("x0", "x1")
    """
    dy, x0, x1 = layer["dy"], layer["x0"], layer["x1"]
    needed = needed_gradients(layer, "x0", "x1", "b")
    products = dy.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    first = dot_products(x0.size, products) if "x0" in needed else Operations()
    second = dot_products(x1.size, products) if "x1" in needed else Operations()
    addend = Operations(add=dy.size - layer["b"].size) if "b" in needed else Operations()
    read = dy.nbytes + (x1.nbytes if "x0" in needed else 0) + (x0.nbytes if "x1" in needed else 0)
    macs = products * len(set(needed) - {"b"})
    return Cost(first + second + addend, read, layer.written, layer.attrs, macs)


def _bilinear_gradients(layer: Layer, weight: str) -> tuple[Operations, Dim]:
    rows = prod(layer["dy"].shape[:-1])
    features, first, second = layer[weight].shape
    matrix = rows * first * second
    # dy W is a matrix for every row, of dot products over the outputs. The gradient of either operand is its product
    # with the other operand. The gradient of the weight sums dy x0 x1 over the rows; x0 x1 are plain products.
    operations = dot_products(matrix, matrix * features)
    operations += dot_products(rows * first, matrix) + dot_products(rows * second, matrix)
    operations += Operations(mul=matrix) + dot_products(layer[weight].size, matrix * features)
    return operations, 2 * matrix * (features + 1)


@pattern("product")
def calc_bilinear_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer: gradients of both operands and of the weight.

    * Per row dy W: F_0 F_1 dot products over the outputs, and its products with x1 and with x0.
    * dW: the sum of dy x0 x1 over the rows.

    MACs: 2 N F_0 F_1 (F_out + 1).

    Shapes: dy[N, F_out], x0[N, F_0], x1[N, F_1], w[F_out, F_0, F_1] -> dx0[N, F_0], dx1[N, F_1], dw[F_out, F_0, F_1]
    """
    operations, macs = _bilinear_gradients(layer, "w")
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_biaffine_backward(layer: Layer) -> Cost:
    """Backward of a bilinear layer with linear terms: ``bilinear_backward`` and the linear terms.

    * dy u and dy v are added to the gradients of the operands.
    * du and dv sum x dy over the rows.
    * db sums dy.

    Shapes: dy[N, F], x0[N, P], x1[N, Q], w0[F, P, Q], w1[P, F], w2[Q, F] -> dx0[N, P], dx1[N, Q], dw0[F, P, Q],
        dw1[P, F], dw2[Q, F], db[F]
    """
    operations, macs = _bilinear_gradients(layer, "w0")
    dy, linear = layer["dy"], layer["w1"].size + layer["w2"].size
    products = prod(dy.shape[:-1]) * linear
    operations += Operations(fma=products) + dot_products(linear, products) + Operations(add=dy.size - dy.shape[-1])
    return Cost(operations, layer.read, layer.written, layer.attrs, macs + 2 * products)
