"""The layer that the docstring of a calculator describes, on symbols and on integers."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

import sympy

from costcore.ir import Layer, Tensor
from tests.calculators.layer_costs import CALCULATORS, as_number

# The inputs may take several lines.
SHAPES = r"^Shapes{of}: (?P<inputs>[^>]*)-> (?P<outputs>.+)$"
SETTINGS = r"^Settings{of}: (?P<settings>.+)$"
OPERAND = re.compile(r"(\w+)\[([^\]]*)\]")


def names(expression: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)} - {"dict"}


def evaluate(expression: str) -> Any:
    symbols = {name: sympy.Symbol(name, integer=True, positive=True) for name in names(expression)}
    return eval(expression, {"dict": dict}, symbols)


def tensors(text: str) -> dict[str, Tensor]:
    return {name: Tensor(evaluate(f"({dims},)" if dims else "()")) for name, dims in OPERAND.findall(text)}


def line_of(op: str, pattern: str, manual: str) -> re.Match[str] | None:
    """Return the line of a docstring for one operator, "Shapes of add, sub: …", or else the line for all."""
    for of in (rf" of (?:\w+, )*{op}(?:, \w+)*", ""):
        if match := re.search(pattern.replace("{of}", of), manual, re.MULTILINE):
            return match
    return None


def symbolic_layer(op: str) -> Layer:
    """Return the symbolic layer that the docstring of an operator's calculator describes."""
    manual = inspect.getdoc(CALCULATORS[op]) or ""
    shapes, settings = line_of(op, SHAPES, manual), line_of(op, SETTINGS, manual)
    assert shapes, f"the docstring of the calculator of {op} has no line 'Shapes:'"
    attrs = evaluate(f"dict({settings['settings']})") if settings else {}
    return Layer(op, tensors(shapes["inputs"]), tensors(shapes["outputs"]).values(), attrs)


def integer_values(layer: Layer) -> dict[sympy.Symbol, int]:
    """Return an even integer for every symbol, so that halves and groups are integers; 2 for the groups."""
    found: set[sympy.Symbol] = set()
    layer.map_dims(lambda value: found.update(getattr(value, "free_symbols", ())) or value)
    symbols = sorted(found, key=str)
    return {symbol: 2 if str(symbol) == "G" else 2 * i for i, symbol in enumerate(symbols, start=2)}


def substitute(value: Any, values: Mapping[sympy.Symbol, int]) -> Any:
    """Return ``value`` with integers for its symbols; a value without symbols is returned as it is."""
    return as_number(value.subs(values)) if hasattr(value, "free_symbols") else value
