"""The modules of a program, from the owners of its variables and the scopes of its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.dims import Dim
from costcore.trace.call import Call, Module

from .program import Owner, Program
from .values import Value


def modules(program: Program, calls: Iterable[Call], owned: Iterable[tuple[Owner, Value]]) -> dict[str, Module]:
    """Return every module by path, parents before their children."""
    parameters: dict[str, list[tuple[str, Value]]] = {}
    buffers: dict[str, Dim] = {}
    for owner, value in owned:
        if owner.role == "param":
            parameters.setdefault(owner.module, []).append((owner.name, value))
        else:
            buffers[owner.module] = buffers.get(owner.module, 0) + value.size
    paths = dict.fromkeys(
        part
        for path in (*program.types, *parameters, *buffers, *(call.module for call in calls))
        for part in _with_parents(path)
    )
    return {path: _module(program, path, parameters.get(path, []), buffers.get(path, 0)) for path in paths}


def _module(program: Program, path: str, own: list[tuple[str, Value]], buffers: Any) -> Module:
    return Module(
        program.types.get(path, path.rpartition(".")[2]),
        tuple(value.parameter for _, value in own),
        buffers=buffers,
        own=tuple((name, value.size) for name, value in own),
    )


def _with_parents(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
