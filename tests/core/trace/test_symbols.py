"""The symbol that a line was running, in the byte code of the running Python."""

from __future__ import annotations

import operator
import sys
from typing import Any

import pytest

from costcore.trace.call import symbol_at

METHODS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"),
    *("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul", "ror"),
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor"),
    *("ilshift", "irshift", "neg", "pos", "invert", "lt", "le", "eq", "ne", "gt", "ge"),
    *("getitem", "setitem", "delitem", "contains", "call"),
)

found: list[str] = []


def method(name: str) -> Any:
    def run(self: Any, *_: Any) -> Any:
        frame = sys._getframe(1)
        found.append(symbol_at(frame.f_code, frame.f_lasti))
        return True if name == "contains" else self

    return run


Value = type("Value", (), {f"__{name}__": method(name) for name in METHODS})

LINES = {
    "x + x": "add",
    "2 + x": "add",
    "x - 1": "sub",
    "2 - x": "sub",
    "x * x": "mul",
    "x / x": "truediv",
    "2 / x": "truediv",
    "x // x": "floordiv",
    "x % x": "mod",
    "x ** x": "pow",
    "2 ** x": "pow",
    "x @ x": "matmul",
    "x & x": "and_",
    "x | x": "or_",
    "1 | x": "or_",
    "x ^ x": "xor",
    "x << x": "lshift",
    "x >> x": "rshift",
    "-x": "neg",
    "+x": "pos",
    "~x": "invert",
    "x < x": "lt",
    "x <= x": "le",
    "x == x": "eq",
    "x != x": "ne",
    "x > x": "gt",
    "2 > x": "gt",
    "x >= x": "ge",
    "1 if x > x else 2": "gt",
    "x[0]": "getitem",
    "x[0:1]": "getitem",
    "x[0, 1:2]": "getitem",
    "2 in x": "contains",
    "2 not in x": "contains",
    "x[0] = 1": "setitem",
    "x[0:1] = 1": "setitem",
    "del x[0]": "delitem",
    "x += x": "iadd",
    "x -= x": "isub",
    "x *= x": "imul",
    "x /= x": "itruediv",
    "x //= x": "ifloordiv",
    "x %= x": "imod",
    "x **= x": "ipow",
    "x @= x": "imatmul",
    "x &= x": "iand",
    "x |= x": "ior",
    "x ^= x": "ixor",
    "x <<= x": "ilshift",
    "x >>= x": "irshift",
    "x.__add__(x)": "",
    "x(1)": "",
    "sum([x, x], x)": "",
}


@pytest.mark.parametrize("line", LINES)
def test_the_symbol_of_a_line(line):
    names: dict[str, Any] = {}
    exec(f"def f(x):\n for _ in range(50):\n  {line}", names)  # often enough for the interpreter to specialize it
    found.clear()
    names["f"](Value())
    assert {*found} == {LINES[line]}
    assert not LINES[line] or hasattr(operator, LINES[line])


def test_a_frame_that_has_not_begun():
    assert symbol_at(test_a_frame_that_has_not_begun.__code__, -1) == ""
