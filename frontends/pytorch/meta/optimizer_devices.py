"""The devices on which optimizers of PyTorch accept ``fused=True`` and ``capturable=True``: the meta device, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

_CHECKS = ("_get_fused_kernels_supported_devices", "_get_capturable_supported_devices")
"""The functions of ``torch.optim`` that return the supported devices."""

_LOCK = RLock()


@contextmanager
def supported_on_meta() -> Iterator[None]:
    """Let optimizers run on the meta device as they run on a GPU."""
    with _LOCK:
        found = [
            (module, name, getattr(module, name))
            for path, module in [*sys.modules.items()]
            if path.startswith("torch.optim.")
            for name in _CHECKS
            if hasattr(module, name)
        ]
        for module, name, check in found:
            setattr(module, name, _with_meta(check))
        try:
            yield
        finally:
            for module, name, check in found:
                setattr(module, name, check)


def _with_meta(check: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def devices(*args: Any, **kwargs: Any) -> list[str]:
        return [*check(*args, **kwargs), "meta"]

    return devices
