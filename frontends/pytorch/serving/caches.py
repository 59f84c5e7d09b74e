"""The cache that a model runs with: how it is made, and which tensors it holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import unknown
from costcore.plugins import cached, functions_from_plugins, with_left_out

STATES = "cache_params"
"""The name under which models of transformers with states alone take their cache."""

ARGUMENTS = ("past_key_values", "cache", STATES)
"""The names under which models of transformers take a cache, the second since 5.24."""

DEFAULT = "dynamic"
"""The cache of transformers that grows, whose layers follow from the configuration of a model."""

MakeCache = Callable[[Any], Any]

Part = tuple[Tensor, int | None]
"""An array in a cache, with the window of the layer that holds it."""


def cache_argument(model: Module) -> str:
    """Return the name of the argument with which a model takes its cache.

    Raises:
        CostError: if it takes none.
    """
    parameters = inspect.signature(model.forward).parameters
    for name in ARGUMENTS:
        if name in parameters:
            return name
    raise CostError(
        f"{type(model).__name__} takes no cache: its forward has no argument {', '.join(ARGUMENTS)}. Pass a language "
        "model of transformers, such as AutoModelForCausalLM makes, or a module with such an argument"
    )


def maker(name: str) -> MakeCache:
    """Return the function that makes an empty cache for a model.

    Args:
        name: :data:`DEFAULT`, or a name that a plug-in registers.

    Raises:
        ValueError: for an unknown name.
        CostError: if a plug-in fails.
    """
    known = {DEFAULT: _dynamic, **from_plugins()}
    if name not in known:
        raise ValueError(with_left_out(unknown("cache", name, sorted(known))))
    return known[name]


@cached
def from_plugins() -> Mapping[str, MakeCache]:
    """Return the functions of plug-ins that make caches, by name.

    Raises:
        CostError: if a plug-in fails.
    """
    return {name: make for makers in functions_from_plugins("costcore_caches") for name, make in makers.items()}


def _dynamic(model: Any) -> Any:
    from transformers import DynamicCache

    config = getattr(model, "config", None)
    if config is None:
        raise CostError(
            f"{type(model).__name__} has no configuration of transformers, from which its cache follows; register a "
            "function that makes its cache with the hook costcore_caches, and name it: cache='…'"
        )
    if cache_argument(model) == STATES and not hasattr(DynamicCache, "update_conv_state"):
        raise CostError(
            f"{type(model).__name__} keeps states of a recurrence, for which this transformers has no cache that all "
            "models share; install transformers 5"
        )
    return DynamicCache(config=config)


def stretch(cache: object, tokens: int, length: int) -> None:
    """Make the keys and values of every layer of transformers those of a longer sequence, on the meta device.

    Args:
        cache: a cache that was filled with few tokens, fewer than any window.
        tokens: how many tokens it was filled with.
        length: how many it is to hold.
    """
    for layer in getattr(cache, "layers", ()):
        window = getattr(layer, "sliding_window", None)
        kept = length if window is None else min(length, window - 1)
        for name in ("keys", "values"):
            held = getattr(layer, name, None)
            if isinstance(held, Tensor) and held.ndim == 4 and held.shape[-2] == tokens:
                setattr(layer, name, held.new_empty((*held.shape[:-2], kept, held.shape[-1])))
        if isinstance(getattr(layer, "cumulative_length", None), int):
            layer.cumulative_length = length


def parts(cache: object) -> Iterator[Part]:
    """Yield every array of numbers in a cache, with the window of the layer that holds it; None without one."""
    yield from _parts(cache, None, set())


def _parts(value: Any, window: int | None, seen: set[int]) -> Iterator[Part]:
    if isinstance(value, Tensor):
        if value.ndim > 1 and id(value) not in seen:
            seen.add(id(value))
            yield value, window
        return
    if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), type, Module)):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
        own = getattr(value, "sliding_window", None)
        window = own if isinstance(own, int) else window
    for item in inside:
        yield from _parts(item, window, seen)
