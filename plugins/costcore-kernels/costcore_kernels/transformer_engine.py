"""Linear layers of TransformerEngine, with the norm before them, forward and backward.

Their products are in no operator: a trace has the functions of autograd around them, with the tensors that these are
given. Sources of the signatures: ``transformer_engine/pytorch/module/linear.py`` and ``layernorm_linear.py`` of
TransformerEngine (https://github.com/NVIDIA/TransformerEngine), releases 1 and 2. In FP8, operands are quantized
inside: of that a trace says nothing. A backward pass shows the gradients of its outputs alone; it has the operands of
the forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

from .kernel import Made, kernel, tensor

BY_NAME = "the function of that name in TransformerEngine, with operands of their recorded dtype"


def _tensors(args: Arguments, positions: range) -> list[Tensor]:
    found = (args.get(f"arg{i}") for i in positions)
    return [x for x in found if isinstance(x, Tensor) and x.size > 0]


def _linear_input(args: Arguments) -> Tensor | None:
    """Return the input of ``_Linear``, the last matrix of those in front: release 1 has copies of the weight before."""
    found = [x for x in _tensors(args, range(1, 4)) if x.ndim >= 2]
    return found[-1] if found else None


def _input_of(position: int | None) -> Made:
    return _linear_input if position is None else lambda args: args.get(f"arg{position}")


def _fits(args: Arguments, x: Made, w: int) -> bool:
    found, weight = x(args), args[f"arg{w}"]
    return isinstance(found, Tensor) and found.ndim >= 2 and weight.ndim == 2 and found.shape[-1] == weight.shape[1]


def _rows(name: str, position: int | None, w: int, norm: Mapping[str, int]) -> tuple[Row, Row]:
    """Return the rules of both passes.

    Args:
        name: the name of the function.
        position: that of the input; None to find it.
        w: the position of the weight.
        norm: the positions of weight and bias of the norm, by operand.
    """
    x = _input_of(position)

    def y(args: Arguments) -> Tensor:
        return Tensor((*x(args).shape[:-1], tensor(args, w).shape[0]), x(args).dtype)

    def part(i: int) -> Made:
        return lambda args: args.get(f"arg{i}") if _tensors(args, range(i, i + 1)) else None

    operands: dict[str, int | Made] = {"x": x, "w": w, **{operand: part(i) for operand, i in norm.items()}}
    op = "norm_linear" if norm else "linear"
    attrs: dict[str, Made] = {"assumed": lambda _: BY_NAME}
    needs = tuple(i for operand, i in norm.items() if operand == "norm_w")

    def gradients(args: Arguments) -> list[Tensor]:
        return [x(args), tensor(args, w), *(found for i in norm.values() for found in _tensors(args, range(i, i + 1)))]

    return (
        kernel(f"span::{name}", op, operands, lambda args: [y(args)], attrs, needs, lambda args: _fits(args, x, w)),
        kernel(
            f"span::{name}Backward",
            f"{op}_backward",
            {"dy": y, **operands},
            gradients,
            {**attrs, "needs": lambda _: ("x", "w")},
            needs,
            lambda args: _fits(args, x, w),
        ),
    )


ROWS: tuple[Row, ...] = (
    *_rows("_Linear", None, 0, {}),
    *_rows("_LayerNormLinear", 0, 3, {"norm_w": 1, "norm_b": 2}),
)
