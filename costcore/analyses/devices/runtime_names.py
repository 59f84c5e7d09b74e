"""Which device file is that of a device, by the name that its driver states, as traces have it."""

from __future__ import annotations

import re

NAMES = (
    (r"H100 80GB HBM3", "h100-sxm5-80gb"),
    (r"H100 PCIe", "h100-pcie-80gb"),
    (r"H200", "h200-sxm-141gb"),
    (r"B200", "b200-sxm-180gb"),
    (r"A100-SXM4-80GB", "a100-sxm4-80gb"),
    (r"A100-SXM4-40GB|A100-PG509-200", "a100-sxm4-40gb"),
    (r"V100-SXM2-(16|32)GB", "v100-sxm2-16gb"),
    (r"Tesla T4|NVIDIA T4", "t4"),
    (r"NVIDIA L40S", "l40s"),
    (r"NVIDIA L4", "l4"),
    (r"RTX 3090", "rtx3090"),
    (r"RTX 4090", "rtx4090"),
    (r"RTX 5090", "rtx5090"),
    (r"Instinct MI300X", "mi300x"),
    (r"Instinct MI250X", "mi250x-die"),
)
"""Patterns of names, and the name of the device file."""


def device_named(name: str) -> str:
    """Return the name of the device file of a device that its driver calls ``name``; empty if there is none."""
    return next((file for pattern, file in NAMES if re.search(rf"(?:{pattern})(?![\w])", name)), "")
