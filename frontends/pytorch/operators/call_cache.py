"""What was found out about operators and their calls, kept from one capture to the next.

It depends on the table, and on a few settings of PyTorch that say what an operator returns; it holds no tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from costcore.ir import Layer
from costcore.registry.calculators import calculators
from costcore.registry.frontends import rows
from costcore.translate import Translator

from ..meta.operands import NUMBERS
from ..naming import arguments_of
from ..tensors import operand
from .call_key import CallKey
from .plan import OperatorPlan
from .replay import Replay

MAX_CACHED_CALLS = 10_000
"""So many kinds of calls are remembered before all are forgotten; a large network has a few hundred."""

_IN_KEYS = frozenset(
    (
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
        *(tuple, str, type(None), *NUMBERS),
    )
)


class CallTemplate:
    """All that calls of one key have in common whose operands come from the same kinds of places.

    Attributes:
        layer: what is executed.
        inputs: for every input of the layer the position of its tensor among those of the call, -1 for a number.
        outputs: the same for every output; the returned tensors follow those of the arguments.
        places: both, one after the other.
        learned: positions of the operands that are learned parameters.
        is_known: whether it has a price.
    """

    __slots__ = ("inputs", "is_known", "layer", "learned", "outputs", "places")

    def __init__(self, layer: Layer, inputs: tuple[int, ...], outputs: tuple[int, ...], is_known: bool) -> None:
        self.layer = layer
        self.inputs = inputs
        self.outputs = outputs
        self.places = inputs + outputs
        self.is_known = is_known
        roles = [tensor.role for tensor in layer.inputs.values()]
        self.learned = tuple(i for i, role in zip(inputs, roles, strict=True) if i >= 0 and role == "param")


class CachedCall:
    """What is known of calls of one key.

    Attributes:
        plan: how their operator is treated.
        replay: makes their results again without running them; None if that is not possible.
        have_data: whether all their operands are ordinary tensors with data.
        templates: what they are to a recorder, by origins of the operands.
    """

    __slots__ = ("have_data", "plan", "replay", "templates")

    def __init__(self, plan: OperatorPlan, replay: Replay | None = None, have_data: bool = False) -> None:
        self.plan = plan
        self.replay = replay
        self.have_data = have_data
        self.templates: dict[int, CallTemplate] = {}


class Table:
    """The table, and plans of operators by id, which hold whatever the settings."""

    def __init__(self) -> None:
        self.rows = rows("pytorch")
        self.calculators = calculators()
        self.translator = Translator(self.rows, operand, names=arguments_of)
        self.names = frozenset(row.native for row in self.rows)
        self.plans: dict[int, OperatorPlan] = {}

    @property
    def is_current(self) -> bool:
        """Whether no plug-in changed the tables since."""
        return self.rows is rows("pytorch") and self.calculators is calculators()


class Knowledge:
    """The table, and entries by key."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.translator = table.translator
        self.plans = table.plans
        self.entries: dict[CallKey, CachedCall] = {}

    def plan(self, func: Any) -> OperatorPlan:
        """How an operator is treated."""
        plan = self.plans.get(id(func))
        if plan is None:
            plan = self.plans[id(func)] = OperatorPlan(func, self.table.names)
        return plan

    def keep(self, key: CallKey, entry: CachedCall) -> bool:
        """Remember calls of one of PyTorch's own operators; False where the key may hold anything of the user's."""
        if not entry.plan.native.startswith("aten::"):
            return False
        if any(type(part) not in _IN_KEYS and part not in NUMBERS for part in key[1:]):
            return False
        if len(self.entries) >= MAX_CACHED_CALLS:
            self.entries.clear()
        self.entries[key] = entry
        return True


_table: Table | None = None
_all: dict[tuple[Any, ...], Knowledge] = {}


def knowledge(has_replay: bool, is_checked: bool = False) -> Knowledge:
    """What is known of operators as they are called now.

    What they return, and so what is called next, may depend on a few settings beside their arguments; and where the
    types of their operands are checked, calls that passed without are not known.
    """
    global _table
    if _table is None or not _table.is_current:
        _table = Table()
        _all.clear()
    modes = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    settings = (has_replay, is_checked, *modes)
    found = _all.get(settings)
    if found is None:
        found = _all[settings] = Knowledge(_table)
    return found


def clear_cached_calls() -> None:
    """Forget all that was found out from calls: the next capture is like the first."""
    _all.clear()
    if _table is not None:
        _table.plans.clear()
