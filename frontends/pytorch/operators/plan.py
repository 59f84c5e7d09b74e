"""Plans: how calls of an operator are treated, decided once per operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from costcore.registry.calculators import calculators
from costcore.registry.frontends import rows
from costcore.translate import Translator

from ..meta.data_dependent import ASSUMED_RESULTS
from ..meta.fast_kernels import FAST_KERNELS, WITHOUT_META_KERNEL, unless_on_meta
from ..meta.follow import FollowRule
from ..meta.known_results import KNOWN_RESULTS, KnownResult
from ..meta.operands import NUMBERS
from ..naming import arguments_of, is_in_place, native_name, type_name
from ..packed_weights import is_packed
from ..tensors import operand
from .bookkeeping import ALIASES, BOOKKEEPING, BOOKKEEPING_NAMES, DATA_DEPENDENT_SHAPES
from .composite_ops import COMPOSITES
from .control_flow import CONTROL_FLOW
from .flex_attention import FLEX, FLEX_ARGUMENTS, FLEX_ROW
from .kernels import is_decomposed
from .process_groups import written_argument
from .replay import ReplayRule, replay_rule
from .saved_for_backward import SAVING


class OperatorPlan:
    """How calls of one operator are treated.

    Args:
        func: the operator, an ``OpOverload``, a ``HigherOrderOperator`` or a function of ``torch.nn.functional``.
        row_names: the operator names that have mapping rules (rows).

    Attributes:
        native: its full name, out of place.
        shown: its full name as it ran, ``aten::add_`` for the form in place.
        overload: the name of its overload; ``""`` for the default.
        type: its name in reports.
        row: the name under which its rows are found.
        run: the C function that runs it, without the Python code of ``OpOverload``; ``func`` if it has none.
        is_recorded: whether its calls are recorded.
        is_plain: whether its calls are recorded, and none of ``assumed_result``, ``decompose``, ``is_control_flow``,
            ``has_packed_weight`` and ``is_random`` applies.
        is_random: whether it draws random numbers.
        is_alias: whether it returns its input as another tensor object.
        is_clone: whether it is ``aten::clone``, by which autograd copies a saved tensor before an in-place operator.
        is_control_flow: whether its arguments are functions, which are run and recorded in its place.
        decompose: whether the operators it consists of are recorded in its place.
        assumed_result: returns the result on meta tensors if it depends on data, and what is assumed.
        known_result: returns the result on meta tensors if it depends on data that is known, or None.
        fast_kernel: returns the result on meta tensors without the kernel, or None.
        has_varying_shapes: whether the shapes of its outputs depend on data, so that no call repeats another.
        saves_for_backward: whether it keeps something for its backward pass beside its outputs.
        replay_rule: decides how the result of a call can be repeated; see :func:`.replay.replay_rule`.
        follow_rule: finds the values of its results from those of its operands; None for a higher-order operator.
        arguments: name and default of its arguments, in order.
        written: positions and names of the arguments it writes to.
        returns_written: whether its results are the arguments it writes to, not what it returns.
        has_packed_weight: whether it takes a weight that PyTorch has packed into an object.
    """

    __slots__ = (
        "arguments",
        "assumed_result",
        "decompose",
        "fast_kernel",
        "follow_rule",
        "func",
        "has_packed_weight",
        "has_varying_shapes",
        "is_alias",
        "is_clone",
        "is_control_flow",
        "is_plain",
        "is_random",
        "is_recorded",
        "known_result",
        "native",
        "overload",
        "replay_rule",
        "returns_written",
        "row",
        "run",
        "saves_for_backward",
        "shown",
        "type",
        "written",
    )

    def __init__(self, func: Any, row_names: Collection[str]) -> None:
        self.func = func
        self.run = func._op if type(func) is OpOverload else func
        self.native = native_name(func)
        self.shown = self.native
        self.overload = ""
        self.type = type_name(self.native)
        self.row = self.native
        self.is_recorded = self.native not in BOOKKEEPING and not self.native.startswith(BOOKKEEPING_NAMES)
        self.is_alias = self.native in ALIASES
        self.is_clone = self.native == "aten::clone"
        self.saves_for_backward = self.native in SAVING
        self.is_control_flow = isinstance(func, HigherOrderOperator) and func.name() in CONTROL_FLOW
        self.decompose = False
        self.assumed_result: Callable[..., Any] | None = None
        self.known_result: KnownResult | None = None
        self.fast_kernel: Callable[..., Any] | None = None
        self.has_varying_shapes = False
        self.is_random = False
        self.has_packed_weight = False
        self.replay_rule: ReplayRule | None = None
        self.follow_rule: FollowRule | None = None
        self.arguments: tuple[tuple[str, Any], ...] = ()
        self.written: tuple[tuple[int, str], ...] = ()
        self.returns_written = False
        if isinstance(func, OpOverload):
            self._read_schema(func, row_names)
        elif isinstance(func, FunctionType):
            self.arguments = tuple((name, value.default) for name, value in signature(func).parameters.items())
        elif func.name() == FLEX:
            self.row = FLEX_ROW
            self.arguments = tuple((name, None) for name in FLEX_ARGUMENTS)
        is_special = self.assumed_result or self.decompose or self.is_control_flow or self.has_packed_weight
        is_special = is_special or self.is_random
        self.is_plain = self.is_recorded and not is_special

    def _read_schema(self, func: OpOverload, row_names: Collection[str]) -> None:
        schema = func._schema
        name, overload = schema.name, schema.overload_name
        self.overload = "" if overload == "default" else overload
        self.shown += "_" * is_in_place(name)
        self.assumed_result = ASSUMED_RESULTS.get(name)
        self.known_result = KNOWN_RESULTS.get(name)
        self.fast_kernel = FAST_KERNELS.get(f"{name}.{self.overload}" if self.overload else name)
        names = (name, name[:-1]) if name.endswith("_") and not name.endswith("__") else (name,)
        if name.startswith("prims::"):
            names = (*names, name.replace("prims::", "aten::"))
        candidates = [f"{word}.{overload}" for word in names if overload] + [*names, self.native]
        self.row = next((word for word in candidates if word in row_names), self.native)
        if name in WITHOUT_META_KERNEL:
            self.run = unless_on_meta(self.run)
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags
        self.replay_rule = replay_rule(func)
        self.has_varying_shapes = torch.Tag.dynamic_output_shape in func.tags or name in DATA_DEPENDENT_SHAPES
        arguments = schema.arguments  # a new list at every access
        self.arguments = tuple((argument.name, argument.default_value) for argument in arguments)
        self.has_packed_weight = any(is_packed(str(argument.type)) for argument in arguments)
        self.written = tuple(
            (position, argument.name)
            for position, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        of_group = written_argument(name)
        if of_group is not None:
            self.returns_written = True
            self.written = tuple(
                (i, argument.name) for i, argument in enumerate(arguments) if argument.name == of_group
            )
        self.follow_rule = FollowRule(func, self.arguments, self.written)
        composite = name.removeprefix("aten::") + (f".{overload}" if overload else "")
        self.decompose = composite not in COMPOSITES and self.is_recorded and is_decomposed(func)

    def with_scalar_tensors(self, args: Sequence[Any]) -> list[Any] | None:
        """Return arguments with numbers converted to tensors if the schema requires it; None if it does not.

        A traced model computes sizes with 0-d tensors. PyTorch passes them to a dispatch mode as numbers, which the
        operator itself does not accept.
        """
        if not isinstance(self.func, OpOverload):
            return None
        wanted = [str(argument.type) == "Tensor" for argument in self.func._schema.arguments]
        numbers = [i for i, value in enumerate(args) if wanted[i] and type(value) in NUMBERS]
        return [torch.scalar_tensor(x) if i in numbers else x for i, x in enumerate(args)] if numbers else None

    def written_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arguments that a call writes to."""
        found: list[Any] = []
        for position, name in self.written:
            value = args[position] if position < len(args) else kwargs.get(name)
            found += value if isinstance(value, (list, tuple)) else (value,)
        return found

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, defaults included."""
        if isinstance(self.func, HigherOrderOperator) and not self.arguments:
            return {**{f"x{i}": value for i, value in enumerate(args)}, **kwargs}
        bound = dict(self.arguments)
        bound.update(zip((name for name, _ in self.arguments), args, strict=False))
        bound.update(kwargs)
        return bound


class OperatorPlans:
    """The plans of all operators, and the mapping rules (rows) they depend on.

    Attributes:
        by_id: plans by ``id`` of the operator, because hashing an operator runs Python code, which is slow.
        names: the full names of their operators, out of place.
        translator: turns operator calls into layers by the rows.
    """

    def __init__(self) -> None:
        self._rows = rows("pytorch")
        self._calculators = calculators()
        self._row_names = frozenset(row.native for row in self._rows)
        self.translator = Translator(self._rows, operand, names=arguments_of)
        self.by_id: dict[int, OperatorPlan] = {}
        self.names: set[str] = set()

    @property
    def is_current(self) -> bool:
        """Whether no plug-in changed the rows or the calculators since."""
        return self._rows is rows("pytorch") and self._calculators is calculators()

    def of(self, operator: Any) -> OperatorPlan:
        """Return the plan of an operator."""
        plan = self.by_id.get(id(operator))
        if plan is None:
            plan = self.by_id[id(operator)] = OperatorPlan(operator, self._row_names)
            self.names.add(plan.native)
        return plan


_plans: OperatorPlans | None = None


def operator_plans() -> OperatorPlans:
    """Return the plans of all operators, rebuilt after a plug-in changed the rows or the calculators.

    Raises:
        CostError: for a broken plug-in.
    """
    global _plans
    if _plans is None or not _plans.is_current:
        _plans = OperatorPlans()
    return _plans
