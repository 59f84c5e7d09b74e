"""What the meter needs of a frontend: which passes of a model run, and on what."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

Seen = Callable[[Hashable, Sequence[Any], Mapping[str, Any]], None]
"""Receives every pass before it runs: the key of its inputs, see :meth:`Passes.key`, and its arguments."""


class Sizes(NamedTuple):
    """How much data a pass processes.

    Attributes:
        tokens: number of input tokens, padding included; 0 if the input does not have tokens.
        samples: number of samples; 0 if unknown.
    """

    tokens: int
    samples: int


class Passes(Protocol):
    """The passes of a model whose backward pass follows."""

    def watched(self, seen: Seen) -> AbstractContextManager[object]:
        """Return a context in which ``seen`` is called before every pass; the model is as before afterwards."""

    def key(self, value: Any) -> Hashable:
        """Return the shapes and dtypes of all tensors in a value; passes on inputs of equal keys cost the same."""

    def sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        """Return how much data a pass on these arguments processes."""

    def on_a_copy(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
        """Return model, inputs and loss with which ``estimate`` counts a pass on these arguments.

        Raises:
            TypeError: if an estimate cannot take the arguments.
        """
