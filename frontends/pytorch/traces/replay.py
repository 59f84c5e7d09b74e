"""Replay of the operators of a trace on meta tensors, inside a capture.

The calls are as in a capture of the real run, with module and phase from the trace. Later sections choose overloads,
and infer the dtypes and indices in lists of tensors, which traces omit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from costcore.errors import CostError
from costcore.ir import Cost, Layer, Operations, Role
from costcore.ir import Tensor as Operand
from costcore.registry import plugin_rows
from costcore.trace.call import Call, Uncounted
from costcore.trace.run import Recorder
from costcore.translate import Native, Translator

from ..capture.dispatch_mode import CaptureMode
from ..naming import type_name
from ..operators.plan import BOOKKEEPING, BOOKKEEPING_NAMES, SAVING
from ..tensors import dtype_name
from .records import (
    PARAMETERS,
    Argument,
    Constant,
    ListArgument,
    Missing,
    Op,
    TensorArgument,
    Thread,
    collective_of,
    is_bookkeeping,
    is_node,
)

FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""The errors of operators for invalid arguments."""

_without_capture = torch._C._DisableTorchDispatch


class Replay:
    """The replay of operators, with the calls of each.

    Args:
        recorder: receives the calls that are not replayed: collectives, and calls that cannot be counted.
        mode: the capture, which records the operators.
        neighbors: finds the operators near another one.
        launching: the operators with work of the device in or below them; None if the trace has no work of a device.
        stopped: operators that an exception ended early, see :func:`.trace_file.stopped`.
        has_ids: whether tensors have ids.

    Attributes:
        calls: the positions of the calls of every recorded operator.
        unlisted: by operator, the number of calls that are not counted because the trace lacks a list of tensors.
        assumed: by operator and argument, the number of assumed values.
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
        self._equal: dict[tuple[str, str, int, bool], Sequence[tuple[Any, ...]]] = {}
        """A cache of the calls of operators that do not depend on their neighbors."""
        self._live: dict[Any, Tensor] = {}
        self._op: Op | None = None
        mode.recording.locate_by(self._where)

    def _where(self, number: int) -> tuple[str, str]:
        op = self._op
        return ("", "forward") if op is None else (op.module, op.phase)

    def run(self, roots: Iterable[Op]) -> None:
        """Run operators in order: in each tree, the outermost operators that can run."""
        waiting = [*roots]
        waiting.reverse()
        while waiting:
            op = waiting.pop()
            if op not in self._stopped and not self._take(op):
                waiting += reversed(op.children)

    def _take(self, op: Op) -> bool:
        # False: record the operators inside it instead.
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
        # Without shapes the call has no cost.
        if is_operator(op.name) and not self._is_skipped(op) and self._launches_work(op):
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
        """Record an unknown operator as one call if it launched work itself or has no children.

        Return whether its children belong to the call.
        """
        native = op.name if "::" in op.name else f"{_namespace(op)}::{op.name}"
        if op.arguments is not None and self._launches_work(op) and self._take_by_rule(op, native):
            return True
        is_own = bool(op.kernels) or ("::" in op.name and not op.children and self._launches_work(op))
        if not is_own or (is_node(op) and not op.kernels):
            return False
        operands = [_operand(x) for x in op.arguments or ()]
        layer = Layer(native, {f"x{i}": x for i, x in enumerate(filter(None, operands))}, _outputs(op), _settings(op))
        is_known = op.arguments is None or is_operator(op.name)
        if is_known and op.arguments is not None:
            self.unlisted[op.name] += 1
        cost = None if op.details is None or "flops" not in op.details else self._cost_of_trace(op.details, native)
        self._add(op, layer, Uncounted.NO_SHAPES if is_known and cost is None else None, native, cost)
        return False

    def _cost_of_trace(self, details: Mapping[str, Any], native: str) -> Cost:
        self._recorder.assume(f"trace: {native}: FLOPs and bytes of XLA's cost analysis; all bytes count as read")
        n = details["flops"]
        products = n // 2 if details["product"] else 0
        return Cost(Operations(fma=products, add=n - 2 * products), details["bytes"], 0, {}, products)

    def _take_by_rule(self, op: Op, native: str) -> bool:
        names = [name for name in (native, f"{native.partition('::')[0]}::*") if self._rules.has_row(name)]
        # A node of the backward pass has gradients only: take the arguments of its forward call.
        made = op if op.forward is None else op.forward
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

    def _launches_work(self, op: Op) -> bool:
        return self._launching is None or op in self._launching

    def _add(
        self, op: Op, layer: Layer, uncounted: Uncounted | None, native: str = "", cost: Cost | None = None
    ) -> None:
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
            ),
            cost,
        )
        self.calls[op] = range(position, position + 1)

    def _replay(self, op: Op) -> bool:
        assert op.arguments is not None
        key = op.name, op.schema, id(op.arguments)
        equal = (*key, _saves(op))
        rows = self._equal.get(equal)
        if rows is not None:
            self._log.repeat(rows, op.module, op.phase)
            return True
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
            # A branch on this number would be an assumption, but the trace contains the operators that ran.
            if isinstance(result, (bool, int, float, complex)):
                self._recorder.forget_assumptions(mark)
            for name in candidate.assumed:
                self.assumed[op.name, name] += 1
            if self._has_ids:
                self._keep(op.outputs, result)
            elif candidate.is_complete and self._recorder.checkpoint().assumptions == mark.assumptions:
                rows = self._log.rows_since(before)
                if rows is not None:
                    self._equal[equal] = rows
            if candidate is not found[0] and not self._has_ids:
                self._candidates[key] = (candidate, *(each for each in found if each is not candidate))
            return True
        return False

    def _call(self, candidate: Candidate, op: Op) -> Any:
        positional = [self._value(slot, op) for slot in candidate.positional]
        named = {name: self._value(slot, op) for name, slot in candidate.named}
        if _saves(op):
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
        # Ids are memory addresses, which are reused: the latest tensor counts.
        results = result if isinstance(result, (list, tuple)) else (result,)
        for stated, value in zip(outputs, results, strict=False):
            if isinstance(stated, ListArgument) and isinstance(value, (list, tuple)):
                self._keep(stated.items, value)
            elif isinstance(stated, TensorArgument) and stated.key is not None and isinstance(value, Tensor):
                self._live[stated.key, tuple(value.shape), value.dtype] = value


def _saves(op: Op) -> bool:
    return op.sequence >= 0 and op.phase in ("forward", "recompute") and op.name in SAVING


def _with_gradients(operator: Any, positional: Sequence[Any], named: dict[str, Any]) -> Any:
    # An operator saves more, such as a mask or statistics, if a backward pass follows.
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
    if not isinstance(value, TensorArgument) or any(size < 0 for size in value.dims):
        return None
    dtype = DTYPES.get(value.dtype)
    return None if dtype is None else Operand(value.dims, dtype_name(dtype))


def _in_role(value: Any, role: Role) -> Operand | None:
    return Operand(value.shape, value.dtype, role) if isinstance(value, Operand) else None


def _value(value: Argument) -> Any:
    return value.value if isinstance(value, Constant) else _operand(value)


def _namespace(op: Op) -> str:
    # A span without a namespace gets one, so that users can name a calculator for it.
    return str((op.details or {}).get("kernel_backend", "triton" if op.name.startswith("triton_") else "span"))


def _outputs(op: Op) -> list[Operand]:
    return [found for x in op.outputs if (found := _operand(x)) is not None]


def _settings(op: Op) -> dict[str, Any]:
    found = {f"arg{i}": x.value for i, x in enumerate(op.arguments or ()) if isinstance(x, Constant)}
    return {name: tuple(x) if isinstance(x, list) else x for name, x in found.items() if _is_plain(x)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 64 and all(isinstance(x, (bool, int, float)) for x in value)
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 200)


# The overloads that a trace may have recorded, and their arguments


NAMESPACES_NOT_RUN = frozenset(("prim", "profiler", "c10d", "_c10d_functional", "rpc", "inductor", "static_runtime"))
"""Namespaces whose operators have side effects, or need data that a trace lacks."""

NOT_RUN = frozenset(("aten::from_file", "aten::save", "aten::manual_seed", "aten::set_data"))
"""Operators of PyTorch that do more than compute."""

MANY_RESULTS = frozenset(
    ("unbind", "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
)

MOST_RESULTS = 2**16
"""Maximum tensors that one call may return; a damaged file may ask for billions."""

META = torch.device("meta")

GUESSES = {"output_mask": (True, True, True), "dim": -1, "dim0": -1, "dim1": -1, "index": 0}
"""Typical values of required arguments that traces of old releases omit: all gradients, the last axis."""


class RefusedError(Exception):
    """The error for arguments that do not fit an overload."""


class Indices(NamedTuple):
    """A placeholder for the list of indices of ``aten::index``, which traces omit."""


Slot: TypeAlias = "TensorArgument | ListArgument | Constant | Indices"
"""The value that is passed for one argument."""


class Candidate(NamedTuple):
    """An overload and its arguments.

    Attributes:
        operator: the overload.
        positional: the positional arguments.
        named: the keyword arguments.
        assumed: names of the arguments whose value the trace omits, and which got a typical value.
    """

    operator: Any
    positional: tuple[Slot, ...]
    named: tuple[tuple[str, Slot], ...]
    assumed: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is assumed or inferred from other operators."""
        slots = (*self.positional, *(slot for _, slot in self.named))
        lists = [slot.items for slot in slots if isinstance(slot, ListArgument)]
        is_typed = all(
            isinstance(x, Missing) or (isinstance(x, TensorArgument) and x.dtype) for items in lists for x in items
        )
        return not self.assumed and is_typed and not any(isinstance(slot, Indices) for slot in slots)


