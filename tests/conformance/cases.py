"""The conformance table: one row a layer and its cost, computed by hand.

``build_<framework>.py`` says how each framework makes the layer; ``test_conformance.py`` holds all of them to the row.
"""

from __future__ import annotations

from tests.conformance.case import Case
from tests.conformance.cases_basic import CASES as BASIC
from tests.conformance.cases_layers import CASES as LAYERS

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (*BASIC, *LAYERS)
