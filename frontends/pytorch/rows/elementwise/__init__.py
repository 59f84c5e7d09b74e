"""Rows of elementwise operators."""
