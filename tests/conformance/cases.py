"""The conformance table: one row per layer, with its cost worked out by hand.

``build_<framework>.py`` builds the layer in each framework; ``test_conformance.py`` compares their costs with the row.
"""

from __future__ import annotations

from tests.conformance.case import Case
from tests.conformance.cases_basic import CASES as BASIC
from tests.conformance.cases_layers import CASES as LAYERS

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (*BASIC, *LAYERS)
