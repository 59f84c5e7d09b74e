"""All modules below a module, with their paths."""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn import Module

COMPILED = "OptimizedModule"
"""Name of the class of what ``torch.compile`` returns of a module; to import it would import the compiler."""

ORIGINAL = "_orig_mod"
"""Name of the module that was compiled, in such a module."""


def join(path: str, name: str) -> str:
    """Return the path of a child."""
    return f"{path}.{name}" if path and name else path or name


def not_compiled(module: Module) -> Module:
    """Return the module that ``torch.compile`` compiled into this one; any other module as it is."""
    while type(module).__name__ == COMPILED and isinstance(module._modules.get(ORIGINAL), Module):
        module = module._modules[ORIGINAL]
    return module


def walk(model: Module) -> Iterator[tuple[str, Module, bool]]:
    """Yield path and module of ``model`` and all modules below it, and whether each is new.

    The order is that of the model. A module that was met before is yielded again but not entered again, so that cycles
    end. A module that was compiled has the path of what ``torch.compile`` made of it.
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
            if not children:
                continue
            if type(module).__name__ == COMPILED and ORIGINAL in children:
                waiting.append((path, children[ORIGINAL]))
                continue
            before = f"{path}." if path else ""
            waiting += [(before + name, x) for name, x in reversed(children.items()) if x is not None]


def modules_of(model: Module) -> Iterator[Module]:
    """Return every module in ``model`` once, itself first."""
    return (module for _, module, is_first in walk(model) if is_first)
