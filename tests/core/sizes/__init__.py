"""Formulas in sizes."""
