"""The conformance table: one row per layer, with its cost worked out by hand.

A frontend offers builders for the rows that it can express; :mod:`costcore.studies.conformance.kit` compares their
costs with the row.
"""

from __future__ import annotations

from costcore.studies.conformance.case import Case
from costcore.studies.conformance.cases_basic import CASES as BASIC
from costcore.studies.conformance.cases_layers import CASES as LAYERS

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (*BASIC, *LAYERS)
