"""Runs the operators of a trace again on meta tensors, inside of the capture of this frontend.

What the hook would have recorded in the real run is recorded, with module and phase from the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from costcore.errors import CostError
from costcore.ir import Layer, Role
from costcore.ir import Tensor as Operand
from costcore.registry.frontends import plugin_rows
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder
from costcore.translate import Native, Translator

from ..capture.dispatch_mode import CaptureMode
from ..naming import type_name
from ..operators.bookkeeping import BOOKKEEPING, BOOKKEEPING_NAMES
from ..operators.saved_for_backward import SAVING
from ..tensors import dtype_name
from .collectives import PARAMETERS, collective_of, is_bookkeeping
from .dtypes import DTYPES
from .lists import Neighbors
from .overloads import Candidate, Indices, Slot, candidates, is_operator
from .places import is_node
from .records import Argument, Constant, ListArgument, Op, TensorArgument

FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, MemoryError, NotImplementedError),
    *(RuntimeError, TypeError, ValueError),
)
"""What operators raise for arguments that are not theirs."""

_without_capture = torch._C._DisableTorchDispatch


class Replay:
    """Runs operators, and says what became of each.

    Args:
        recorder: receives the calls that no operator makes: collectives, and what cannot be counted.
        mode: the capture, which records the operators.
        neighbors: the operators around each.
        launching: the operators below which the device works; None if the trace has no work of a device.
        stopped: operators that did nothing.
        has_ids: whether tensors have ids.

    Attributes:
        calls: the positions of the calls of every operator that was counted, or that cannot be.
        unlisted: how often an operator was not counted because a list of tensors is not in the trace, by operator.
        assumed: how often the value of an argument was assumed, by operator and argument.
    """

    def __init__(
        self,
        recorder: Recorder,
        mode: CaptureMode,
        neighbors: Neighbors,
        launching: Collection[Op] | None,
        stopped: Collection[Op],
        has_ids: bool,
    ) -> None:
        self.calls: dict[Op, range] = {}
        self.unlisted: Counter[str] = Counter()
        self.assumed: Counter[tuple[str, str]] = Counter()
        self._recorder = recorder
        self._log = mode.recording.logs[-1]
        self._neighbors = neighbors
        self._launching = launching
        self._stopped = stopped
        self._has_ids = has_ids
        self._rules = Translator(plugin_rows("traces"), _in_role)
        self._candidates: dict[tuple[str, str, int], tuple[Candidate, ...]] = {}
        self._live: dict[Any, Tensor] = {}
        self._op: Op | None = None
        mode.recording.locate_by(self._where)

    def _where(self, number: int) -> tuple[str, str]:
        """Return module and phase of the operator that is running."""
        op = self._op
        return ("", "forward") if op is None else (op.module, op.phase)

    def run(self, roots: Iterable[Op]) -> None:
        """Run operators in order: of each tree the outermost ones that can be run."""
        waiting = [*roots]
        waiting.reverse()
        while waiting:
            op = waiting.pop()
            if op not in self._stopped and not self._take(op):
                waiting += reversed(op.children)

    def _take(self, op: Op) -> bool:
        """Record an operator; return False if what is inside of it is to be recorded instead."""
        if op.name == PARAMETERS:
            self._take_collective(op)
            return True
        if op.arguments is None:
            return self._take_without_shapes(op)
        if self._is_skipped(op):
            return not op.children
        if is_operator(op.name):
            before = self._log.n_calls()
            if self._replay(op):
                self.calls[op] = range(before, self._log.n_calls())
                return self._log.n_calls() > before or not op.children
        return self._take_uncounted(op)

    def _is_skipped(self, op: Op) -> bool:
        name = op.name.removesuffix("_") if op.name.startswith("aten::") else op.name
        is_bookkeeping = name in BOOKKEEPING or op.name.startswith(BOOKKEEPING_NAMES)
        return is_bookkeeping and not self._has_ids

    def _take_without_shapes(self, op: Op) -> bool:
        """Record an operator whose arguments are not in the trace as a call without a cost."""
        if is_operator(op.name) and not self._is_skipped(op) and self._works(op):
            self._add(op, Layer(op.name), Uncounted.NO_SHAPES)
            return True
        return self._take_uncounted(op)

    def _take_collective(self, op: Op) -> None:
        if not is_bookkeeping(op):
            layer = collective_of(op)
            name = str((op.details or {}).get("Collective name", op.name))
            native = f"c10d::{name}" if layer is not None else op.name
            self._add(op, layer or Layer(op.name), None if layer is not None else Uncounted.NO_SHAPES, native)

    def _take_uncounted(self, op: Op) -> bool:
        """Record an operator that no calculator knows by name; return False if what is inside of it follows.

        It is a call if it launched work itself, or nothing is inside of it. An operator that makes a device work does
        nothing else.
        """
        native = op.name if "::" in op.name else f"{_namespace(op)}::{op.name}"
        if op.arguments is not None and self._works(op) and self._take_by_rule(op, native):
            return True
        is_own = bool(op.kernels) or ("::" in op.name and not op.children and self._works(op))
        if not is_own or (is_node(op) and not op.kernels):
            return False
        operands = [_operand(x) for x in op.arguments or ()]
        layer = Layer(native, {f"x{i}": x for i, x in enumerate(filter(None, operands))}, _outputs(op), _settings(op))
        is_known = op.arguments is None or is_operator(op.name)
        if is_known and op.arguments is not None:
            self.unlisted[op.name] += 1
        self._add(op, layer, Uncounted.NO_SHAPES if is_known else None, native)
        return False

    def _take_by_rule(self, op: Op, native: str) -> bool:
        """Record an operator by the rule of a plug-in, for its name or its namespace; return whether there is one."""
        names = [name for name in (native, f"{native.partition('::')[0]}::*") if self._rules.has_row(name)]
        made = op if op.forward is None else op.forward  # a node of the backward pass shows gradients alone
        for name in names:
            values = [_value(x) for x in made.arguments or ()]
            arguments = {f"arg{i}": x for i, x in enumerate(values) if x is not None}
            found = self._rules(Native(name, arguments, _outputs(op)))
            if found.has_row:
                if assumed := found.layer.attrs.get("assumed"):
                    self._recorder.assume(f"trace: {native}: {assumed}")
                self._add(op, found.layer, None, native)
                return True
        return False

    def _works(self, op: Op) -> bool:
        return self._launching is None or op in self._launching

    def _add(self, op: Op, layer: Layer, uncounted: Uncounted | None, native: str = "") -> None:
        self._recorder.flush()
        native = native or op.name
        position = len(self._recorder.calls)
        self._recorder.record(
            Call(
                layer=self._recorder.intern(layer),
                type=type_name(native),
                native=native,
                module=op.module,
                phase=op.phase,
                uncounted=uncounted,
            )
        )
        self.calls[op] = range(position, position + 1)

    def _replay(self, op: Op) -> bool:
        """Run the first overload that takes the arguments; return whether there is one."""
        assert op.arguments is not None
        key = op.name, op.schema, id(op.arguments)
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = candidates(op.name, op.schema, op.arguments)
        self._op = op
        for candidate in found:
            before, mark = self._log.n_calls(), self._recorder.checkpoint()
            try:
                result = self._call(candidate, op)
            except CostError:
                raise
            except FAILURES:
                while self._log.n_calls() > before:
                    self._log.remove_last()
                continue
            if isinstance(result, (bool, int, float, complex)):  # the trace has what the value decided
                self._recorder.forget_assumptions(mark)
            for name in candidate.assumed:
                self.assumed[op.name, name] += 1
            if self._has_ids:
                self._keep(op.outputs, result)
            if candidate is not found[0] and not self._has_ids:
                self._candidates[key] = (candidate, *(each for each in found if each is not candidate))
            return True
        return False

    def _call(self, candidate: Candidate, op: Op) -> Any:
        positional = [self._value(slot, op) for slot in candidate.positional]
        named = {name: self._value(slot, op) for name, slot in candidate.named}
        if op.sequence >= 0 and op.phase in ("forward", "recompute") and op.name in SAVING:
            return _with_gradients(candidate.operator, positional, named)
        return candidate.operator(*positional, **named)

    def _value(self, slot: Slot, op: Op) -> Any:
        if isinstance(slot, Constant):
            return slot.value
        if isinstance(slot, TensorArgument):
            return self._tensor(slot, DTYPES[slot.dtype])
        if isinstance(slot, Indices):
            shapes = self._neighbors.indices_of(op)
            if shapes is None:
                raise ValueError("the indices are not recorded")
            with _without_capture():
                return [torch.empty(shape, dtype=torch.int64, device="meta") for shape in shapes]
        tensors = [item for item in slot.items if isinstance(item, TensorArgument)]
        if not slot.items:
            raise ValueError("the tensors of the list are not recorded")
        common = None
        if any(not tensor.dtype for tensor in tensors):
            common = self._neighbors.dtype_of_list(op, tensors)
        return [
            self._tensor(item, DTYPES[item.dtype] if item.dtype else common)
            if isinstance(item, TensorArgument)
            else None
            for item in slot.items
        ]

    def _tensor(self, spec: TensorArgument, dtype: torch.dtype | None) -> Tensor:
        """Return the tensor with the id in the trace, or a new one."""
        key = (spec.key, spec.dims, dtype) if spec.key is not None else None
        if key is not None:
            found = self._live.get(key)
            if found is not None and (spec.strides is None or found.stride() == spec.strides):
                return found
        if any(size < 0 for size in spec.dims):
            raise ValueError("a negative size")
        with _without_capture():
            if spec.strides is None:
                made = torch.empty(spec.dims, dtype=dtype, device="meta")
            else:
                made = torch.empty_strided(spec.dims, spec.strides, dtype=dtype, device="meta")
        if key is not None:
            self._live[key] = made
        return made

    def _keep(self, outputs: Sequence[Argument], result: Any) -> None:
        """Remember what an operator returned under the ids in the trace, which are addresses and are used again."""
        results = result if isinstance(result, (list, tuple)) else (result,)
        for stated, value in zip(outputs, results, strict=False):
            if isinstance(stated, ListArgument) and isinstance(value, (list, tuple)):
                self._keep(stated.items, value)
            elif isinstance(stated, TensorArgument) and stated.key is not None and isinstance(value, Tensor):
                self._live[stated.key, tuple(value.shape), value.dtype] = value


def _with_gradients(operator: Any, positional: Sequence[Any], named: dict[str, Any]) -> Any:
    """Run an operator that keeps more if a backward pass follows: a mask, statistics."""
    names = (argument.name for argument in operator._schema.arguments)
    values = (value for name, value in zip(names, positional, strict=False) if not name.startswith("running_"))
    tensors = [x for x in values if isinstance(x, Tensor) and x.is_floating_point() and not x.requires_grad]
    if operator._schema.is_mutable:
        tensors = []  # autograd refuses to change a tensor that needs a gradient itself
    for tensor in tensors:
        tensor.requires_grad_()
    try:
        with torch.enable_grad():
            return operator(*positional, **named)
    finally:
        for tensor in tensors:
            if tensor.is_leaf:
                tensor.requires_grad_(False)


def _operand(value: Argument) -> Operand | None:
    """Return the operand of a tensor of an operator that is not known here."""
    if not isinstance(value, TensorArgument) or any(size < 0 for size in value.dims):
        return None
    dtype = DTYPES.get(value.dtype)
    return None if dtype is None else Operand(value.dims, dtype_name(dtype))


def _in_role(value: Any, role: Role) -> Operand | None:
    """Return an operand in a role; None for anything else."""
    return Operand(value.shape, value.dtype, role) if isinstance(value, Operand) else None


def _value(value: Argument) -> Any:
    """Return an argument as rules of plug-ins take it: an operand, or a number, a text or a list of them."""
    return value.value if isinstance(value, Constant) else _operand(value)


def _namespace(op: Op) -> str:
    """Return a namespace for the name of a span that has none, so that users can name a calculator for it."""
    return str((op.details or {}).get("kernel_backend", "triton" if op.name.startswith("triton_") else "span"))


def _outputs(op: Op) -> list[Operand]:
    return [found for x in op.outputs if (found := _operand(x)) is not None]


def _settings(op: Op) -> dict[str, Any]:
    """Return the numbers and texts among the arguments of an operator that is not known here, by position."""
    found = {f"arg{i}": x.value for i, x in enumerate(op.arguments or ()) if isinstance(x, Constant)}
    return {name: tuple(x) if isinstance(x, list) else x for name, x in found.items() if _is_plain(x)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 64 and all(isinstance(x, (bool, int, float)) for x in value)
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 200)
