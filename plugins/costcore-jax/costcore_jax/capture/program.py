"""A program: a function with the variables that it learns or updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from costcore.ir import Role


class Owner(NamedTuple):
    """What a variable is.

    Attributes:
        role: ``param`` if it is learned, ``state`` if the model updates it otherwise.
        module: path of the module that owns it.
        name: its name in the module.
        is_frozen: whether it is a parameter that is not trained.
    """

    role: Role
    module: str = ""
    name: str = ""
    is_frozen: bool = False


def nobody(path: Any) -> Owner:
    """Return the owner of a variable of a function: unknown."""
    return Owner("param")


@dataclass(frozen=True)
class Program:
    """A function with the variables that it learns or updates.

    Attributes:
        function: ``function(variables, *args, **kwargs)``, which JAX can trace. It returns what the model returns, and
            the state that it updates.
        variables: a pytree of abstract values.
        owner: returns what a variable is, by its path in the pytree.
        root: the scope that stands for the model itself.
        types: class of every module by path, complete once the function was traced.
    """

    function: Callable[..., Any]
    variables: Any = ()
    owner: Callable[[Any], Owner] = nobody
    root: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
