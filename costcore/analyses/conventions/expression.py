"""Expressions of rules: arithmetic on the quantities of a call, parsed by a whitelist and never executed as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from costcore.errors import CostError
from costcore.messages import short_repr, unknown

MAX_LENGTH = 500
"""The maximum number of characters of an expression; the longest of the built-in conventions has about 150."""

MAX_NODES = 150
"""The maximum number of nodes of its syntax tree, which bounds the depth of the recursion."""

MOST_BITS = 1 << 13
"""The most bits of a value; Python prints integers of up to 4,300 digits."""


class ConventionError(CostError):
    """An invalid convention; the message includes the file and the key."""


Lookup: TypeAlias = "Callable[[str], Any]"
_Evaluator: TypeAlias = "Callable[[Lookup], Any]"

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Expression:
    """An arithmetic expression, ``macs + y * bias``.

    It may contain numbers, texts, names, ``+ - * // %``, comparisons, ``and or not``, ``a if c else b`` and calls of
    functions. The first argument of a function is the name of an operand where the function takes one.

    Args:
        text: the expression.
        names: the names that it may contain.
        functions: the functions that it may call, with the number of their arguments.
        place: the file and the rule, for messages.

    Attributes:
        text: the expression.
        names: the names and functions that it contains.

    Raises:
        ConventionError: if the text is not an expression of this kind, or contains another name.
    """

    def __init__(self, text: str, names: Collection[str], functions: Mapping[str, int], place: str = "") -> None:
        self._place = place
        self.text = " ".join(text.split())
        self._allowed = names
        self._functions = functions
        self.names: set[str] = set()
        if len(text) > MAX_LENGTH:
            raise self._error(f"has {len(text)} characters (expected at most {MAX_LENGTH})")
        try:
            tree = ast.parse(self.text, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._error("is not an expression") from error
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise self._error(f"is too long (expected at most {MAX_NODES} names, numbers and operators)")
        self._evaluate = self._compiled(tree.body)

    def __call__(self, lookup: Lookup) -> Any:
        """Return the value; ``lookup`` returns the value of a name, and for a function a callable.

        Raises:
            ConventionError: if there is none, as of a quotient by zero, or if it is a text or too large.
            CostError: if ``lookup`` raises it.
        """
        try:
            value = self._evaluate(lookup)
            if isinstance(value, _NO_NUMBERS):
                raise TypeError(f"it is {short_repr(value)}, not a number")
        except CostError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._error(f"cannot be computed: {error}") from error
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise self._error(f"cannot be computed: it has more than {MOST_BITS} bits")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __reduce__(self) -> tuple[type, tuple[str, Collection[str], Mapping[str, int], str]]:
        return type(self), (self.text, self._allowed, self._functions, self._place)

    def _error(self, problem: str) -> ConventionError:
        return ConventionError(f"{self._place}{': ' * bool(self._place)}{short_repr(self.text)} {problem}")

    def _compiled(self, node: ast.expr) -> _Evaluator:
        if isinstance(node, ast.Constant) and type(node.value) in (int, bool, str):
            value = node.value
            return lambda lookup: value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _apply(_numeric(_BINARY[type(node.op)]), self._compiled(node.left), self._compiled(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            operand, is_not = self._compiled(node.operand), isinstance(node.op, ast.Not)
            return lambda lookup: not operand(lookup) if is_not else -operand(lookup)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            left, right = self._compiled(node.left), self._compiled(node.comparators[0])
            return _apply(_COMPARISONS[type(node.ops[0])], left, right)
        if isinstance(node, ast.BoolOp):
            parts, is_and = [self._compiled(value) for value in node.values], isinstance(node.op, ast.And)
            return lambda lookup: (all if is_and else any)(part(lookup) for part in parts)
        if isinstance(node, ast.IfExp):
            test, then, otherwise = map(self._compiled, (node.test, node.body, node.orelse))
            return lambda lookup: then(lookup) if test(lookup) else otherwise(lookup)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args)
        raise self._error(f"contains {short_repr(ast.unparse(node))}, which rules cannot use")

    def _name(self, name: str) -> _Evaluator:
        if name not in self._allowed:
            raise self._error(f"contains an {unknown('name', name, sorted(self._allowed))}")
        self.names.add(name)
        return lambda lookup: lookup(name)

    def _call(self, function: str, arguments: list[ast.expr]) -> _Evaluator:
        if function not in self._functions:
            raise self._error(f"contains an {unknown('function', function, sorted(self._functions))}")
        if len(arguments) != self._functions[function]:
            raise self._error(
                f"passes {len(arguments)} arguments to {function}() (expected {self._functions[function]})"
            )
        self.names.add(function)
        values: list[_Evaluator] = []
        for argument in arguments:
            if isinstance(argument, ast.Name):
                values.append(_operand(argument.id))  # functions take operands by name
            else:
                values.append(self._compiled(argument))
        return lambda lookup: lookup(function)(*[value(lookup) for value in values])


_NO_NUMBERS = (str, bytes, tuple, list)


def _numeric(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator that refuses what Python multiplies and adds too, without any bound: texts and lists."""

    def checked(left: Any, right: Any) -> Any:
        for value in (left, right):
            if isinstance(value, _NO_NUMBERS):
                raise TypeError(f"{short_repr(value)} is not a number")
        return function(left, right)

    return checked


def _apply(function: Callable[[Any, Any], Any], left: _Evaluator, right: _Evaluator) -> _Evaluator:
    return lambda lookup: function(left(lookup), right(lookup))


def _operand(name: str) -> _Evaluator:
    return lambda lookup: name