@lru_cache(maxsize=1 << 12)
def overloads(name: str) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """Return the overloads of an operator that this PyTorch has, with their arguments; () for any other name."""
    namespace, separator, word = name.partition("::")
    if not separator or not namespace.isidentifier() or not word.isidentifier():
        return ()
    if namespace in NAMESPACES_NOT_RUN or name in NOT_RUN:
        return ()
    if not torch._C._jit_get_schemas_for_operator(name):
        return ()
    packet = getattr(getattr(torch.ops, namespace), word)
    found = [getattr(packet, overload) for overload in packet.overloads()]
    return tuple((operator, tuple(operator._schema.arguments)) for operator in found)


def is_operator(name: str) -> bool:
    """Return whether this PyTorch can run an operator of that name."""
    return bool(overloads(name))


def candidates(name: str, schema: str, arguments: Sequence[Argument]) -> tuple[Candidate, ...]:
    """Return the overloads that accept these arguments, the likeliest first.

    A trace has all arguments, defaults included: overloads with as many arguments come first, and among them overloads
    without ``out``. For an operator that TorchScript ran, a trace has all values of the interpreter's stack;
    the last ones are the arguments.

    Args:
        name: the name of the operator.
        schema: its schema with the name of the overload, if the trace has it.
        arguments: its arguments in order.
    """
    n = len(arguments)
    stated = schema.partition("(")[0]
    fitting = []
    most = max((len(declared) for _, declared in overloads(name) if not _is_out(declared)), default=n)
    for operator, declared in overloads(name):
        if len(declared) < min(n, most):
            continue
        is_stated = stated in (operator._schema.name, str(operator.name())) and stated == operator.name()
        try:
            found = _bind(operator, declared, arguments[max(n - len(declared), 0) :])
        except RefusedError:
            continue
        fitting.append(((not is_stated, len(declared) != n, len(found.assumed), _is_out(declared)), found))
    fitting.sort(key=lambda pair: pair[0])
    return tuple(found for _, found in fitting)


