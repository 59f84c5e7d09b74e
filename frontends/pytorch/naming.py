"""Names of operators, ``aten::relu`` for ``F.relu``, ``relu`` or ``relu_``, and of API functions, ``torch.relu``.

The last sections are a flag that a ``with`` block sets, and the settings of PyTorch for a whole process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, MethodWrapperType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket
from torch.nn import Module, functional

from costcore.trace.call import operator_name

ATEN = "aten::"

HIGHER_ORDER = "higher_order::"

FUNCTIONAL = "torch.nn.functional::"

PUBLIC_NAMES = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "_conj": "conj",
    "_convolution": "convolution",
    "_embedding_bag": "embedding_bag",
    "_index_put_impl": "index_put",
    "_local_scalar_dense": "item",
    "_log_softmax": "log_softmax",
    "_prelu_kernel": "prelu",
    "_reshape_alias": "view",
    "_softmax": "softmax",
    "_to_copy": "to",
    "_unsafe_index": "index",
    "_unsafe_index_put": "index_put",
    "_unsafe_view": "view",
    "is_nonzero": "item",
}
"""Public operators by the name of the internal operator that runs."""

FUNCTIONAL_NAMES = {
    "cross_entropy": ("cross_entropy_loss",),
    "ctc_loss": ("ctc_loss",),
    "hardtanh": ("hardtanh",),
    "interpolate": (
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d"),
        *("upsample_trilinear3d", "upsample_bicubic2d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d"),
        *("_upsample_nearest_exact3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    ),
    "logsigmoid": ("log_sigmoid",),
    "nll_loss": ("nll_loss", "nll_loss_nd"),
    "relu6": ("relu6", "hardtanh"),
}
"""Operators of the functions in ``torch.nn.functional`` that have another name."""

_PREFIXES = ("torch.nn.functional.", "torch.ops.", "torch.Tensor.", "torch.", "F.")


def native_name(func: Any) -> str:
    """Return the full name of an operator that ran: its out-of-place form, without the overload."""
    if isinstance(func, OpOverload):
        return full_name(func._schema.name)
    if isinstance(func, FunctionType):
        return f"{func.__module__}::{func.__name__}"
    return HIGHER_ORDER + str(func.name())


def is_in_place(name: str) -> bool:
    """Return whether a full name names an in-place operator of PyTorch."""
    return name.startswith(ATEN) and name.endswith("_") and not name.endswith("__")


def full_name(name: str) -> str:
    """Return ``namespace::name`` of the public, out-of-place form of an operator."""
    if not name.startswith(ATEN):
        return name
    word = name[len(ATEN) : -1 if is_in_place(name) else None]
    return ATEN + PUBLIC_NAMES.get(word, word)


def type_name(native: str) -> str:
    """Return the name in reports: the full name, without the namespace of PyTorch's own operators."""
    return native.removeprefix(ATEN).removeprefix(HIGHER_ORDER).removeprefix(FUNCTIONAL)


def native_names(op: object) -> tuple[str, ...]:
    """Return the full names of an operator in any form users write it; () if it is not one of PyTorch's.

    These forms are operators (``torch.ops.aten.relu``, with or without overload), functions (``torch.relu``,
    ``torch.nn.functional.relu``, ``torch.Tensor.relu``), custom operators, and all of these as strings.
    """
    if isinstance(op, OpOverload):
        return (native_name(op),)
    if isinstance(op, OpOverloadPacket):
        return (full_name(op._qualified_op_name),)
    if isinstance(op, str):
        return _names_of_text(op)
    if isinstance(qualified := getattr(op, "_qualname", None), str) and "::" in qualified:
        return (qualified,)
    if isinstance(op, (type, FunctionType)) and (whole := _python_name(op)):
        return (whole,)
    module = getattr(op, "__module__", None) or getattr(getattr(op, "__objclass__", None), "__module__", None) or ""
    owner = getattr(op, "__self__", None)
    if not callable(op) or isinstance(op, type) or not (module.startswith("torch") or _is_torch(owner)):
        return ()
    return _names_of_text(getattr(op, "__name__", ""))


