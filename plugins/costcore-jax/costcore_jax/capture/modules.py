"""The modules of a program, from the owners of its variables and the scopes of its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.numbers import Dim
from costcore.trace.call import Call, Module

from .location import Names
from .program import Owner, Program
from .values import Value
from .walker import equations


def modules(program: Program, calls: Iterable[Call], owned: Iterable[tuple[Owner, Value]]) -> dict[str, Module]:
    """Return every module by path, parents before their children."""
    parameters: dict[str, list[tuple[Owner, Value]]] = {}
    buffers: dict[str, Dim] = {}
    for owner, value in owned:
        if owner.role == "param":
            parameters.setdefault(owner.module, []).append((owner, value))
        else:
            buffers[owner.module] = buffers.get(owner.module, 0) + value.size
    paths = dict.fromkeys(
        part
        for path in (*program.types, *parameters, *buffers, *(call.module for call in calls))
        for part in _with_parents(path)
    )
    return {path: _module(program, path, parameters.get(path, []), buffers.get(path, 0)) for path in paths}


def root_of(jaxpr: Any, owners: Iterable[Owner]) -> str:
    """Return the scope that a function puts around the modules that own its parameters; empty if there is none.

    Flax names the outermost module by its class, but not in the paths of its parameters.
    """
    first = {owner.module.partition(".")[0] for owner in owners if owner.module}
    scopes = {Names().inside(equation).scopes[:2] for equation in equations(jaxpr)}
    roots = {outer for outer, *inner in filter(None, scopes) if outer not in first and first.intersection(inner)}
    return roots.pop() if len(roots) == 1 else ""


def _module(program: Program, path: str, own: list[tuple[Owner, Value]], buffers: Any) -> Module:
    return Module(
        program.types.get(path, path.rpartition(".")[2]),
        tuple(value.parameter for _, value in own),
        tuple(value.parameter for owner, value in own if owner.is_frozen),
        buffers=buffers,
        own=tuple((owner.name, value.size) for owner, value in own),
    )


def _with_parents(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
