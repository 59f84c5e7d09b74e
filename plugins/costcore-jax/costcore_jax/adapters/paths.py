"""Owners of variables, by their paths in nested dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.ir import Role

from ..capture.program import Owner


def names(path: Sequence[Any]) -> list[str]:
    """Return the keys of a path of a pytree as texts."""
    return [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]


def owner_by_path(path: Sequence[Any]) -> Owner:
    """Return the owner of a variable in nested dicts, as Flax has them: ``params/Dense_0/kernel``.

    A first key other than ``params`` that Flax uses for a collection of state makes it state.
    """
    keys, role = names(path), "param"
    if keys[:1] == ["params"]:
        keys = keys[1:]
    elif keys[:1] == ["batch_stats"]:
        keys, role = keys[1:], "state"
    return owner(role, keys)  # type: ignore[arg-type]  # one of two roles


def owner(role: Role, keys: Sequence[str]) -> Owner:
    """Return the owner whose path is all keys but the last."""
    return Owner(role, ".".join(keys[:-1]).replace("/", "."), keys[-1] if keys else "")
