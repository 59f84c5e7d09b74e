"""Modules of tests of what the installed PyTorch may lack altogether."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

NEEDS = {
    "parallel/test_collectives.py": "torch.distributed.fsdp._fully_shard",
    "parallel/test_estimate.py": "torch.distributed.fsdp._fully_shard",
    "parallel/test_mesh.py": "torch.distributed.fsdp._fully_shard",
    "parallel/test_processes.py": "torch.distributed.fsdp._fully_shard",
}
"""A module of PyTorch that all tests of a file need, by the file."""

MISSING = {path: name for path, name in NEEDS.items() if find_spec(name) is None}

collect_ignore = [str(Path(__file__).parent / path) for path in MISSING]


def pytest_report_header() -> list[str]:
    """Return which tests are left out and why."""
    return [f"{path} is left out: this PyTorch has no {name}" for path, name in MISSING.items()]
