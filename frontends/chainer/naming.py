"""How Chainer's functions are named in reports and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import chainer

PREFIX = "chainer::"

ALIASES: Mapping[str, str] = {"MaxPooling2D": "MaxPoolingND"}
"""Classes of older Chainers, and what 7.8.1 runs in their place."""


def function_of(node: Any) -> Any:
    """The function a node of the graph computes: itself, or the old-style function it adapts."""
    return node.function if isinstance(node, chainer.FunctionAdapter) else node


def native_name(function: type) -> str:
    """The full name of a function class: its package and its own name, ``chainer::ReLU``, ``mylib::MyFunction``."""
    return f"{function.__module__.partition('.')[0]}::{function.__name__}"


def function_classes() -> Iterable[type]:
    """Every function class there is by now, of new and old style, Chainer's and users'."""
    todo: list[type] = [chainer.FunctionNode, chainer.Function]
    seen: set[type] = set()
    while todo:
        subclasses: list[type] = todo.pop().__subclasses__()
        for found in subclasses:
            if found not in seen:
                seen.add(found)
                todo.append(found)
    return seen


def native_names(op: object) -> tuple[str, ...]:
    """The full name of a Chainer function; () for what is none.

    Args:
        op: a function class (``F.math.basic_math.Add``), its name (``"Add"``; ``"MaxPooling2D"`` of older Chainers
            means ``MaxPoolingND``), or its full name (``"chainer::Add"``, ``"mylib::MyFunction"``).
    """
    if isinstance(op, type):
        return (native_name(op),) if issubclass(op, (chainer.FunctionNode, chainer.Function)) else ()
    if not isinstance(op, str):
        return ()
    bare = op.removeprefix(PREFIX)
    wanted = op if "::" in bare else PREFIX + ALIASES.get(bare, bare)
    return (wanted,) if any(native_name(found) == wanted for found in function_classes()) else ()