def _is_out(declared: Sequence[Any]) -> bool:
    return any(argument.is_out for argument in declared)


def _bind(operator: Any, declared: Sequence[Any], arguments: Sequence[Argument]) -> Candidate:
    positional: list[Slot] = []
    named: list[tuple[str, Slot]] = []
    assumed: list[str] = []
    for position, argument in enumerate(declared):
        if position < len(arguments):
            value = arguments[position]
            if argument.name == "normalized_shape" and isinstance(value, Missing):
                value = _shape_of_weight(declared, arguments)
            slot = _slot(operator, argument, value, position, assumed)
        elif argument.name == "device":
            slot = Constant(META)
        elif argument.has_default_value():
            continue
        else:
            raise RefusedError(f"{argument.name} is missing")
        if slot is None and not argument.has_default_value():
            slot = Constant(list(arguments[0].dims) if isinstance(arguments[0], TensorArgument) else [])
        if argument.kwarg_only or len(positional) < position:
            if slot is not None:
                named.append((argument.name, slot))
        elif slot is not None:
            positional.append(slot)
    _check_size(operator, positional)
    return Candidate(operator, tuple(positional), tuple(named), tuple(assumed))


def _shape_of_weight(declared: Sequence[Any], arguments: Sequence[Argument]) -> Constant:
    for argument, value in zip(declared, arguments, strict=False):
        if argument.name == "weight" and isinstance(value, TensorArgument):
            return Constant(list(value.dims))
    raise RefusedError("the normalized shape is not recorded")


