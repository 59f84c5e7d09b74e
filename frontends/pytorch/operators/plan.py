"""What to do with an operator when it runs: decided once per operator and capture."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from ..meta.data_dependent import ASSUMED_RESULTS
from ..meta.fast_kernels import FAST_KERNELS
from ..meta.operands import NUMBERS
from ..naming import native_name, type_name
from .bookkeeping import ALIASES, BOOKKEEPING, DATA_DEPENDENT_SHAPES, NAMESPACES
from .composite_ops import COMPOSITES
from .control_flow import CONTROL_FLOW
from .flex_attention import FLEX, FLEX_ARGUMENTS, FLEX_ROW
from .replay import replay_rule


class OperatorPlan:
    """How one operator is treated.

    Attributes:
        native: its full name.
        type: its name in reports.
        row: the name its rows go by in the table.
        is_recorded: whether calls of it are recorded.
        is_alias: whether it returns its input under another name.
        replay_rule: given a call, how to repeat its result without running it, or None; see :func:`replay_rule`.
        is_plain: whether it is listed, and nothing of what follows holds of it.
        is_clone: whether it is what autograd saves a tensor with.
        assumed_result: what gives its result where tensors have no data and the result depends on data.
        fast_kernel: what may give its result where no tensor has data, without its kernel.
        decompose: whether its pieces are to be recorded in its place.
        has_varying_shapes: whether the shapes of its outputs depend on data, so that no call is like another.
        is_control_flow: whether it is control flow, whose functions are run and recorded in its place.
        arguments: name and default of its arguments, in order.
        written: positions and names of the arguments it writes to.
    """

    __slots__ = (
        "arguments",
        "assumed_result",
        "decompose",
        "fast_kernel",
        "func",
        "has_varying_shapes",
        "is_alias",
        "is_clone",
        "is_control_flow",
        "is_plain",
        "is_recorded",
        "native",
        "replay_rule",
        "row",
        "type",
        "written",
    )

    def __init__(self, func: Any, rows: Collection[str]) -> None:
        self.func = func
        self.native = native_name(func)
        self.type = type_name(self.native)
        self.row = self.native
        self.is_recorded = self.native not in BOOKKEEPING and not self.native.startswith(NAMESPACES)
        self.is_alias = self.native in ALIASES
        self.is_clone = self.native == "aten::clone"
        self.replay_rule: Callable[..., Any] | None = None
        self.assumed_result: Callable[..., Any] | None = None
        self.fast_kernel: Callable[..., Any] | None = None
        self.decompose = False
        self.has_varying_shapes = False
        self.is_control_flow = isinstance(func, HigherOrderOperator) and func.name() in CONTROL_FLOW
        self.arguments: tuple[tuple[str, Any], ...] = ()
        self.written: tuple[tuple[int, str], ...] = ()
        if isinstance(func, OpOverload):
            self._read_schema(func, rows)
        elif func.name() == FLEX:
            self.row = FLEX_ROW
            self.arguments = tuple((name, None) for name in FLEX_ARGUMENTS)
        self.is_plain = self.is_recorded and not (self.assumed_result or self.decompose or self.is_control_flow)

    def _read_schema(self, func: OpOverload, rows: Collection[str]) -> None:
        schema = func._schema
        name, overload = schema.name, schema.overload_name
        self.assumed_result = ASSUMED_RESULTS.get(name)
        self.fast_kernel = FAST_KERNELS.get(name) if overload in ("", "default") else None
        names = (name, name[:-1]) if name.endswith("_") and not name.endswith("__") else (name,)
        if name.startswith("prims::"):
            names = (*names, name.replace("prims::", "aten::"))
        wanted = [f"{word}.{overload}" for word in names if overload] + [*names, self.native]
        self.row = next((word for word in wanted if word in rows), self.native)
        self.replay_rule = replay_rule(func)
        self.has_varying_shapes = torch.Tag.dynamic_output_shape in func.tags or name in DATA_DEPENDENT_SHAPES
        arguments = schema.arguments  # made anew each time
        self.arguments = tuple((argument.name, argument.default_value) for argument in arguments)
        self.written = tuple(
            (position, argument.name)
            for position, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        frame = name.removeprefix("aten::") + (f".{overload}" if overload else "")
        self.decompose = (
            frame not in COMPOSITES
            and self.is_recorded
            and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        )

    def with_scalar_tensors(self, args: Sequence[Any]) -> list[Any] | None:
        """Arguments with tensors in the place of numbers, as the schema wants them; None where there are none.

        A traced model computes sizes with tensors: PyTorch shows them to a mode as numbers, and does not take those.
        """
        if not isinstance(self.func, OpOverload):
            return None
        wanted = [str(argument.type) == "Tensor" for argument in self.func._schema.arguments]
        places = [i for i, value in enumerate(args) if wanted[i] and type(value) in NUMBERS]
        return [torch.scalar_tensor(x) if i in places else x for i, x in enumerate(args)] if places else None

    def written_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """What it writes to."""
        found: list[Any] = []
        for position, name in self.written:
            value = args[position] if position < len(args) else kwargs.get(name)
            found += value if isinstance(value, (list, tuple)) else (value,)
        return found

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """All arguments by name, defaults included."""
        if isinstance(self.func, HigherOrderOperator) and not self.arguments:
            return {**{f"x{i}": value for i, value in enumerate(args)}, **kwargs}
        bound = dict(self.arguments)
        bound.update(zip((name for name, _ in self.arguments), args, strict=False))
        bound.update(kwargs)
        return bound
