"""Operators that JAX spells out, counted as one operator."""
