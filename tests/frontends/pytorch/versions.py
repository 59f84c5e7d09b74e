"""What the installed PyTorch has and lacks, for tests of what only some versions have."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch

RELEASE = ".".join(torch.__version__.split(".")[:2])

_DATA = json.loads((Path(__file__).parents[2] / "data" / "torch_versions.json").read_text())

LACKS: frozenset[str] = frozenset(
    _DATA["lacks"].get(RELEASE, [name for names in _DATA["lacks"].values() for name in names])
)
"""The operators with a mapping rule that this release does not have; of a release that is not listed, those of any."""

IS_LISTED = RELEASE in _DATA["lacks"]

UNPRICED: frozenset[str] = frozenset(_DATA["unpriced"])
"""The operators of any release that have no mapping rule."""


def module(name: str) -> ModuleType | None:
    """Return a module of PyTorch; None if this version lacks it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


module("torch.nn.modules.linear_cross_entropy")  # registers operators of its own
module("torch.distributed.fsdp")  # the same
