"""A mapping rule of a kernel, whose arguments a trace has by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

Made: TypeAlias = "Callable[[Arguments], Any]"
"""The value of an operand or attribute, from all arguments."""


def kernel(
    native: str,
    op: str,
    inputs: Mapping[str, int | Made],
    outputs: Sequence[int] | Callable[[Arguments], Sequence[Tensor]],
    attrs: Mapping[str, Made] | None = None,
    needs: Sequence[int] = (),
    when: Callable[[Arguments], bool] = lambda _: True,
) -> Row:
    """Return the rule of a kernel.

    Args:
        native: the name of the kernel in traces.
        op: the operator that it computes.
        inputs: the position of each operand among the arguments, or a function that makes it of all arguments.
        outputs: the positions of the arguments that it writes; or a function that makes its results.
        attrs: functions that make the attributes.
        needs: the positions of further tensors that functions read. A call that lacks one of all tensors, or where one
            is empty, has no cost.
        when: what else must be true of the arguments.
    """
    positions = [x for x in inputs.values() if isinstance(x, int)]
    written = outputs if callable(outputs) else None
    at = () if callable(outputs) else tuple(outputs)
    needed = (*positions, *needs, *at)

    def fits(args: Arguments) -> bool:
        found = [args.get(f"arg{i}") for i in needed]
        return all(isinstance(x, Tensor) and x.size > 0 for x in found) and when(args)

    def results(args: Arguments, _: Sequence[Any]) -> Sequence[Any]:
        return written(args) if written is not None else [args[f"arg{i}"] for i in at]

    operands = {name: f"arg{x}" if isinstance(x, int) else x for name, x in inputs.items()}
    return Row(native, op, operands, dict(attrs or {}), when=fits, outputs=results)


def tensor(args: Arguments, position: int) -> Tensor:
    """Return the tensor at a position."""
    found = args[f"arg{position}"]
    assert isinstance(found, Tensor)  # the rule needs it
    return found


def whole(args: Arguments, position: int) -> int | None:
    """Return the whole number at a position; None if there is none."""
    found = args.get(f"arg{position}")
    return found if type(found) is int else None


def like(position: int) -> Callable[[Arguments], Sequence[Tensor]]:
    """Return the function that makes one result with the shape and dtype of an argument."""
    return lambda args: [tensor(args, position)]