def _check_size(operator: Any, positional: Sequence[Slot]) -> None:
    word = operator._schema.name.partition("::")[2]
    first = positional[0] if positional else None
    if word in MANY_RESULTS and isinstance(first, TensorArgument) and max(first.dims, default=0) > MOST_RESULTS:
        raise RefusedError("too many results")


@lru_cache(maxsize=1 << 12)
def _takes_number(name: str, position: int) -> bool:
    # Whether some overload takes a number at this position.
    declared = (arguments[position] for _, arguments in overloads(name) if len(arguments) > position)
    return any(str(argument.type) in ("number", "Scalar") for argument in declared)


def _slot(operator: Any, argument: Any, value: Argument, position: int, assumed: list[str]) -> Slot | None:
    """Return the value to pass for one argument; None for its default.

    Raises:
        RefusedError: if the value does not fit the argument.
    """
    kind = str(getattr(argument, "real_type", argument.type))
    is_optional = kind.startswith("Optional[")
    core = kind[9:-1] if is_optional else kind
    if isinstance(value, TensorArgument):
        return _tensor_slot(operator, core, value, position)
    if argument.name == "device" or core == "Device":
        return Constant(META)
    if argument.name in ("pin_memory", "layout") or core in ("Layout", "Generator"):
        return None if argument.has_default_value() or not is_optional else Constant(None)
    if isinstance(value, ListArgument):
        if core == "List[Optional[Tensor]]" or (core == "List[Tensor]" and None not in value.items):
            return value
        raise RefusedError(f"{argument.name} is not a list of tensors")
    if isinstance(value, Missing):
        if operator._schema.name in ("aten::view", "aten::_unsafe_view") and argument.name == "size":
            assumed.append(argument.name)
            return None  # a view costs nothing, whatever its shape
        return _missing_slot(argument, core, is_optional, value, assumed)
    return Constant(_constant(core, is_optional, value.value))


def _tensor_slot(operator: Any, core: str, value: TensorArgument, position: int) -> Slot:
    # A trace shows numbers as tensors without axes.
    if core in ("number", "Scalar") and value.dims == ():
        return Constant(WRAPPED.get(value.dtype, 1))
    if core != "Tensor":
        raise RefusedError("a tensor")
    if value.dtype not in DTYPES:
        raise RefusedError(f"the dtype {value.dtype}")
    is_number = position > 0 and value.dims == () and value.dtype in WRAPPED
    if is_number and _takes_number(operator._schema.name, position):
        return Constant(WRAPPED[value.dtype])
    return value


def _missing_slot(argument: Any, core: str, is_optional: bool, value: Missing, assumed: list[str]) -> Slot | None:
    if core == "List[Optional[Tensor]]":
        return Indices()
    if core in ("Tensor", "List[Tensor]") and not is_optional:
        raise RefusedError(f"{argument.name} is undefined")
    if core in ("SymInt", "int", "List[bool]") and argument.name in GUESSES and not argument.has_default_value():
        assumed.append(argument.name)
        return Constant(GUESSES[argument.name])
    if value.is_given:
        is_size = core in ("SymInt", "int") and not argument.has_default_value()
        if core == "ScalarType" or "List" in core or is_size:
            raise RefusedError(f"the value of {argument.name} is not recorded")
        assumed.append(argument.name)
        if core in ("number", "Scalar"):
            return Constant(1)
    if is_optional:
        return Constant(None)
    if argument.has_default_value():
        return None
    guesses: dict[str, Any] = {"bool": False, "float": 0.5, "number": 1, "Scalar": 1}
    if core in guesses:
        return Constant(guesses[core])
    if core in ("List[int]", "List[SymInt]"):
        return Constant([])
    raise RefusedError(f"{argument.name} is not recorded")


