"""The symbol (``+``, ``@=``, ``[]``) that a line of Python was running, from its byte code."""

from __future__ import annotations

import dis
import sys
from types import CodeType

_BINARY = {
    "add": "+",
    "and": "&",
    "floordiv": "//",
    "lshift": "<<",
    "matmul": "@",
    "mod": "%",
    "mul": "*",
    "or": "|",
    "pow": "**",
    "rshift": ">>",
    "sub": "-",
    "truediv": "/",
    "xor": "^",
}
"""The binary operators that have an in-place form, by the function of :mod:`operator` without an underscore."""

_COMPARISONS = {"eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<", "ne": "!="}

_COMPARISON_SHIFT = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
"""How many flags precede the number of the comparison in the argument of ``COMPARE_OP``."""

_WITH_ARGUMENT = frozenset(("BINARY_OP", "CALL_INTRINSIC_1", "COMPARE_OP"))
"""Instructions whose argument decides what they compute."""

_PREFIXES = (
    "BINARY_",
    "CALL_INTRINSIC_1",
    "COMPARE_OP",
    "CONTAINS_OP",
    "DELETE_SUBSCR",
    "INPLACE_",
    "STORE_S",
    "UNARY_",
)
"""How the names of the instructions begin that run a symbol."""


def operator_name(word: str) -> str:
    """Return the name of a function of :mod:`operator`, in which keywords end in an underscore."""
    return f"{word}_" if word in ("and", "or", "not") else word


def symbol_at(code: CodeType, offset: int) -> str:
    """Return the function of :mod:`operator` for the symbol at an offset in byte code; empty if there is no symbol.

    Args:
        code: the code of a frame.
        offset: ``f_lasti`` of the frame.
    """
    if offset < 0:
        return ""
    instructions = code.co_code
    while (name := dis.opname[instructions[offset]]) == "CACHE":
        offset -= 2
    return _SYMBOLS.get(_key(name, instructions[offset + 1]), "")


def _key(name: str, argument: int) -> tuple[str, int]:
    if name not in _WITH_ARGUMENT:
        return name, 0
    return name, argument >> _COMPARISON_SHIFT if name == "COMPARE_OP" else argument


def _symbols() -> dict[tuple[str, int], str]:
    """Return the functions of :mod:`operator` by instruction, from the byte code that this Python makes of symbols."""
    sources = {
        **{operator_name(word): f"a {symbol} b" for word, symbol in _BINARY.items()},
        **{f"i{word}": f"a {symbol}= b" for word, symbol in _BINARY.items()},
        **{word: f"a {symbol} b" for word, symbol in _COMPARISONS.items()},
        "neg": "-a",
        "pos": "+a",
        "invert": "~a",
        "contains": "a in b",
        "delitem": "del a[b]",
    }
    pairs = [
        *sources.items(),
        ("getitem", "a[b]"),
        ("getitem", "a[b:c]"),
        ("setitem", "a[b] = c"),
        ("setitem", "a[b:c] = d"),
    ]
    return {key: word for word, source in pairs for key in _keys(source)}


def _keys(source: str) -> list[tuple[str, int]]:
    instructions = dis.get_instructions(compile(source, "", "exec"))
    return [_key(each.opname, each.arg or 0) for each in instructions if each.opname.startswith(_PREFIXES)]


_SYMBOLS = _symbols()
