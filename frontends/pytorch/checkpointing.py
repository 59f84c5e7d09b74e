"""Activation checkpointing of the copy of a model: the modules of a class are recomputed in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from torch.nn import Module

from costcore.messages import unknown

from .module_walk import modules_of


@contextmanager
def checkpointed(model: Module, class_name: str | None) -> Iterator[None]:
    """Run the outermost modules of a class under ``torch.utils.checkpoint`` (non-reentrant) inside the context.

    Args:
        model: a copy of the user's model.
        class_name: the name of the class, ``BertLayer``; None for none.

    Raises:
        TypeError: if the name is not a string.
        ValueError: if there is no such module; the message lists the classes.
    """
    if class_name is None:
        yield
        return
    if not isinstance(class_name, str):
        raise TypeError(f"checkpoint must be the name of a class of modules (got {class_name!r})")
    modules = outermost(model, class_name)
    if not modules:
        names = sorted({type(module).__name__ for module in modules_of(model)})
        raise ValueError(unknown("class of modules in checkpoint", class_name, names))
    import_module("torch.utils.checkpoint")  # before a capture, which may patch it
    before = [dict(module.__dict__) for module in modules]
    try:
        for module in modules:
            module.__dict__.update(_switch(module))
        yield
    finally:
        for module, attributes in zip(modules, before, strict=True):
            module.__dict__.clear()
            module.__dict__.update(attributes)


def outermost(model: Module, class_name: str) -> list[Module]:
    """Return the modules of a class that are not inside another one of it, each once."""
    found: dict[int, Module] = {}
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if type(module).__name__ == class_name:
            found[id(module)] = module
        else:
            waiting += [child for child in module._modules.values() if child is not None]
    return [*found.values()]


def _switch(module: Module) -> dict[str, Any]:
    """Return the attributes with which a module runs under checkpointing.

    Layers of Transformers have a switch of their own, which also keeps a cache of keys and values out of a
    recomputation, that would extend it a second time.
    """
    if module.training and hasattr(module, "gradient_checkpointing"):
        return {"gradient_checkpointing": True, "_gradient_checkpointing_func": _checkpoint}
    return {"forward": partial(_checkpoint, module.forward)}


def _checkpoint(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def wrap_forward(module: Module, wrapper: Callable[..., Any]) -> None:
    """Run the forward of a module inside a function, which a recomputation runs again.

    Args:
        module: a module of a copy of the user's model.
        wrapper: is called with the forward and its arguments.
    """
    forward: Any = module.forward
    if isinstance(forward, partial) and forward.func is _checkpoint:
        module.forward = partial(_checkpoint, partial(wrapper, *forward.args))
    else:
        module.forward = partial(wrapper, forward)
