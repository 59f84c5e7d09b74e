"""The walk over a jaxpr: equation by equation, into the jaxprs that equations call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jax.extend.core import Literal
from jax.interpreters import partial_eval

from .recording import Place, Recording
from .values import Value, value_of

Environment: TypeAlias = "dict[Any, Value]"

Handler: TypeAlias = "Callable[[Walker, Any, list[Value], Place], list[Value]]"
"""A function that walks an equation with jaxprs of its own and returns the values of its outputs."""

INLINED: Mapping[str, str] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "composite", "remat2", "checkpoint", "run_state"), "jaxpr"),
    **dict.fromkeys(("core_call", "call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"), "call_jaxpr"),
    **dict.fromkeys(("custom_vmap_call", "custom_partitioning"), "call"),
    "core_map": "jaxpr",
    "custom_jvp_call_jaxpr": "fun_jaxpr",
    "eval_jaxpr": "jaxpr",
    "linear_call": "callee",
    "remat_opt": "fwd_jaxpr",
}
"""Primitives that run a jaxpr once on their operands, and the parameter that holds it."""


class Walker:
    """Walks the jaxprs of one run.

    Args:
        recording: the writer of the run.
        handlers: functions for primitives with jaxprs that do not simply run once.
        trips: the number of iterations of every loop whose number depends on data; None for a symbol per loop.
    """

    def __init__(self, recording: Recording, handlers: Mapping[str, Handler], trips: int | None = None) -> None:
        self.recording = recording
        self.trips = trips
        self._handlers = handlers
        self._loops = 0

    def walk(self, jaxpr: Any, constants: Sequence[Value], arguments: Sequence[Value], place: Place) -> list[Value]:
        """Record the equations of a jaxpr and return the values of its outputs."""
        values: Environment = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            inputs = [self.read(values, atom) for atom in equation.invars]
            values.update(zip(equation.outvars, self._run(equation, inputs, place), strict=True))
        return [self.read(values, atom) for atom in jaxpr.outvars]

    def walk_closed(self, closed: Any, arguments: Sequence[Value], place: Place) -> list[Value]:
        """Record a jaxpr, closed over constants or not, whose last inputs are ``arguments``."""
        constants = [constant_of(array) for array in getattr(closed, "consts", ())]
        jaxpr = getattr(closed, "jaxpr", closed)
        surplus = len(arguments) - len(jaxpr.invars)
        return self.walk(jaxpr, constants, arguments[surplus:] if surplus > 0 else arguments, place)

    def read(self, values: Environment, atom: Any) -> Value:
        """Return the value of a variable or a literal."""
        return constant_of(atom.val, atom.aval) if isinstance(atom, Literal) else values[atom]

    def number_of_loop(self) -> int:
        """Return the number of a loop whose trip count is unknown, from 1."""
        self._loops += 1
        return self._loops

    def _run(self, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
        name = equation.primitive.name
        if name in self._handlers:
            return self._handlers[name](self, equation, inputs, place._replace(names=place.names.inside(equation)))
        if name in INLINED and (inner := equation.params.get(INLINED[name])) is not None:
            return self.walk_closed(inner, inputs, place._replace(names=place.names.inside(equation)))
        outputs = [value_of(variable.aval) for variable in equation.outvars]
        self.recording.record(equation, inputs, outputs, place)
        return outputs


def constant_of(array: Any, aval: Any = None) -> Value:
    """Return the value of a literal or of an array that a function closes over."""
    value = value_of(array if aval is None else aval, role="const")
    if not value.shape and value.dtype and hasattr(array, "item") and not value.dtype.startswith("key"):
        value.number = _number(array)
    elif isinstance(array, (bool, int, float, complex)):
        value.number = array
    return value


def _number(array: Any) -> Any:
    try:
        return array.item()
    except (TypeError, ValueError, AttributeError):  # a random key, or an abstract array
        return None


def without_dead_code(closed: Any) -> tuple[Any, int]:
    """Return a closed jaxpr without the equations that no output depends on, and how many were removed.

    XLA removes them too, in jaxprs inside it as well. All inputs stay.
    """
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=jaxpr), count_equations(closed.jaxpr) - count_equations(jaxpr)


def count_equations(jaxpr: Any) -> int:
    """Return the number of equations of a jaxpr, those of jaxprs inside it included."""
    return sum(1 for _ in equations(jaxpr))


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield every equation of a jaxpr, and those of jaxprs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for found in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(found, "jaxpr", found)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)
