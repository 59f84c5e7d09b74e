"""Budgets: limits on the cost of a model, and checking a report against them."""
