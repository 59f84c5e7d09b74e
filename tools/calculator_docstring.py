"""Layers of symbols from the `Shapes:` and `Settings:` lines of a calculator's manual, and formulas as plain text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from math import gcd, prod
from string import digits
from typing import Any

import sympy

from costcore.ir import Layer, Tensor
from costcore.translate import ROLES

FIELD = re.compile(r"^(Shapes|Settings):\s+(.+?)(?=\n\s*\n|\n(?:Shapes|Settings):|\Z)", re.MULTILINE | re.DOTALL)
OPERAND = re.compile(r"(\w+)\[([^\]]*)\](\?)?")
ROLE = re.compile(r":\w+:`([^`]+)`")
"""A reference as Sphinx writes it, which Markdown does not know."""
OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
}


@dataclass(frozen=True)
class Manual:
    """What a calculator's docstring says: prose, operands, settings.

    Attributes:
        prose: the docstring without the two lines, as Markdown.
        shapes, settings: the lines as written, "" where there is none.
    """

    prose: str
    shapes: str
    settings: str

    @classmethod
    def of(cls, docstring: str) -> Manual:
        """Read a docstring, its indentation removed."""
        fields = {name: " ".join(text.split()) for name, text in FIELD.findall(docstring)}
        prose = ROLE.sub(r"`\1`", FIELD.sub("", docstring)).replace("::\n", ":\n").strip()
        return cls(prose, fields.get("Shapes", ""), fields.get("Settings", ""))

    @property
    def optional(self) -> tuple[str, ...]:
        """The operands that may be absent: those marked `?`, and biases, but where their gradient is asked for."""
        ins, outs = map(OPERAND.findall, self._sides)
        wanted = {name for name, _, _ in outs}
        return tuple(n for n, _, mark in ins if mark or (n.rstrip(digits) == "b" and f"d{n}" not in wanted))

    @property
    def symbols(self) -> list[str]:
        """The names of the symbols, outputs first, in the order of the line: the order formulas are written in."""
        ins, outs = self._sides
        return list(
            dict.fromkeys(re.findall(r"[A-Za-z]\w*", " ".join(dims for _, dims, _ in OPERAND.findall(outs + ins))))
        )

    def layer(self, op: str, without: tuple[str, ...] = ()) -> Layer:
        """The layer of symbols, its elements one byte each, so that bytes read as elements."""
        ins, outs = ({name: _tensor(name, dims) for name, dims, _ in OPERAND.findall(side)} for side in self._sides)
        call = ast.parse(f"settings({self.settings})", mode="eval").body
        attrs = {word.arg: _value(word.value) for word in call.keywords}  # type: ignore[attr-defined]
        return Layer(op, {name: t for name, t in ins.items() if name not in without}, outs.values(), attrs)

    @property
    def _sides(self) -> tuple[str, str]:
        ins, arrow, outs = self.shapes.partition("->")
        if not arrow or not OPERAND.search(outs):
            raise ValueError(f"a line 'Shapes: x[N, C], b[C]? -> y[N, C]' is wanted, not {self.shapes!r}")
        return ins, outs


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
    raise ValueError(f"cannot read {ast.unparse(node)!r}; known are names, numbers, strings, tuples and + - * / //")


class Writer:
    """Writes expressions with their factors and terms in a fixed order.

    Args:
        symbols: symbol names in the order wanted; others follow by name.
    """

    def __init__(self, symbols: list[str]) -> None:
        self._order = {name: i for i, name in enumerate(symbols)}

    def factored(self, value: Any) -> str:
        """`value` with the factors that all its terms share put before a bracket."""
        expression = sympy.expand(_tidy(value))
        terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(expression)]
        if len(terms) == 1:
            return self(expression)
        powers = [factors.as_powers_dict() for _, factors in terms]
        shared = {base: min(p.get(base, 0) for p in powers) for base in powers[0]}
        number = reduce(gcd, (int(c) for c, _ in terms)) if all(c.is_Integer for c, _ in terms) else 1
        common = number * prod((base**power for base, power in shared.items() if power > 0), start=sympy.Integer(1))
        if common == 1:
            return self(expression)
        return f"{self(common)}·({self(sympy.expand(expression / common))})"

    def __call__(self, value: Any) -> str:
        """`value` as a sum of products, as it stands."""
        expression = _tidy(value)
        terms = sorted(sympy.Add.make_args(expression), key=self._key)
        text = " + ".join(self._product(term) for term in terms)
        return text.replace("+ -", "- ")

    def _product(self, term: Any) -> str:
        number, factors = term.as_coeff_Mul()
        above: list[str] = []
        below: list[str] = []
        if number.q != 1:
            below.append(str(number.q))
        for base, power in sorted(factors.as_powers_dict().items(), key=lambda item: self._key(item[0])):
            if base != 1:
                text = self._atom(base) + (f"^{abs(power)}" if abs(power) != 1 else "")
                (below if power.is_negative else above).append(text)
        if abs(number.p) != 1 or not above:
            above.insert(0, str(abs(number.p)))
        return ("-" if number.p < 0 else "") + "·".join(above) + "".join(f"/{text}" for text in below)

    def _atom(self, base: Any) -> str:
        if base.is_Symbol:
            return str(base.name)
        if isinstance(base, sympy.ceiling) and base.args[0].has(sympy.log):
            (argument,) = (log.args[0] for log in base.args[0].atoms(sympy.log) if not log.args[0].is_number)
            return f"ceil(log2({self(argument)}))"
        if base.is_Function or isinstance(base, (sympy.Min, sympy.Max)):
            arguments = sorted(base.args, key=self._key)
            return f"{type(base).__name__.lower().replace('ceiling', 'ceil')}({', '.join(map(self, arguments))})"
        return f"({self(base)})" if base.is_Add else str(base)

    def _key(self, expression: Any) -> tuple[Any, ...]:
        """Terms of more factors first, then by the order of the symbols."""
        return -_degree(expression), tuple(self._names(expression)), str(expression)

    def _names(self, expression: Any) -> Iterator[tuple[int, str]]:
        yield from sorted((self._order.get(s.name, len(self._order)), s.name) for s in expression.free_symbols)


def _tidy(value: Any) -> Any:
    """`value` as an expression, with `-floor(-a)` as what it means."""
    expression = sympy.sympify(value)
    return expression.replace(
        lambda e: isinstance(e, sympy.floor) and e.args[0].could_extract_minus_sign(),
        lambda e: -sympy.ceiling(-e.args[0]),
    )


def _degree(expression: Any) -> int:
    return sum(max(int(power), 0) for base, power in expression.as_powers_dict().items() if not base.is_number)
