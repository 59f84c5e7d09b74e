"""Finds the overload of an operator that a trace recorded, and what to pass to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch

from .dtypes import BY_CODE, DTYPES, FORMATS, WRAPPED
from .records import Argument, Constant, ListArgument, Missing, TensorArgument

NAMESPACES_NOT_RUN = frozenset(("prim", "profiler", "c10d", "_c10d_functional", "rpc", "inductor", "static_runtime"))
"""Namespaces whose operators have effects, or need what a trace does not have."""

NOT_RUN = frozenset(("aten::from_file", "aten::save", "aten::manual_seed", "aten::set_data"))
"""Operators of PyTorch that do more than compute."""

MANY_RESULTS = frozenset(
    ("unbind", "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
)
MOST_RESULTS = 2**16
"""The most tensors that one call may return. A damaged file may ask for billions."""

META = torch.device("meta")

GUESSES = {"output_mask": (True, True, True), "dim": -1, "dim0": -1, "dim1": -1, "index": 0}
"""Usual values of arguments without a default that traces of old releases leave out: all gradients, the last axis."""


class RefusedError(Exception):
    """These arguments cannot be those of this overload; the message says why."""


class Indices(NamedTuple):
    """The list of indices of ``aten::index``, which traces leave out."""


Slot: TypeAlias = "TensorArgument | ListArgument | Constant | Indices"
"""What is passed for one argument."""


class Candidate(NamedTuple):
    """An overload, and what to pass to it.

    Attributes:
        operator: the overload.
        positional: what is passed by position.
        named: what is passed by name.
        assumed: names of the arguments that have a value which the trace leaves out, and that took a usual one.
    """

    operator: Any
    positional: tuple[Slot, ...]
    named: tuple[tuple[str, Slot], ...]
    assumed: tuple[str, ...]


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
    """Return the overloads that take these arguments, the likeliest first.

    A trace has all arguments, defaults included: overloads with as many arguments come first, and among those the ones
    that return their result. Of an operator that TorchScript ran, a trace has all values of the stack of its
    interpreter, of which the last are the arguments.

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
    """Return whether an overload of an operator takes a number at a position, where others take a tensor."""
    declared = (arguments[position] for _, arguments in overloads(name) if len(arguments) > position)
    return any(str(argument.type) in ("number", "Scalar") for argument in declared)


def _slot(operator: Any, argument: Any, value: Argument, position: int, assumed: list[str]) -> Slot | None:
    """Return what is passed for one argument; None if its default is to be used.

    Raises:
        RefusedError: if the value cannot be that of this argument.
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
            return None  # of no cost, whatever the shape
        return _missing_slot(argument, core, is_optional, value, assumed)
    return Constant(_constant(core, is_optional, value.value))


def _tensor_slot(operator: Any, core: str, value: TensorArgument, position: int) -> Slot:
    """Return a tensor, or the number that it stands for: a trace shows numbers as tensors without axes."""
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
    """Return a recorded value as the argument takes it."""
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
