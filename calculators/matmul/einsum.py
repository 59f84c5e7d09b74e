"""Einstein summation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from costcore.ir import Arrangement, Cost, Dim, Layer, Operations, Pattern, Tensor, maximum, pattern, prod

from .._shared import dot_products, input_bytes


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

    The product needs the indices of each operand in groups: those of both operands and the output, those that only one
    operand has, and those that are summed over. An operand is copied if one axis cannot stand for each group, because
    its indices are not neighbors in memory or in another order there.
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
    """Return whether the indices of a group are neighbors in memory, in this order."""
    there = [label for label in group if label in memory]
    start = memory.index(there[0]) if there else 0
    return list(memory[start : start + len(there)]) == there


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

    Of an operand with a repeated index only the diagonal is read. Intermediate results are not materialized.

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
        operations += dot_products(elements(left), elements(together), start)
        macs += elements(together) if together - left else 0
    summed = elements(left) - (0 if "b" in layer and len(terms) == 1 else elements(set(result)))
    operations += Operations(add=summed)
    read = input_bytes(layer, "b")
    for term, tensor in zip(terms, tensors, strict=True):
        read += tensor.bytes_of_part(prod(dict(zip(term, tensor.shape, strict=True)).values()))
    return Cost(operations, read, layer.written, layer.attrs, macs)


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


def _label_sizes(terms: list[tuple[str, ...]], tensors: list[Tensor]) -> dict[str, Dim]:
    """Return the size of every index; an axis of size 1 is broadcast."""
    sizes: dict[str, Dim] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, size in zip(term, tensor.shape, strict=True):
            sizes[label] = maximum(sizes.get(label, size), size)
    return sizes
