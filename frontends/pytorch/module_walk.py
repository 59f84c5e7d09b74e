"""All modules below a module, with their paths."""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn import Module


def join(path: str, name: str) -> str:
    """The path of a child."""
    return f"{path}.{name}" if path and name else path or name


def walk(model: Module) -> Iterator[tuple[str, Module, bool]]:
    """Path and module of all modules below ``model`` and itself, in its own order, and whether each is met first.

    Flat, and safe with cycles: what was met before is named again, and not entered again.
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop()
        is_first = id(module) not in seen
        yield path, module, is_first
        if is_first:
            seen.add(id(module))
            if module._modules:
                before = f"{path}." if path else ""
                children = [(before + name, x) for name, x in module._modules.items() if x is not None]
                waiting += reversed(children)


def modules_of(model: Module) -> Iterator[Module]:
    """Every module in ``model`` once, itself first."""
    return (module for _, module, is_first in walk(model) if is_first)