def _constant(core: str, is_optional: bool, value: Any) -> Any:
    if value is None:
        if is_optional:
            return None
        raise RefusedError("None")
    if core == "ScalarType":
        if type(value) is not int or value not in BY_CODE:
            raise RefusedError("no dtype")
        return BY_CODE[value]
    if core == "MemoryFormat":
        return FORMATS[value] if value in range(len(FORMATS)) else None
    is_list = isinstance(value, (list, tuple))
    if core.startswith("List[") and "Tensor" not in core:
        items = list(value) if is_list else [value]
        if core not in ("List[str]", "List[bool]") and not all(isinstance(x, (int, float, complex)) for x in items):
            raise RefusedError("no numbers")
        if core in ("List[int]", "List[SymInt]") and not all(isinstance(x, int) for x in items):
            raise RefusedError("no whole numbers")
        return items
    if is_list or "Tensor" in core:
        raise RefusedError("a list of numbers")
    if core == "str" or isinstance(value, str):
        if core != "str" or not isinstance(value, str):
            raise RefusedError("a text")
        return value
    if core in ("int", "SymInt") and not isinstance(value, int):
        raise RefusedError("a fraction")
    if core == "float" and not isinstance(value, (int, float)):
        raise RefusedError("no number")
    return bool(value) if core == "bool" else value


# Guesses for lists of tensors: their dtype, and the indices of ``aten::index``


INTEGERS = ("int", "long int", "long")
"""The dtypes of indices in a trace."""

NEAR = 60
"""How many operators before and after an operator are searched."""

_WIDTH = re.compile(r"OpaqueType<(\d)u?>")

_BY_WIDTH = {1: torch.bool, 2: torch.bfloat16, 4: torch.float32, 8: torch.int64}


class Neighbors:
    """Infers missing dtypes and indices of an operator from the operators near it.

    Args:
        threads: the operators of each thread by their start.
    """

    def __init__(self, threads: Mapping[Thread, Sequence[Op]]) -> None:
        self._threads = threads
        for ops in threads.values():
            for at, op in enumerate(ops):
                op.position = at
        floats = ("float", "c10::BFloat16", "c10::Half", "double")
        counted = Counter(
            x.dtype for ops in threads.values() for op in ops for x in tensors_of(op) if x.dtype in floats
        )
        self._common = DTYPES[counted.most_common(1)[0][0]] if counted else torch.float32

    def dtype_of_list(self, op: Op, items: Sequence[TensorArgument]) -> torch.dtype:
        """Return the likeliest dtype of a list of tensors among the arguments of an operator.

        In this order: the dtype in the name of a kernel below the operator; the dtype of a tensor of the same shape, or
        of the shape of the result, in a child, a parent or a near operator; the dtype of another argument; the most
        common dtype of the trace.
        """
        width = None
        for kernel in _kernels(op):
            if (found := _WIDTH.search(kernel)) is not None:
                width = int(found[1])
            elif "multi_tensor_apply" in kernel and (dtype := dtype_in(kernel)) is not None:
                return dtype
        wanted = {*_result_shapes(op, items), *(item.dims for item in items)}
        for other in (*_inside(op), *self._near(op)):
            for tensor in tensors_of(other):
                dtype_here = DTYPES.get(tensor.dtype)
                if dtype_here is not None and tensor.dims in wanted and width in (None, dtype_here.itemsize):
                    return dtype_here
        if width in _BY_WIDTH:
            return _BY_WIDTH[width]
        around: Op | None = op
        while around is not None:
            for tensor in tensors_of(around):
                if tensor.dtype in DTYPES:
                    return DTYPES[tensor.dtype]
            around = around.parent
        return self._common

    def indices_of(self, op: Op) -> list[torch.Size] | None:
        """Return the shapes of the indices of ``aten::index`` and ``aten::index_put_``; None if they are unknown.

        Children that convert or reshape indices have their shapes. Otherwise, the shapes follow from a near operator
        that reads the result: a tensor of the same dtype, with the axes without an index as its last axes.
        """
        found = [x for x in op.arguments or () if isinstance(x, TensorArgument)]
        if not found:
            return None
        x = found[0]
        if "put" in op.name:
            values = found[-1].dims if len(found) > 1 else ()
            kept = next((n for n in range(len(x.dims) + 1) if _ends_with(values, x.dims[n:])), len(x.dims))
            return [torch.Size(values[: len(values) - len(x.dims) + kept] or (1,))] * max(kept, 1)
        inside = {y.dims for inner in _inside(op) for y in tensors_of(inner) if y.dtype in INTEGERS}
        if len(inside) == 1 and x.dtype not in INTEGERS:
            lead = inside.pop()
            read = {y.dims for other in self._after(op) for y in tensors_of(other) if y.dtype == x.dtype}
            n = next((n for n in range(1, len(x.dims) + 1) if (*lead, *x.dims[n:]) in read), 1)
            return [torch.Size(lead)] * n
        for other in self._after(op):
            for tensor in tensors_of(other):
                if tensor.dtype != x.dtype or tensor.dims == x.dims:
                    continue
                for n in range(1, len(x.dims) + 1):
                    lead = tensor.dims[: len(tensor.dims) - len(x.dims) + n]
                    if lead and _ends_with(tensor.dims, x.dims[n:]):
                        return [torch.Size(lead)] * n
        return None

    def _near(self, op: Op) -> Iterator[Op]:
        yield from self._after(op)
        ops, at = self._threads[op.thread], op.position
        yield from reversed(ops[max(0, at - NEAR) : at])

    def _after(self, op: Op) -> Sequence[Op]:
        ops, at = self._threads[op.thread], op.position
        return ops[at + 1 : at + NEAR]


