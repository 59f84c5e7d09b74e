"""Operators: how calls of each are treated, cached and replayed."""
