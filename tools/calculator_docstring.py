"""The docstring of a calculator: its prose, and the symbolic layer that its last lines describe."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from string import digits
from typing import Any

import sympy

from costcore.ir import Layer, Tensor
from costcore.translate import ROLES

FIELD = re.compile(
    r"^(?P<name>Shapes|Settings)(?: of (?P<ops>[\w, ]+))?:\s+"
    r"(?P<text>.+?)(?=\n\s*\n|\n(?:Shapes|Settings)(?: of [\w, ]+)?:|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A line such as `Shapes: x[N] -> y[N]`, or `Shapes of relu, gelu: …` for some of the operators of a calculator."""
OPERAND = re.compile(r"(\w+)\[([^\]]*)\](\?)?")
ROLE = re.compile(r":\w+:`([^`]+)`")
"""A cross-reference in Sphinx syntax, which Markdown does not have."""
OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
}


@dataclass(frozen=True)
class CalculatorDocstring:
    """The parts of a calculator's docstring.

    Attributes:
        prose: the docstring without the lines `Shapes:` and `Settings:`, as Markdown.
        shapes: the line `Shapes:` as written; "" if absent.
        settings: the line `Settings:` as written; "" if absent.
        of_ops: the lines `Shapes of OP:` and `Settings of OP:` by operator, as `shapes` and `settings`.
    """

    prose: str
    shapes: str
    settings: str
    of_ops: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, docstring: str) -> CalculatorDocstring:
        """Return the parts of a docstring whose indentation is removed."""
        fields: dict[str, str] = {}
        of_ops: dict[str, dict[str, str]] = {}
        for line in FIELD.finditer(docstring):
            text = " ".join(line["text"].split())
            if line["ops"] is None:
                fields[line["name"].lower()] = text
            else:
                for op in re.findall(r"\w+", line["ops"]):
                    of_ops.setdefault(op, {})[line["name"].lower()] = text
        prose = ROLE.sub(r"`\1`", FIELD.sub("", docstring)).replace("::\n", ":\n").strip()
        return cls(prose, fields.get("shapes", ""), fields.get("settings", ""), of_ops)

    def of(self, op: str) -> CalculatorDocstring:
        """Return the docstring with the shapes and settings of one operator."""
        return replace(self, **self.of_ops.get(op, {}))

    @property
    def summary(self) -> str:
        """The first line up to a colon or its full stop."""
        return self.prose.partition("\n")[0].partition(":")[0].rstrip(".")

    @property
    def optional(self) -> tuple[str, ...]:
        """The operands that may be absent: those marked `?`, and biases unless their gradient is an output."""
        inputs, outputs = map(OPERAND.findall, self._sides)
        gradients = {name for name, _, _ in outputs}
        return tuple(n for n, _, mark in inputs if mark or (n.rstrip(digits) == "b" and f"d{n}" not in gradients))

    @property
    def symbols(self) -> list[str]:
        """The names of the symbols in the order of formulas: symbols of the outputs first."""
        inputs, outputs = self._sides
        dims = " ".join(dims for _, dims, _ in OPERAND.findall(outputs + inputs))
        return list(dict.fromkeys(re.findall(r"[A-Za-z]\w*", dims)))

    def layer(self, op: str, without: tuple[str, ...] = ()) -> Layer:
        """Return the symbolic layer; its elements have one byte each, so that bytes read as elements."""
        inputs, outputs = (
            {name: _tensor(name, dims) for name, dims, _ in OPERAND.findall(side)} for side in self._sides
        )
        call = ast.parse(f"settings({self.settings})", mode="eval").body
        attrs = {word.arg: _value(word.value) for word in call.keywords}  # type: ignore[attr-defined]
        return Layer(op, {name: t for name, t in inputs.items() if name not in without}, outputs.values(), attrs)

    @property
    def _sides(self) -> tuple[str, str]:
        inputs, arrow, outputs = self.shapes.partition("->")
        if not arrow or not OPERAND.search(outputs):
            raise ValueError(f"got {self.shapes!r}, expected a line such as 'Shapes: x[N, C], b[C]? -> y[N, C]'")
        return inputs, outputs


def _tensor(name: str, dims: str) -> Tensor:
    role = ROLES.get(name.rstrip(digits), "data")
    return Tensor(_value(ast.parse(f"({dims},)" if dims.strip() else "()", mode="eval").body), "int8", role)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return sympy.Symbol(name, integer=True, positive=True)
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=elements):
            return tuple(_value(element) for element in elements)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](sympy.sympify(_value(left)), sympy.sympify(_value(right)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
    raise ValueError(f"cannot read {ast.unparse(node)!r} (expected names, numbers, strings, tuples and + - * / //)")
