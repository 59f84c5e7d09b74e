"""Where an equation belongs: the module and the phase, from its stack of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

RECOMPUTED = "rematted_computation"
"""The scope in which ``jax.checkpoint`` repeats a forward pass."""

MARK = "@"
"""Begins a scope whose name is the complete path of a module."""

LINES = "lines of "
"""Begins a scope that is no module: what follows are the lines of the user's code, as a formatted traceback."""


class Names(NamedTuple):
    """The scopes and transformations around an equation, the outermost first, and the lines of code in a file."""

    scopes: tuple[str, ...] = ()
    transformations: frozenset[str] = frozenset()
    lines: str | None = None

    def inside(self, equation: Any) -> Names:
        """Return the names inside the jaxpr of an equation, or around the equation itself."""
        stack: Sequence[Any] = equation.source_info.name_stack.stack
        if not stack:
            return self
        is_transformation = [type(each).__name__ == "Transform" for each in stack]
        scopes = [each.name for each, is_one in zip(stack, is_transformation, strict=True) if not is_one]
        found = [each.name for each, is_one in zip(stack, is_transformation, strict=True) if is_one]
        lines = [scope.removeprefix(LINES) for scope in scopes if scope.startswith(LINES)]
        scopes = [scope for scope in scopes if not scope.startswith(LINES)]
        return Names((*self.scopes, *scopes), self.transformations | {*found}, lines[-1] if lines else self.lines)

    def module(self, root: str) -> str:
        """Return the path of the module; the scope ``root`` in front is the model itself, and left out."""
        scopes = [scope for scope in self.scopes if scope != RECOMPUTED]
        complete = [scope for scope in scopes if scope.startswith(MARK)]
        if complete:
            return complete[-1].removeprefix(MARK)
        if root and scopes[:1] == [root]:
            del scopes[0]
        return ".".join(scope.replace("/", ".").strip(".") for scope in scopes)

    def phase(self, reads_gradient: bool) -> str:
        """Return the phase of an equation.

        What reads gradients outside of any derivative is a step of an optimizer.
        """
        if RECOMPUTED in self.scopes:
            return "recompute"
        if "transpose" in self.transformations:
            return "backward"
        return "optimizer" if reads_gradient and not self.transformations else "forward"
