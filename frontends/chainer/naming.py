"""The names of Chainer's functions in reports and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import chainer

PREFIX = "chainer::"

ALIASES: Mapping[str, str] = {"MaxPooling2D": "MaxPoolingND"}
"""Classes of older versions of Chainer, and what Chainer 7.8.1 runs in their place."""


def function_of(node: Any) -> Any:
    """Return the function that a node of the graph computes: itself, or the old-style function it adapts."""
    return node.function if isinstance(node, chainer.FunctionAdapter) else node


def native_name(function: type) -> str:
    """Return the full name of a function class, ``chainer::ReLU``, ``mylib::MyFunction``: package and class name."""
    return f"{function.__module__.partition('.')[0]}::{function.__name__}"


def function_classes() -> Iterable[type]:
    """Return every function class defined so far, new-style and old-style, Chainer's and users'."""
    todo: list[type] = [chainer.FunctionNode, chainer.Function]
    classes: set[type] = set()
    while todo:
        subclasses: list[type] = todo.pop().__subclasses__()
        for subclass in subclasses:
            if subclass not in classes:
                classes.add(subclass)
                todo.append(subclass)
    return classes


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of a Chainer function; () if ``op`` is not one.

    Args:
        op: a function class (``F.math.basic_math.Add``), its name (``"Add"``; ``"MaxPooling2D"`` of older versions
            means ``MaxPoolingND``), or its full name (``"chainer::Add"``, ``"mylib::MyFunction"``).
    """
    if isinstance(op, type):
        return (native_name(op),) if issubclass(op, (chainer.FunctionNode, chainer.Function)) else ()
    if not isinstance(op, str):
        return ()
    bare = op.removeprefix(PREFIX)
    full = op if "::" in bare else PREFIX + ALIASES.get(bare, bare)
    return (full,) if any(native_name(function) == full for function in function_classes()) else ()
