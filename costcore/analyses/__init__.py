"""Analyses: what is asked of one trace."""
