"""Reductions, cumulative operators, sorting and searching."""
