"""Attributes of PyTorch that are replaced while anything is captured."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any


def replace(stack: ExitStack, owner: Any, name: str, replacement: Any) -> None:
    """Replace an attribute of a module or class until ``stack`` is closed.

    How to undo it is known before it is done, so that a failure or an interrupt in between leaves nothing behind. If
    somebody else replaces the attribute meanwhile, theirs stays.

    Args:
        stack: undoes the replacement.
        owner: the module or class.
        name: the name of the attribute, which may be inherited.
        replacement: its value until then.
    """
    is_own, original = name in vars(owner), vars(owner).get(name)

    def restore() -> None:
        if vars(owner).get(name) is not replacement:
            return
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)

    stack.callback(restore)
    setattr(owner, name, replacement)
