"""Rows of elementwise operators."""

from __future__ import annotations

from . import arithmetic, foreach, gradients, special_functions

ROWS = (*arithmetic.ROWS, *special_functions.ROWS, *gradients.ROWS, *foreach.ROWS)
