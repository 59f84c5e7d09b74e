"""Limits on what a model may cost."""
