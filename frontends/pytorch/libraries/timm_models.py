"""Models of timm by name, and the input that their configuration states."""

from __future__ import annotations

from typing import Any

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import did_you_mean

SOURCE = "pretrained_cfg of timm"


def make(name: str) -> tuple[Module, str]:
    """Return the model of that name without weights, and a remark on it.

    Raises:
        ImportError: if timm is not installed.
        CostError: for an unknown name; the message suggests near matches.
    """
    import timm

    if not timm.is_model(name):
        raise CostError(f"timm has no model {name!r}{did_you_mean([name], timm.list_models())}")
    model: Module = timm.create_model(name, pretrained=False)
    return model, ""


def usual_inputs(model: Module, name: str) -> Any:
    """Return the shape of the input in the configuration of a model; None for a model of another library."""
    if not type(model).__module__.startswith("timm."):
        return None
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    size = config.get("input_size") if isinstance(config, dict) else getattr(config, "input_size", None)
    return (1, *size) if size else None