def _ends_with(dims: Sequence[int], end: Sequence[int]) -> bool:
    return len(dims) >= len(end) and tuple(dims[len(dims) - len(end) :]) == tuple(end)


def tensors_of(op: Op) -> Iterator[TensorArgument]:
    """Yield the tensors among the arguments of an operator, without lists."""
    return (x for x in op.arguments or () if isinstance(x, TensorArgument))


def _inside(op: Op) -> Iterator[Op]:
    waiting = [*op.children]
    for _ in range(NEAR):
        if not waiting:
            return
        inner = waiting.pop(0)
        yield inner
        waiting += inner.children


def _kernels(op: Op) -> Iterator[str]:
    for each in (op, *_inside(op)):
        yield from (kernel.name for kernel in each.kernels)


def _result_shapes(op: Op, items: Sequence[TensorArgument]) -> Iterable[tuple[int, ...]]:
    word = op.name.partition("::")[2]
    shapes = [list(item.dims) for item in items]
    dims = [x.value for x in op.arguments or () if isinstance(x, Constant) and type(x.value) is int]
    if word not in ("cat", "stack", "concat") or not shapes or len({len(shape) for shape in shapes}) > 1:
        return
    n, dim = len(shapes[0]), dims[0] if dims else 0
    if word == "stack" and -n - 1 <= dim <= n:
        shape = shapes[0]
        shape.insert(dim % (n + 1), len(shapes))
        yield tuple(shape)
    elif word != "stack" and -n <= dim < n:
        total = sum(each[dim] for each in shapes)
        shapes[0][dim] = total
        yield tuple(shapes[0])


# Dtypes by their names and numbers in traces


_NAMES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "bool": "bool",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::quint8": "quint8",
    "c10::qint8": "qint8",
    "c10::qint32": "qint32",
}

_CODES = {
    **dict(enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32"))),
    9: "complex64",
    10: "complex128",
    11: "bool",
    12: "qint8",
    13: "quint8",
    14: "qint32",
    15: "bfloat16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
    44: "float8_e8m0fnu",
    45: "float4_e2m1fn_x2",
}
"""The dtypes by number of ``c10::ScalarType``, as arguments of a trace."""

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, dtype) for name, dtype in _NAMES.items() if hasattr(torch, dtype)
}
"""Dtypes by the name in a trace; releases of PyTorch lack some of them."""

BY_CODE: dict[int, torch.dtype] = {
    code: getattr(torch, dtype) for code, dtype in _CODES.items() if hasattr(torch, dtype)
}

FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
"""Memory formats by number."""

WRAPPED = {"double": 1.0, "long int": 1, "long": 1, "bool": True, "c10::complex<double>": 1j}
"""The dtypes of Python numbers in a trace (0-d tensors there), with a number of each."""

_IN_KERNELS = (
    ("BFloat16", "bfloat16"),
    ("bfloat16", "bfloat16"),
    ("Half", "float16"),
    ("float", "float32"),
    ("double", "float64"),
    ("long", "int64"),
    ("int", "int32"),
)


def dtype_in(kernel: str) -> torch.dtype | None:
    """Return the dtype in the name of a kernel on a list of tensors; None without one."""
    metadata = kernel.rpartition("Metadata")[2]
    return next((getattr(torch, dtype) for word, dtype in _IN_KERNELS if word in metadata), None)
