"""Rows of elementwise operators."""

from __future__ import annotations

from . import arithmetic, foreach, special_functions

ROWS = (*arithmetic.ROWS, *special_functions.ROWS, *foreach.ROWS)
