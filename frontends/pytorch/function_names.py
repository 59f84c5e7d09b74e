"""Qualified names of the functions that a ``TorchFunctionMode`` receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import MethodWrapperType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket
from torch.nn import functional

from costcore.trace.symbols import operator_name

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
"""The methods of a tensor that run for a symbol, and the function of :mod:`operator` for that symbol."""

_METHODS_OF_SYMBOLS = {
    "div": "truediv",
    **{word: word for word in ("add", "and", "contains", "delitem", "eq", "floordiv", "ge", "getitem", "gt", "invert")},
    **{word: word for word in ("le", "lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "or", "pos", "pow")},
    **{word: word for word in ("rshift", "setitem", "sub", "truediv", "xor")},
}
"""The same for methods such as ``__mul__``, by their names without underscores; those of reflected and in-place symbols
start with ``r`` and ``i``."""


class Spelling(NamedTuple):
    """How a function is named.

    Attributes:
        name: its qualified name.
        method: the method ``x.add`` that a call may have spelled, if the function also runs for a symbol; ``""`` if it
            runs only for a symbol, or never.
        symbol: name of the function of :mod:`operator` for that symbol; ``""`` if it runs for none.
    """

    name: str
    method: str = ""
    symbol: str = ""


def spelling_of(function: Any) -> Spelling:
    """Return how a function is named."""
    try:
        found = _spellings().get(function)
    except TypeError:  # a function of the user that cannot be hashed
        found = None
    return found or Spelling(_other_name(function))


@cache
def _spellings() -> dict[Any, Spelling]:
    """Return the functions of PyTorch with their names."""
    found: dict[Any, Spelling] = {}
    for is_private in (False, True):
        for namespace in _NAMESPACES:
            for name, function in _functions(namespace):
                if name.startswith("_") == is_private:
                    prefix = TENSOR if namespace is Tensor else namespace.__name__
                    found.setdefault(function, _spelling(f"{prefix}.{name}", namespace is Tensor))
    for function, choices in boolean_dispatched.items():
        found |= {choices[key]: found[function] for key in ("if_true", "if_false") if function in found}
    return found


def _functions(namespace: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of a namespace, documented ones first: ``torch.dsmm`` is an old name of ``torch.mm``."""
    named = [(name, getattr(namespace, name, None)) for name in dir(namespace)]
    for name, function in sorted(named, key=lambda each: not getattr(each[1], "__doc__", None)):
        if callable(function) and not isinstance(function, type) and getattr(function, "__hash__", None) is not None:
            yield name, function


def _spelling(name: str, is_method: bool) -> Spelling:
    return _spelling_of_method(name.rpartition(".")[2]) if is_method else Spelling(name)


def _spelling_of_method(name: str) -> Spelling:
    """Return how a method of a tensor is named."""
    if name.startswith("__"):
        symbol = _symbol_of(name.strip("_"))
        return Spelling(f"operator.{symbol}", "", symbol) if symbol else Spelling(f"{TENSOR}.{name}")
    word = _SYMBOLS.get(name.removesuffix("_"), "")
    if not word:
        return Spelling(f"{TENSOR}.{name}")
    return Spelling(f"{TENSOR}.{name}", name, f"i{word}" if name.endswith("_") else operator_name(word))


def _symbol_of(word: str) -> str:
    """Return the function of :mod:`operator` for a method such as ``__radd__``, by its name without underscores."""
    if word in _METHODS_OF_SYMBOLS:
        return operator_name(_METHODS_OF_SYMBOLS[word])
    known = _METHODS_OF_SYMBOLS.get(word[1:], "")
    return f"i{known}" if known and word.startswith("i") else operator_name(known) if word.startswith("r") else ""


def _other_name(function: Any) -> str:
    """Return the name of a function that is in none of the public namespaces."""
    if isinstance(function, MethodWrapperType):  # reads an attribute, such as T
        return f"{TENSOR}.{getattr(function.__self__, '__name__', '')}"
    if isinstance(function, OpOverload):
        return f"torch.ops.{function._schema.name.replace('::', '.')}"
    if isinstance(function, OpOverloadPacket):
        return f"torch.ops.{function._qualified_op_name.replace('::', '.')}"
    name, module = getattr(function, "__name__", type(function).__name__), getattr(function, "__module__", None)
    if getattr(function, "__objclass__", None) is not None:
        return _spelling_of_method(name).name
    if module in _INTERNAL or module == torch.__name__:
        return f"{_INTERNAL.get(module, module)}.{name}"
    return f"{module}.{getattr(function, '__qualname__', name)}"
