"""Names that are spelled otherwise now: the former ones work for two minor versions, and each says so once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

UNTIL = "0.3"
"""The version without the former names."""

_said: set[tuple[str, str]] = set()


def renamed(**now: str) -> Callable[[Function], Function]:
    """Let a function take keyword arguments by their former names, too.

    Args:
        now: the name of today, by the former one.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for former in now.keys() & options.keys():
                name = now[former]
                if name in options:
                    raise TypeError(f"{function.__name__}: {former} is now {name}; pass {name} alone")
                say_once(function.__name__, f"{former}= is now {name}=")
                options[name] = options.pop(former)
            return function(*args, **options)

        return cast(Function, call)

    return decorate


def named(*names: str, first: int = 1) -> Callable[[Function], Function]:
    """Let a function whose arguments have to be named take them by position, too, as it did before.

    Args:
        names: the arguments that have to be named, in their former order.
        first: how many arguments before them may be without a name; ``self`` is one.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            by_position = dict(zip(names, args[first:], strict=False))
            if by_position and len(args) <= first + len(names):
                say_once(function.__name__, f"write {', '.join(f'{name}=…' for name in by_position)}")
                return function(*args[:first], **by_position, **options)
            return function(*args, **options)

        return cast(Function, call)

    return decorate


def say_once(where: str, what: str) -> None:
    """Warn, the first time in this process, that something is spelled otherwise now."""
    if (where, what) not in _said:
        _said.add((where, what))
        message = f"{where}: {what}; the old spelling works until version {UNTIL}"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
