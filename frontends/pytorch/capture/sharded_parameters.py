"""Parameters that ``fully_shard`` gathers: the shard that a process holds is a part of the parameter that it reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.nn import Module

from ..module_walk import modules_of
from ..recording.call_log import CallLog

_PACKAGE = "torch.distributed.fsdp._fully_shard"


def join_shards(model: Module, logs: Iterable[CallLog]) -> None:
    """Note which shards, which modules hold and optimizers update, are parts of parameters that the model read."""
    kind = getattr(sys.modules.get(_PACKAGE), "FSDPModule", None)
    if kind is None or not kind.__subclasses__():  # fully_shard makes a subclass for every class of modules
        return
    for part, whole in _shards(model):
        for log in logs:
            log.identities.register_part(part, whole)


def _shards(model: Module) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the local shard of every parameter that ``fully_shard`` has gathered, and the gathered parameter."""
    for module in modules_of(model):
        state: Any = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
        groups = getattr(state, "_fsdp_param_groups", [getattr(state, "_fsdp_param_group", None)])
        for group in filter(None, groups):
            for parameter in group.fsdp_params:
                whole = getattr(parameter, "_unsharded_param", None)
                if whole is not None:
                    yield parameter.sharded_param._local_tensor, getattr(whole, "_local_tensor", whole)
