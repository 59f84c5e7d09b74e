"""The settings of PyTorch that hold for a whole process."""

from __future__ import annotations

import torch


def process_settings() -> tuple[object, ...]:
    """Return the settings that code can change for all later models of a process."""
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    return torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled(), *modes
