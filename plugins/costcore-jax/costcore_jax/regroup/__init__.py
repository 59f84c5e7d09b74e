"""Operators that JAX decomposes, counted as one operator."""
