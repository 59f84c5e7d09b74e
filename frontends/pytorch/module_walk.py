"""All modules below a module, with their paths."""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn import Module


def join(path: str, name: str) -> str:
    """Return the path of a child."""
    return f"{path}.{name}" if path and name else path or name


def walk(model: Module) -> Iterator[tuple[str, Module, bool]]:
    """Yield path and module of ``model`` and all modules below it, and whether each is new.

    The order is that of the model. A module that was met before is yielded again but not entered again, so that cycles
    end.
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop()
        is_first = id(module) not in seen
        yield path, module, is_first
        if is_first:
            seen.add(id(module))
            children = module._modules
            if children:
                before = f"{path}." if path else ""
                waiting += [(before + name, x) for name, x in reversed(children.items()) if x is not None]


def modules_of(model: Module) -> Iterator[Module]:
    """Return every module in ``model`` once, itself first."""
    return (module for _, module, is_first in walk(model) if is_first)
