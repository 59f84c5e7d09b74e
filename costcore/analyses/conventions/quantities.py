"""The vocabulary of conventions: quantities of a call that rules can name.

The rest of the module computes them: einsum costs as other tools define them, windows of poolings, and types and
parents of modules.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, TypeAlias

from costcore.errors import CostError
from costcore.ir import BITS, Cost, Layer, Operations, Tensor, prod
from costcore.numbers import Dim, floor_div, gcd, is_symbolic
from costcore.trace.call import Module
from costcore.trace.run import Run

OPERANDS: Mapping[str, str] = {
    "x": "elements of the first input",
    "y": "elements of the first output",
    "w": "elements of the weight",
    "b": "elements of the bias",
    "x0": "elements of the first operand",
    "x1": "elements of the second operand",
    "q": "elements of the queries",
    "k": "elements of the keys",
    "v": "elements of the values",
    "mask": "elements of the attention mask",
}
"""Operands by name. The value is the number of elements; 0 if the call lacks the operand."""

AMOUNTS: Mapping[str, str] = {
    "macs": "multiply-adds of matrix products, as costcore counts them",
    "element_macs": "multiply-adds of matrix products, a complex one counted as one, not four",
    "is_complex": "whether its operands are complex numbers",
    "flops": "FLOPs as costcore counts them; a fused multiply-add is one",
    "fma": "fused multiply-adds",
    "mul": "products",
    "add": "additions",
    "div": "divisions",
    "cmp": "comparisons",
    "special": "evaluations of exp, log, sqrt and such",
    "params": "parameters that the call reads",
    "n_operands": "number of its operands",
    "W": "elements of all weights of a recurrent layer for inputs and states",
    "B": "elements of all its biases",
    "I": "features of its input",
    "H": "its hidden size",
    "P": "its projected size, 0 without a projection",
    "D": "its directions, 1 or 2",
    "layers": "its layers",
    "steps": "its time steps, summed over the sequences of the batch",
    "gates": "its gates: 4 of an LSTM, 3 of a GRU, 1 of an RNN",
    "scores": "attention scores",
    "runs_mm": "whether PyTorch multiplies two matrices, not a matrix and a vector",
    "is_fused": "whether a CPU can run attention as one kernel",
    "rows": "rows that softmax normalizes",
    "taps": "elements of the kernel",
    "batch_first": "whether a recurrent layer's input starts with the batch, of more than 1",
    "affine": "1 with an affine weight, else 0",
    "bias": "1 with a bias, else 0",
    "in_place": "whether the call writes its first output to the memory of its first input",
    "training": "whether the layer is in training mode",
    "running": "whether a norm keeps running statistics",
    "groups": "groups",
    "mode": "mode of interpolation: nearest, linear, cubic",
}
"""Amounts and attributes by name."""

FUNCTIONS: Mapping[str, tuple[int, str]] = {
    "shape": (2, "shape(x, i): a dimension of an operand"),
    "last": (1, "last(x): the last dimension of an operand"),
    "ndim": (1, "ndim(x): the number of dimensions of an operand"),
    "strided": (1, "strided(x): whether an operand is not contiguous"),
    "learned": (1, "learned(x): whether an operand is a trained parameter or computed from one"),
    "needs": (1, "needs(x): whether a backward pass needs the gradient of an operand"),
    "bits": (1, "bits(x): bits of one element of an operand"),
    "windows": (0, "windows(): inputs in all windows of an average pool"),
    "float_windows": (0, "float_windows(): window size of an adaptive pool, input / output size, in floating point"),
    "floor_windows": (0, "floor_windows(): the same, rounded down along each axis"),
    "guessed_windows": (0, "guessed_windows(): the same, but remainder + 1 along an axis with a remainder"),
    "forward_positions": (0, "forward_positions(): output positions of a convolution that is not transposed"),
    "truncate": (1, "truncate(n): a floating-point number cut to an integer"),
    "square_kernel": (0, "square_kernel(): elements of the kernel; its side if it was given as an int"),
    "einsum_numpy": (0, "einsum_numpy(): the optimized FLOP count that numpy.einsum_path prints, 4 digits"),
    "einsum_equation": (0, "einsum_equation(): its equation with letters in order, abc,abd->acd"),
    "einsum_sizes": (0, "einsum_sizes(): product of the sizes of all its indices, 0 with an ellipsis"),
    "einsum_pair": (0, "einsum_pair(): products of two operands, each first summed over the indices that only it has"),
    "einsum_products": (0, "einsum_products(): products of the bmm that PyTorch runs, of pairs from left to right"),
    "einsum_sums": (0, "einsum_sums(): whether it sums over an index"),
    "left_broadcast": (0, "left_broadcast(): elements of the broadcast shape, with axes aligned at the left"),
}
"""Functions by name, with the number of their arguments."""

NAMES = frozenset((*OPERANDS, *AMOUNTS))

ARITIES: Mapping[str, int] = {name: count for name, (count, _) in FUNCTIONS.items()}

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class Quantities:
    """The quantities of one layer. Call it with a name to get a quantity or a function.

    Args:
        layer: the layer.
        cost: its cost; None if it is unknown.
        strided: positions of its inputs that are not contiguous.
        kernel_is_int: whether the module was created with an int as kernel size; None if unknown.
        learned: positions of its inputs that are trained parameters or computed from one.
        in_place: whether its first output has the memory of its first input.
    """

    def __init__(
        self,
        layer: Layer,
        cost: Cost | None,
        strided: tuple[int, ...] = (),
        kernel_is_int: bool | None = None,
        learned: tuple[int, ...] = (),
        in_place: bool = False,
    ) -> None:
        self._layer = layer
        self._cost = cost
        self._positions_strided = strided
        self._positions_learned = learned
        self._is_in_place = in_place
        self._kernel_is_int = kernel_is_int

    def __call__(self, name: str) -> Any:
        """Return a quantity or a function.

        Raises:
            CostError: if the layer lacks an operand or attribute that it needs.
        """
        if name in OPERANDS:
            tensor = self._find(name)
            return 0 if tensor is None else tensor.size
        method: Callable[[], Any] = getattr(self, f"_{name}")
        return method if name in FUNCTIONS else method()

    def _find(self, operand: str) -> Tensor | None:
        if operand == "y":
            return self._layer.outputs[0] if self._layer.outputs else None
        found = self._layer.get(operand)
        if found is None and operand == "x":
            return self._layer.get("x0")
        return self._layer.get("x") if found is None and operand == "x0" else found

    def _tensor(self, operand: str) -> Tensor:
        found = self._find(operand)
        if found is None:
            raise CostError(f"operator {self._layer.op!r} has no operand {operand!r}")
        return found

    def _attribute(self, name: str, default: Any = None) -> Any:
        return self._layer.attrs.get(name, default)

    def _operations(self) -> Operations:
        if self._cost is None:
            return Operations()
        flops = self._cost.flops
        return flops if isinstance(flops, Operations) else Operations(add=flops)

    def _macs(self) -> Dim:
        return 0 if self._cost is None else self._cost.macs

    def _element_macs(self) -> Dim:
        return floor_div(self._macs(), 4) if self._is_complex() else self._macs()

    def _is_complex(self) -> bool:
        return any(tensor.dtype.startswith("complex") for tensor in self._layer.inputs.values())

    def _flops(self) -> Dim:
        return self._operations().flops()

    def _fma(self) -> Dim:
        return self._operations().fma

    def _mul(self) -> Dim:
        return self._operations().mul

    def _add(self) -> Dim:
        return self._operations().add

    def _div(self) -> Dim:
        return self._operations().div

    def _cmp(self) -> Dim:
        return self._operations().cmp

    def _special(self) -> Dim:
        return self._operations().special

    def _n_operands(self) -> int:
        return len(self._layer.inputs)

    def _params(self) -> Dim:
        return self._layer.n_params

    def _all_named(self, letter: str) -> list[Tensor]:
        return [tensor for name, tensor in self._layer.inputs.items() if name.rstrip("0123456789") == letter]

    def _W(self) -> Dim:  # noqa: N802 - the name in rules
        weights = self._all_named("w")
        has_projection = self._P() != 0  # the third weight of each layer and direction is then the projection
        return sum(tensor.size for i, tensor in enumerate(weights) if not has_projection or i % 3 != 2)

    def _B(self) -> Dim:  # noqa: N802 - the name in rules
        return sum(tensor.size for tensor in self._all_named("b"))

    def _I(self) -> Dim:  # noqa: N802 - the name in rules
        return self._last("x")

    def _H(self) -> Dim:  # noqa: N802 - the name in rules
        return self._attribute("hidden", 0)

    def _P(self) -> Dim:  # noqa: N802 - the name in rules
        return self._attribute("projection") or 0

    def _D(self) -> int:  # noqa: N802 - the name in rules
        return 2 if self._attribute("bidirectional", False) else 1

    def _layers(self) -> Dim:
        return self._attribute("layers", 1)

    def _steps(self) -> Dim:
        return prod(self._tensor("x").shape[:-1])

    def _gates(self) -> int:
        return _GATES.get(self._layer.op, 0)

    def _batch_first(self) -> bool:
        x, h0 = self._tensor("x").shape, self._tensor("h0").shape
        return len(x) == 3 and 1 not in x[:2] and x[0] == h0[1] and x[1] != h0[1]

    def _scores(self) -> Dim:
        return prod(self._tensor("y").shape[:-1]) * self._tensor("k").shape[-2]

    def _runs_mm(self) -> bool:
        ranks = self._ndim("x0"), self._ndim("x1")
        if min(ranks) > 1:
            return True
        if max(ranks) < 3:
            return ranks == (1, 2)  # vector @ matrix runs as mm of one row, but matrix @ vector as mv
        # should_fold() of ATen: it runs mv if the vector needs a gradient, or if the larger operand (``x1`` transposed)
        # is contiguous.
        larger, vector = ("x0", "x1") if ranks[1] == 1 else ("x1", "x0")
        return not self._learned(vector) and self._strided(larger) == (larger == "x0")

    def _is_fused(self) -> bool:
        q, v = self._tensor("q"), self._tensor("v")
        return q.ndim == 4 and q.shape[-1] == v.shape[-1] and self._attribute("backend") != "math"

    def _rows(self) -> Dim:
        x, axis = self._tensor("x"), self._attribute("axis", -1)
        axis = axis[0] if isinstance(axis, tuple) else axis
        return prod(d for i, d in enumerate(x.shape) if i != axis % max(x.ndim, 1))

    def _taps(self) -> Dim:
        return prod(self._attribute("kernel", ()))

    def _affine(self) -> int:
        return int("w" in self._layer)

    def _bias(self) -> int:
        return int("b" in self._layer or "b0" in self._layer)

    def _in_place(self) -> bool:
        return self._is_in_place

    def _training(self) -> bool:
        return bool(self._attribute("training", False))

    def _running(self) -> bool:
        return "mean" in self._layer

    def _groups(self) -> Dim:
        return self._attribute("groups", 1)

    def _mode(self) -> str:
        return str(self._attribute("mode", ""))

    def _shape(self, operand: str, axis: int) -> Dim:
        shape = self._tensor(operand).shape
        return shape[axis] if -len(shape) <= axis < len(shape) else 1

    def _last(self, operand: str) -> Dim:
        return self._shape(operand, -1)

    def _ndim(self, operand: str) -> int:
        return self._tensor(operand).ndim

    def _strided(self, operand: str) -> bool:
        return any(list(self._layer.inputs)[i] == operand for i in self._positions_strided)

    def _learned(self, operand: str) -> bool:
        return any(list(self._layer.inputs)[i] == operand for i in self._positions_learned)

    def _needs(self, operand: str) -> bool:
        return operand in self._attribute("needs", self._layer.inputs)

    def _bits(self, operand: str) -> int:
        return BITS[self._tensor(operand).dtype]

    def _windows(self) -> Dim:
        return taps_of_average_pool(self._layer)

    def _float_windows(self) -> Any:
        return quotient_in_floats(self._tensor("x").shape, self._tensor("y").shape)

    def _floor_windows(self) -> Dim:
        return prod(i // o for i, o in pooled_axes(self._tensor("x").shape, self._tensor("y").shape))

    def _guessed_windows(self) -> Dim:
        axes = pooled_axes(self._tensor("x").shape, self._tensor("y").shape)
        return prod(i // o if i % o == 0 else i % o + 1 for i, o in axes)

    def _forward_positions(self) -> Dim:
        return positions_of_convolution(self._layer)

    def _truncate(self, number: Any) -> Dim:
        return number if is_symbolic(number) else int(number)

    def _square_kernel(self) -> Dim:
        kernel = self._attribute("kernel", ())
        is_int = len(set(kernel)) == 1 if self._kernel_is_int is None else self._kernel_is_int
        return kernel[0] if is_int else prod(kernel)

    def _einsum_numpy(self) -> int:
        return flops_that_numpy_prints(*self._einsum())

    def _einsum_equation(self) -> str:
        return with_letters_in_order(self._einsum()[0])

    def _einsum_sizes(self) -> Dim:
        return product_of_sizes(*self._einsum())

    def _einsum_pair(self) -> Dim:
        return products_of_a_pair(*self._einsum())

    def _einsum_products(self) -> Dim:
        return products_in_pairs(*self._einsum())

    def _einsum_sums(self) -> bool:
        return is_summing(*self._einsum())

    def _einsum(self) -> tuple[str, tuple[tuple[Dim, ...], ...]]:
        shapes = tuple(tensor.shape for name, tensor in self._layer.inputs.items() if name != "b")
        return str(self._attribute("equation", "")), shapes

    def _left_broadcast(self) -> Dim:
        shapes = [tensor.shape for tensor in self._layer.inputs.values()][:2]
        rank = max(map(len, shapes), default=0)
        return prod(_larger(*[shape[i] if i < len(shape) else 1 for shape in shapes]) for i in range(rank))


def _larger(*dims: Dim) -> Dim:
    known = [d for d in dims if d != 1]
    if any(map(is_symbolic, known)):
        return known[0]
    return max(dims)


@cache
def vocabulary() -> dict[str, str]:
    """Return the meaning of each name and function available in rules."""
    return {**OPERANDS, **AMOUNTS, **{name: meaning for name, (_, meaning) in FUNCTIONS.items()}}


# Einsum costs of other tools.


MAX_OPERANDS = 6
"""The maximum number of operands for an exhaustive search of contraction orders."""

_Shapes: TypeAlias = "tuple[tuple[Dim, ...], ...]"


def _sides(equation: str, shapes: _Shapes) -> tuple[list[str], str]:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    # An ellipsis gets letters for its axes, aligned at the right; the result may have more axes than the operands.
    dots = "".join(letter for letter in string.ascii_letters if letter not in equation)
    if not arrow:
        letters = inputs.replace(",", "").replace("...", "")
        output = dots + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    expanded = [
        term.replace("...", dots[len(dots) - len(shape) + len(term) - 3 :])
        for term, shape in zip(inputs.split(","), shapes, strict=False)
    ]
    return expanded, output.replace("...", dots)


def _sizes(inputs: list[str], shapes: _Shapes) -> dict[str, Dim]:
    found: dict[str, Dim] = {}
    for term, shape in zip(inputs, shapes, strict=False):
        for index, size in zip(term, shape, strict=False):
            # A size of 1 is broadcast to the size in another operand.
            if found.get(index, 1) == 1:
                found[index] = size
    return found


def product_of_sizes(equation: str, shapes: _Shapes) -> Dim:
    """Return the product of the sizes of all indices; 0 for an equation with an ellipsis, as torchprofile does."""
    return 0 if "..." in equation else prod(_sizes(_sides(equation, shapes)[0], shapes).values())


def products_of_a_pair(equation: str, shapes: _Shapes) -> Dim:
    """Return the products of two operands, each first summed over the indices that only it has; 0 for more operands."""
    if len(shapes) != 2:
        return 0
    inputs, output = _sides(equation, shapes)
    first, second = (
        {index: size for index, size in zip(term, shape, strict=False) if size != 1}
        for term, shape in zip(inputs, shapes, strict=True)
    )
    kept = [index for index in {**first, **second} if (index in first and index in second) or index in output]
    return prod(first.get(index, second.get(index, 1)) for index in kept)


def products_in_pairs(equation: str, shapes: _Shapes) -> Dim:
    """Return the multiplications of the batched matrix products that PyTorch runs on pairs from left to right.

    An index that only one operand of a pair has, and that is not needed later, is summed first. A pair without a common
    index to sum over is an elementwise product. Indices of size 1 do not count.
    """
    inputs, output = _sides(equation, shapes)
    sizes = _sizes(inputs, shapes)
    terms = [
        {index for index, size in zip(term, shape, strict=False) if size != 1}
        for term, shape in zip(inputs, shapes, strict=True)
    ]
    products: Dim = 0
    left = terms[0]
    for i, right in enumerate(terms[1:], start=2):
        later = set(output).union(*terms[i:])
        if left & right - later:
            products += prod(sizes[index] for index in sorted((left & right) | ((left | right) & later)))
        left = (left | right) & later
    return products


def is_summing(equation: str, shapes: _Shapes) -> bool:
    """Return whether an index of an operand is missing in the result."""
    inputs, output = _sides(equation, shapes)
    return any(index not in output for term in inputs for index in term)


def with_letters_in_order(equation: str) -> str:
    """Rename the indices of an equation to ``a``, ``b`` … in order of appearance."""
    compact = equation.replace(" ", "")
    letters = [*dict.fromkeys(letter for letter in compact if letter.isalpha())]
    return compact.translate({ord(letter): 97 + i for i, letter in enumerate(letters)})


def flops_that_numpy_prints(equation: str, shapes: _Shapes) -> int:
    """Return the "optimized FLOP count" of ``numpy.einsum_path``, which has four significant digits.

    A contraction costs the product of all its index sizes, times its number of operands (minus 1 if nothing is summed).
    For three or more operands, numpy takes the cheapest order of pairs whose results are not larger than the largest
    operand or the final result. It adds 1 to the total.

    Raises:
        CostError: if a size is symbolic, so it cannot be rounded, or if there are too many operands.
    """
    inputs, output = _sides(equation, shapes)
    by_index = _sizes(inputs, shapes)
    if any(map(is_symbolic, by_index.values())):
        raise CostError(f"einsum {equation!r}: numpy's rounded count needs the sizes of all indices as numbers")
    if len(inputs) > MAX_OPERANDS:
        raise CostError(f"einsum {equation!r} has {len(inputs)} operands (expected at most {MAX_OPERANDS})")
    operands = tuple(map(frozenset, inputs))
    limit = max(_size(term, by_index) for term in (*operands, frozenset(output)))
    if len(operands) <= 2:
        cost = _joint_cost(operands, frozenset(output), by_index)
    else:
        cost = _min_pairwise_cost(operands, frozenset(output), by_index, limit)
    return int(float(f"{cost + 1:.3e}"))


def _size(indices: frozenset[str], by_index: Mapping[str, Dim]) -> int:
    return int(prod(by_index.get(index, 1) for index in indices))


def _joint_cost(operands: tuple[frozenset[str], ...], kept: frozenset[str], by_index: Mapping[str, Dim]) -> int:
    indices: frozenset[str] = frozenset().union(*operands)
    return _size(indices, by_index) * (max(1, len(operands) - 1) + bool(indices - kept))


def _min_pairwise_cost(
    operands: tuple[frozenset[str], ...], output: frozenset[str], by_index: Mapping[str, Dim], limit: int
) -> int:
    if len(operands) == 1:
        return 0
    costs = []
    for pair in combinations(range(len(operands)), 2):
        taken = tuple(operands[i] for i in pair)
        rest = tuple(operand for i, operand in enumerate(operands) if i not in pair)
        kept = output.union(*rest)
        made = (taken[0] | taken[1]) & kept
        if _size(made, by_index) <= limit:
            costs.append(
                _joint_cost(taken, kept, by_index) + _min_pairwise_cost((*rest, made), output, by_index, limit)
            )
    return min(costs, default=_joint_cost(operands, output, by_index))


# Windows of poolings and convolutions, as other tools compute them.


def pooled_axes(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> list[tuple[Dim, Dim]]:
    """Return input and output size of every axis after batch and channels."""
    return [*zip(x[2:], y[2:], strict=False)]


def taps_of_average_pool(layer: Layer) -> Dim:
    """Return the inputs in all windows of an average pool; padding counts only if it is part of the average.

    Windows of an adaptive pool from ``n`` inputs to ``m`` outputs may overlap by one input, so they have
    ``n + m - gcd(n, m)`` inputs in all.
    """
    x, y = layer["x"], layer.out
    kernel, stride, padding = (layer.attrs.get(name) for name in ("kernel", "stride", "padding"))
    if kernel is None or padding is None:
        return prod(x.shape[:2]) * prod(i + o - gcd(i, o) for i, o in pooled_axes(x.shape, y.shape))
    dims = len(kernel)
    counted = padding if layer.attrs.get("count_include_pad", True) else (0,) * dims
    taps = [*map(_taps, x.shape[-dims:], y.shape[-dims:], kernel, stride or kernel, padding, counted)]
    return prod(x.shape[:-dims]) * prod(taps)


def _taps(size: Dim, outputs: Dim, kernel: int, stride: int, padding: int, counted: int) -> Dim:
    if is_symbolic(size) or is_symbolic(outputs):
        return outputs * kernel
    return sum(_window_lengths(size, outputs, kernel, stride, padding, counted))


def _window_lengths(size: int, outputs: int, kernel: int, stride: int, padding: int, counted: int) -> Iterator[int]:
    for i in range(outputs):
        start = i * stride - padding
        yield max(min(start + kernel, size + counted) - max(start, -counted), 0)


def quotient_in_floats(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> Any:
    """Return the product of ``input / output`` sizes in floating point, with the rounding errors of thop."""
    result: Any = 1
    for i, o in pooled_axes(x, y):
        result = result * (i / o)
    return result


def positions_of_convolution(layer: Layer) -> Dim:
    """Return the output positions of a forward convolution with the input and the settings of this layer."""
    settings = (layer.attrs[name] for name in ("kernel", "stride", "padding", "dilation"))
    axes = zip(layer["x"].shape[2:], *settings, strict=False)
    return prod(
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in axes
    )


# Modules by path: types, children, parents.


_TORCH = "torch.nn.modules."


@lru_cache(maxsize=1 << 12)
def short_type(qualified: str) -> str:
    """Return the short name of a class in rules: ``nn.Conv2d`` for ``torch.nn.modules.conv.Conv2d``."""
    if qualified.startswith(_TORCH):
        return f"nn.{qualified.rpartition('.')[2]}"
    return qualified


class ModuleIndex:
    """The modules of a run by path.

    Args:
        run: the run.

    Attributes:
        has_types: whether the capture has the qualified class names of PyTorch modules.
    """

    has_types: bool

    def __init__(self, run: Run) -> None:
        self._modules: Mapping[str, Module] = run.modules
        self._has_children = {path.rpartition(".")[0] for path in self._modules if path}
        self.has_types = "torch" in run.frameworks and any(module.bases for module in self._modules.values())
        self._bases: dict[str, tuple[str, ...]] = {}
        self._parents: dict[str, set[str]] = {}
        self._n_paths: dict[str, int] = {}
        for path, module in self._modules.items():
            if path:
                parent = self._first_path(path.rpartition(".")[0])
                self._parents.setdefault(module.same_as or path, set()).add(parent)

    def _first_path(self, path: str) -> str:
        module = self._modules.get(path)
        return module.same_as or path if module is not None else path

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, path: str) -> bool:
        return path in self._modules

    def get(self, path: str) -> Module | None:
        """Return the module at a path."""
        module = self._modules.get(path)
        return self._modules.get(module.same_as, module) if module is not None and module.same_as else module

    def types(self, path: str) -> tuple[str, ...]:
        """Return the short names of the class of a module and of its base classes; empty if unknown."""
        found = self._bases.get(path)
        if found is None:
            module = self.get(path)
            found = self._bases[path] = () if module is None else tuple(map(short_type, module.bases))
        return found

    def is_leaf(self, path: str) -> bool:
        """Return whether a module has no children."""
        return path not in self._has_children

    def n_paths(self, path: str) -> int:
        """Return the number of chains of parents from the model to a module. Two names in one parent count once."""
        path = self._first_path(path)
        found = self._n_paths.get(path)
        if found is None:
            parents = self._parents.get(path, ())
            self._n_paths[path] = 1  # stops recursion if an edited report has a cycle
            found = self._n_paths[path] = sum(map(self.n_paths, parents)) if parents else 1
        return found

    def ancestors(self, path: str) -> Iterator[str]:
        """Yield the paths of the modules around a module, innermost first."""
        while path:
            path = path.rpartition(".")[0]
            yield path
