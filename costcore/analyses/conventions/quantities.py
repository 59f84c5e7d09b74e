"""The quantities of a call that the rules of conventions can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from costcore.analyses.conventions import einsum, windows
from costcore.errors import CostError
from costcore.ir import BITS, Cost, Layer, Operations, Tensor, prod
from costcore.numbers.dims import Dim, floor_div, is_symbolic

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
"""Operands by name; each stands for its number of elements, 0 if the call has none."""

AMOUNTS: Mapping[str, str] = {
    "macs": "multiply-adds of matrix products, as costcore counts them",
    "element_macs": "the same, a product of complex numbers as one, not four",
    "is_complex": "whether its operands are complex numbers",
    "flops": "FLOPs, as costcore counts them, a fused multiply-add as one",
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
    "steps": "its time steps, of all sequences of the batch",
    "gates": "its gates: 4 of an LSTM, 3 of a GRU, 1 of an RNN",
    "scores": "attention scores",
    "runs_mm": "whether PyTorch multiplies two matrices, not a matrix and a vector",
    "is_fused": "whether a CPU can run attention as one kernel",
    "rows": "rows that softmax normalizes",
    "taps": "elements of the kernel",
    "batch_first": "whether the batch, more than 1, is the first dimension of a recurrent layer's input",
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
    "windows": (0, "windows(): inputs that all windows of an average pool take in"),
    "float_windows": (0, "float_windows(): input by output positions of an adaptive pool, in floating point"),
    "floor_windows": (0, "floor_windows(): the same, each axis rounded down"),
    "guessed_windows": (0, "guessed_windows(): the same, remainder + 1 of an axis that does not divide"),
    "forward_positions": (0, "forward_positions(): output positions of a convolution that is not transposed"),
    "truncate": (1, "truncate(n): a floating-point number cut to an integer"),
    "square_kernel": (0, "square_kernel(): elements of the kernel, one side only if it was given as an int"),
    "einsum_numpy": (0, "einsum_numpy(): the optimized FLOP count that numpy.einsum_path prints, 4 digits"),
    "einsum_equation": (0, "einsum_equation(): its equation with letters in order, abc,abd->acd"),
    "einsum_sizes": (0, "einsum_sizes(): product of the sizes of all its indices, 0 with an ellipsis"),
    "einsum_pair": (0, "einsum_pair(): products of two operands, each summed before over what only it has"),
    "einsum_products": (0, "einsum_products(): products of the bmm that PyTorch runs, of pairs from left to right"),
    "einsum_sums": (0, "einsum_sums(): whether it sums over an index"),
    "left_broadcast": (0, "left_broadcast(): elements of the two shapes lined up from the left"),
}
"""Functions by name, with the number of their arguments."""

NAMES = frozenset((*OPERANDS, *AMOUNTS))
ARITIES: Mapping[str, int] = {name: count for name, (count, _) in FUNCTIONS.items()}

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class Quantities:
    """The quantities of one layer; calling it returns a quantity, or a function, by name.

    Args:
        layer: the layer.
        cost: its cost; None if it has none.
        strided: positions of its inputs that are not contiguous.
        kernel_is_int: whether the module was given its kernel size as an int; None if that is unknown.
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
            CostError: if the layer lacks what it is computed from.
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
        has_projection = self._P() != 0
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
            return ranks == (1, 2)  # a vector is one row, but not one column
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
        return windows.taps_of_average_pool(self._layer)

    def _float_windows(self) -> Any:
        return windows.quotient_in_floats(self._tensor("x").shape, self._tensor("y").shape)

    def _floor_windows(self) -> Dim:
        return prod(i // o for i, o in windows.pooled_axes(self._tensor("x").shape, self._tensor("y").shape))

    def _guessed_windows(self) -> Dim:
        axes = windows.pooled_axes(self._tensor("x").shape, self._tensor("y").shape)
        return prod(i // o if i % o == 0 else i % o + 1 for i, o in axes)

    def _forward_positions(self) -> Dim:
        return windows.positions_of_convolution(self._layer)

    def _truncate(self, number: Any) -> Dim:
        return number if is_symbolic(number) else int(number)

    def _square_kernel(self) -> Dim:
        kernel = self._attribute("kernel", ())
        is_int = len(set(kernel)) == 1 if self._kernel_is_int is None else self._kernel_is_int
        return kernel[0] if is_int else prod(kernel)

    def _einsum_numpy(self) -> int:
        return einsum.flops_that_numpy_prints(*self._einsum())

    def _einsum_equation(self) -> str:
        return einsum.with_letters_in_order(self._einsum()[0])

    def _einsum_sizes(self) -> Dim:
        return einsum.product_of_sizes(*self._einsum())

    def _einsum_pair(self) -> Dim:
        return einsum.products_of_a_pair(*self._einsum())

    def _einsum_products(self) -> Dim:
        return einsum.products_in_pairs(*self._einsum())

    def _einsum_sums(self) -> bool:
        return einsum.is_summing(*self._einsum())

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
    """Return what each name and function that rules can use means."""
    return {**OPERANDS, **AMOUNTS, **{name: meaning for name, (_, meaning) in FUNCTIONS.items()}}
