"""Operators: how the calls of each are treated, cached and replayed."""