def _python_name(op: Any) -> str:
    # Only for classes of modules, ``autograd.Function`` classes, and functions outside of PyTorch.
    is_class = isinstance(op, type) and issubclass(op, (Module, torch.autograd.Function))
    is_function = isinstance(op, FunctionType) and op.__module__.partition(".")[0] != "torch"
    return f"{op.__module__}::{op.__qualname__}" if is_class or is_function else ""


def _is_torch(owner: object) -> bool:
    return owner is torch or getattr(owner, "__module__", "").startswith("torch")


def _names_of_text(word: str) -> tuple[str, ...]:
    if "::" in word:
        namespace, _, rest = word.partition("::")
        packet = f"{namespace}::{rest.partition('.')[0]}"
        is_one = namespace.isidentifier() and torch._C._jit_get_schemas_for_operator(packet)
        return (full_name(packet),) if is_one else ()
    for prefix in _PREFIXES:
        if word.startswith(prefix):
            word = word.removeprefix(prefix)
            break
    namespace, _, rest = word.partition(".")
    if rest and namespace != "aten":
        return _names_of_text(f"{namespace}::{rest}") or _names_of_python_path(word)
    name = (rest or namespace).partition(".")[0]
    names = FUNCTIONAL_NAMES.get(name, (name,))
    found = [full_name(ATEN + n) for n in names if torch._C._jit_get_schemas_for_operator(ATEN + n)]
    return tuple(dict.fromkeys(found))


def _names_of_python_path(word: str) -> tuple[str, ...]:
    # ``mamba_ssm.Mamba``: the name of the class, also before its package is imported.
    package, _, name = word.rpartition(".")
    if not all(part.isidentifier() for part in word.split(".")):
        return ()
    found = getattr(sys.modules.get(package), name, None)
    return ((_python_name(found) if isinstance(found, (type, FunctionType)) else "") or f"{package}::{name}",)


def arguments_of(native: str) -> frozenset[str] | None:
    """Return the argument names of all overloads of an operator; None if there is no such operator."""
    namespace, _, name = native.partition("::")
    schemas = torch._C._jit_get_schemas_for_operator(native) if namespace.isidentifier() and name else ()
    return frozenset(argument.name for schema in schemas for argument in schema.arguments) or None


# API functions: qualified names of the functions that a ``TorchFunctionMode`` receives


TENSOR = "torch.Tensor"

_NAMESPACES = (functional, torch.linalg, torch.fft, torch.special, torch.sparse, torch.nn.init, torch, Tensor)
"""Where public functions are found. A function in several namespaces has the name of the first: PyTorch documents
``torch.nn.functional.conv2d``, which is the same object as ``torch.conv2d``."""

_INTERNAL = {
    "torch._C._nn": functional.__name__,
    "torch._C._linalg": "torch.linalg",
    "torch._C._fft": "torch.fft",
    "torch._C._special": "torch.special",
}
"""The public namespace of functions that have no public name."""

_SYMBOLS = {
    "add": "add",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "div": "truediv",
    "eq": "eq",
    "floor_divide": "floordiv",
    "ge": "ge",
    "gt": "gt",
    "le": "le",
    "lt": "lt",
    "matmul": "matmul",
    "mul": "mul",
    "ne": "ne",
    "neg": "neg",
    "positive": "pos",
    "pow": "pow",
    "remainder": "mod",
    "sub": "sub",
}
"""Tensor methods that an operator symbol also calls, and the function of :mod:`operator` for that symbol."""

