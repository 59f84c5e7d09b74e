"""Stand-ins for the wrappers of data-parallel training, which need devices and process groups and cannot be copied.

One process computes the wrapped module, on its own samples and with whole parameters. So does the stand-in; what the
wrapper communicates is left out.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import DataParallel as TorchDataParallel
from torch.nn import Module, Parameter

from costcore.errors import CostError

from ..module_walk import modules_of
from ..tensors import dtype_name
from .operands import META

_DISTRIBUTED = ("torch.distributed.fsdp", "torch.distributed._composable")
"""Where ``fully_shard`` and ``replicate`` define their classes and hooks."""

_API_STATE = "__composable_api_state_key"
"""The beginning of the attributes in which ``fully_shard`` and ``replicate`` keep what they communicate with."""

_OWN_ATTRIBUTES = frozenset(vars(Module()))
"""The attributes of every module; all others of a wrapper serve its communication."""


class DataParallel(Module):
    """Calls the wrapped module, in the place of the wrapper of this name."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self.module(*args, **kwargs)


class DistributedDataParallel(DataParallel):
    """Calls the wrapped module, in the place of the wrapper of this name."""


class FullyShardedDataParallel(Module):
    """Calls the wrapped module, in the place of the wrapper of this name, which also passes on its attributes."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            return super().__getattr__("_fsdp_wrapped_module")
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]


def stand_in(module: Module) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
    """Return constructor, arguments and state of the stand-in of a wrapper; None for any other module."""
    original = _original_class(module)
    if original is not None:
        state = {name: value for name, value in vars(module).items() if not name.startswith(_API_STATE)}
        hooks = {name: _others(value) for name, value in state.items() if name.endswith("_hooks")}
        return copyreg.__newobj__, (original,), {**state, **hooks}  # type: ignore[attr-defined]
    replacement = _replacement(module)
    if replacement is None:
        return None
    state = {name: value for name, value in vars(module).items() if name in _OWN_ATTRIBUTES}
    return copyreg.__newobj__, (replacement,), {**state, "_parameters": {}}  # type: ignore[attr-defined]


def _replacement(module: Module) -> type[Module] | None:
    if isinstance(module, TorchDataParallel):
        return DataParallel
    if "torch.nn.parallel.distributed" in sys.modules and isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return DistributedDataParallel
    return FullyShardedDataParallel if _is_fully_sharded(module) else None


def _is_fully_sharded(module: Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FullyShardedDataParallel)


def _original_class(module: Module) -> type[Module] | None:
    """Return the class that a module had before ``fully_shard`` or ``replicate`` changed it; None if neither did."""
    bases = type(module).__bases__
    is_changed = len(bases) == 2 and bases[0].__module__.startswith(_DISTRIBUTED)
    return bases[1] if is_changed else None


def _others(hooks: Any) -> Any:
    """Return hooks without those of ``fully_shard`` and ``replicate``."""

    def is_own(hook: Any) -> bool:
        owner = getattr(hook, "__self__", None)
        return str((type(owner) if owner is not None else hook).__module__).startswith(_DISTRIBUTED)

    return type(hooks)((key, hook) for key, hook in hooks.items() if not is_own(hook))


def wrapper_names(model: Module) -> list[str]:
    """Return the wrappers in a model that communicate, each once, by their names."""
    found: dict[str, None] = {}
    for module in modules_of(model):
        replacement = _replacement(module)
        if _original_class(module) is not None:
            found["fully_shard" if hasattr(module, "_get_fsdp_state") else "replicate"] = None
        elif replacement not in (None, DataParallel):
            found[type(module).__name__] = None
    return list(found)


def whole_parameters(model: Module) -> dict[int, dict[str, Parameter | None]]:
    """Return the parameters that wrappers have sharded, whole and on the meta device, by module and name.

    Raises:
        CostError: for mixed precision, or sharding on top of tensor parallelism; the message says what to pass instead.
    """
    parameters: dict[int, dict[str, Parameter | None]] = {}
    for module in modules_of(model):
        for owner, name, parameter in _sharded(module):
            parameters.setdefault(id(owner), {})[name] = parameter
    return parameters


def _sharded(module: Module) -> Iterator[tuple[Module, str, Parameter | None]]:
    if _is_fully_sharded(module):
        _check_precision("FullyShardedDataParallel", getattr(module, "mixed_precision", None))
        yield from _in_flat_parameter(module)
    elif _original_class(module) is not None and hasattr(module, "_get_fsdp_state"):
        yield from _in_groups(module)
    elif _replacement(module) is DistributedDataParallel:
        _check_precision("DistributedDataParallel", getattr(module, "mixed_precision", None))


def _in_flat_parameter(module: Module) -> Iterator[tuple[Module, str, Parameter | None]]:
    """Yield what ``FullyShardedDataParallel`` has joined to one flat parameter, in its order."""
    flat: Any = getattr(module._handle, "flat_param", None)
    if flat is None:
        return
    wrapped: Any = module._fsdp_wrapped_module
    for name, parameter in wrapped._parameters.items():
        if parameter is flat:
            yield wrapped, name, None
    originals = flat._params or [flat] * len(flat._param_infos)
    made: dict[tuple[int, str], Parameter] = {}
    for info, shape, original in zip(flat._param_infos, flat._shapes, originals, strict=True):
        parameter = made[id(info.module), info.param_name] = _whole(shape, flat.dtype, original.requires_grad)
        yield info.module, info.param_name, parameter
    for info in flat._shared_param_infos:
        yield info.module, info.param_name, made[id(info.prim_module), info.prim_param_name]


def _in_groups(module: Any) -> Iterator[tuple[Module, str, Parameter | None]]:
    """Yield what ``fully_shard`` has sharded, each parameter by itself."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)  # one group at most before PyTorch 2.13
    for group in groups if groups is not None else filter(None, [state._fsdp_param_group]):
        for sharded in group.fsdp_params:
            _check_precision("fully_shard", (sharded if hasattr(sharded, "mp_policy") else group).mp_policy)
            if sharded.is_dtensor:
                raise CostError(
                    f"{type(module).__name__}: its parameters are sharded by fully_shard on top of tensor parallelism; "
                    "estimate the model before fully_shard"
                )
            original = sharded.sharded_param
            parameter = _whole(sharded._orig_size, original.dtype, original.requires_grad)
            place = sharded._module_info
            yield place.module, place.param_name, parameter
            for owner, name in zip(place.shared_modules, place.shared_param_names, strict=True):
                yield owner, name, parameter


def _whole(shape: Any, dtype: torch.dtype, requires_grad: bool) -> Parameter:
    return Parameter(torch.empty(shape, dtype=dtype, device=META), requires_grad)


def _check_precision(wrapper: str, policy: Any) -> None:
    dtype = getattr(policy, "param_dtype", None)
    if dtype is not None:
        raise CostError(
            f"{wrapper} computes in {dtype_name(dtype)} by its mixed precision; estimate the model before it is "
            f"wrapped, cast by .to({dtype})"
        )
