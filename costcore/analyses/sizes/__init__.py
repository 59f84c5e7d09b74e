"""Formulas in sizes: a report whose dimensions are symbols, from captures at integer sizes."""