_METHODS_OF_SYMBOLS = {
    "div": "truediv",
    **{word: word for word in ("add", "and", "contains", "delitem", "eq", "floordiv", "ge", "getitem", "gt", "invert")},
    **{word: word for word in ("le", "lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "or", "pos", "pow")},
    **{word: word for word in ("rshift", "setitem", "sub", "truediv", "xor")},
}
"""The same for methods such as ``__mul__``, by their names without underscores. A prefix ``r`` marks reflected symbols,
``i`` in-place ones."""


class ApiName(NamedTuple):
    """The names of a function.

    Attributes:
        name: its qualified name.
        method: the name of a method that a symbol also runs, ``add`` for ``x.add(y)`` and ``x + y``; otherwise ``""``.
        symbol: the function of :mod:`operator` for a symbol that runs it; ``""`` if no symbol does.
    """

    name: str
    method: str = ""
    symbol: str = ""


def api_name_of(function: Any) -> ApiName:
    """Return the names of a function."""
    try:
        found = _api_names().get(function)
    except TypeError:  # a function of the user that cannot be hashed
        found = None
    return found or ApiName(_other_name(function))


@cache
def _api_names() -> dict[Any, ApiName]:
    found: dict[Any, ApiName] = {}
    for is_private in (False, True):
        for namespace in _NAMESPACES:
            for name, function in _functions(namespace):
                if name.startswith("_") == is_private:
                    named = (
                        _api_name_of_method(name) if namespace is Tensor else ApiName(f"{namespace.__name__}.{name}")
                    )
                    found.setdefault(function, named)
    for function, choices in boolean_dispatched.items():
        found |= {choices[key]: found[function] for key in ("if_true", "if_false") if function in found}
    return found


def _functions(namespace: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    # Documented names first: ``torch.dsmm`` is an old name of ``torch.mm``.
    named = [(name, getattr(namespace, name, None)) for name in dir(namespace)]
    for name, function in sorted(named, key=lambda each: not getattr(each[1], "__doc__", None)):
        if callable(function) and not isinstance(function, type) and getattr(function, "__hash__", None) is not None:
            yield name, function


def _api_name_of_method(name: str) -> ApiName:
    if name.startswith("__"):
        symbol = _symbol_of(name.strip("_"))
        return ApiName(f"operator.{symbol}", "", symbol) if symbol else ApiName(f"{TENSOR}.{name}")
    word = _SYMBOLS.get(name.removesuffix("_"), "")
    if not word:
        return ApiName(f"{TENSOR}.{name}")
    return ApiName(f"{TENSOR}.{name}", name, f"i{word}" if name.endswith("_") else operator_name(word))


def _symbol_of(word: str) -> str:
    # ``__radd__`` has the symbol of ``__add__``, ``__iadd__`` has another one.
    if word in _METHODS_OF_SYMBOLS:
        return operator_name(_METHODS_OF_SYMBOLS[word])
    known = _METHODS_OF_SYMBOLS.get(word[1:], "")
    if known and word.startswith("i"):
        return f"i{known}"
    return operator_name(known) if word.startswith("r") else ""


def _other_name(function: Any) -> str:
    if isinstance(function, MethodWrapperType):  # reads an attribute, such as T
        return f"{TENSOR}.{getattr(function.__self__, '__name__', '')}"
    if isinstance(function, OpOverload):
        return f"torch.ops.{function._schema.name.replace('::', '.')}"
    if isinstance(function, OpOverloadPacket):
        return f"torch.ops.{function._qualified_op_name.replace('::', '.')}"
    name, module = getattr(function, "__name__", type(function).__name__), getattr(function, "__module__", None)
    if getattr(function, "__objclass__", None) is not None:
        return _api_name_of_method(name).name
    if module in _INTERNAL or module == torch.__name__:
        return f"{_INTERNAL.get(module, module)}.{name}"
    return f"{module}.{getattr(function, '__qualname__', name)}"


# Flags that a ``with`` block sets


class Flag:
    """A flag that is set inside its ``with`` blocks, which may nest.

    Attributes:
        is_set: whether such a block runs now.
    """

    is_set: bool

    __slots__ = ("_before", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self.is_set)
        self.is_set = True

    def __exit__(self, *_: object) -> None:
        self.is_set = self._before.pop()


# Settings of the whole process


def process_settings() -> tuple[object, ...]:
    """Return the settings that code can change for all later models of a process."""
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    return torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled(), *modes
