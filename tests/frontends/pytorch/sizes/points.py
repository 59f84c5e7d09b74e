"""Inputs with numbers in place of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.analyses.sizes.capture import NamedInputs


def sized(inputs: Any, sizes: Mapping[str, int]) -> Any:
    """Return inputs whose named sizes are these numbers."""
    return NamedInputs(inputs).at(sizes)
